//! What came of walking many contexts with two walkers: counts, by how natural the contexts are.
//!
//! [`Counts`] lies in memory that frozen copies share; [`Comparison`] is the same for readers.

use serde::{Deserialize, Serialize};
use walkfuzz_context::Tier;
use walkfuzz_record::finding::{FindingBlob, FindingContradiction};
use walkfuzz_record::{Code, Generation, KOfN, KnownDifference, code_name};
use walkfuzz_walkers::{Agreement, Voice};

/// Codes 0 to -32, and all others.
const CODES: usize = 34;
/// The known differences, and none of them.
const CLASSES: usize = KnownDifference::ALL.len() + 1;

/// What a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// So many frames, or a code.
    Returned(i32),
    /// A fault, a hang, or more than it was allowed.
    Broke,
}

impl Plain {
    /// How many frames there are.
    pub(crate) fn frames(self) -> usize {
        match self {
            Plain::Returned(code) => usize::try_from(code).unwrap_or(0),
            Plain::Broke => 0,
        }
    }
}

/// How often walks of contexts of one tier compared how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreements {
    /// Contexts: the sum of the following.
    pub contexts: u64,
    /// The same frames.
    pub agree: u64,
    /// The first walker's frames are the first of the second's.
    pub first_shorter: u64,
    /// The other way round.
    pub second_shorter: u64,
    /// Frames that contradict each other.
    pub differ: u64,
    /// Only the first gives frames.
    pub only_first: u64,
    /// Only the second does.
    pub only_second: u64,
    /// None does.
    pub neither: u64,
}

impl Agreements {
    fn count(&mut self, agreement: Agreement) {
        self.contexts += 1;
        let slot = match agreement {
            Agreement::Agree => &mut self.agree,
            Agreement::Prefix {
                shorter: Voice::First,
                ..
            } => &mut self.first_shorter,
            Agreement::Prefix {
                shorter: Voice::Second,
                ..
            } => &mut self.second_shorter,
            Agreement::Differ { .. } => &mut self.differ,
            Agreement::OnlyFirst => &mut self.only_first,
            Agreement::OnlySecond => &mut self.only_second,
            Agreement::Neither => &mut self.neither,
        };
        *slot += 1;
    }

    /// Contexts in which both gave frames.
    #[must_use]
    pub fn both(&self) -> u64 {
        self.agree + self.first_shorter + self.second_shorter + self.differ
    }
}

/// A walker's walks that ended with a code, and how often the other had frames there.
#[derive(Clone, Copy, Debug, Default)]
struct CodeCount {
    walks: u64,
    other_has_frames: u64,
}

/// Everything that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    tiers: [Agreements; Tier::ALL.len()],
    /// Of walks that do not agree, untouched ones and those of T1 to T3: why.
    known: [[u64; CLASSES]; 2],
    codes: [[CodeCount; CODES]; 2],
    broke: [u64; 2],
    /// Examples that were written down, by tier and class of difference.
    examples: [[u8; CLASSES]; Tier::ALL.len()],
    /// Frozen copies that were made, and that were lost.
    pub(crate) copies: u64,
    pub(crate) lost: u64,
    /// Contexts walked in copies, and the time that took.
    pub(crate) in_copies: u64,
    pub(crate) nanoseconds_in_copies: u64,
}

/// Examples of each tier and class.
const EXAMPLES: u8 = 2;

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            tiers: [Agreements::default(); Tier::ALL.len()],
            known: [[0; CLASSES]; 2],
            codes: [[CodeCount::default(); CODES]; 2],
            broke: [0; 2],
            examples: [[0; CLASSES]; Tier::ALL.len()],
            copies: 0,
            lost: 0,
            in_copies: 0,
            nanoseconds_in_copies: 0,
        }
    }

    /// Contexts so far.
    #[must_use]
    pub fn contexts(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.contexts).sum()
    }

    pub(crate) fn count(&mut self, tier: Tier, walks: [Plain; 2], agreement: Agreement) {
        if let Some(tier) = self.tiers.get_mut(tier as usize) {
            tier.count(agreement);
        }
        let [first, second] = walks;
        let pairs = self.codes.iter_mut().zip(&mut self.broke);
        for ((codes, broke), (own, other)) in pairs.zip([(first, second), (second, first)]) {
            match own {
                Plain::Broke => *broke += 1,
                Plain::Returned(code) if code <= 0 => {
                    let slot = (code.unsigned_abs() as usize).min(CODES - 1);
                    if let Some(count) = codes.get_mut(slot) {
                        count.walks += 1;
                        count.other_has_frames += u64::from(other.frames() > 0);
                    }
                }
                Plain::Returned(_) => {}
            }
        }
    }

    /// Counts why two walks do not agree; whether an example of it is wanted.
    pub(crate) fn explain(&mut self, tier: Tier, known: Option<KnownDifference>) -> bool {
        let class = class(known);
        if tier < Tier::T4
            && let Some(count) = self.known[usize::from(tier != Tier::T0)].get_mut(class)
        {
            *count += 1;
        }
        let examples = self.examples.get_mut(tier as usize);
        let Some(examples) = examples.and_then(|tier| tier.get_mut(class)) else {
            return false;
        };
        let wanted = *examples < EXAMPLES;
        *examples += u8::from(wanted);
        wanted
    }
}

fn class(known: Option<KnownDifference>) -> usize {
    known.map_or(CLASSES - 1, |known| known as usize - 1)
}

/// The contexts of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierRow {
    /// `T0` to `T4`.
    pub tier: String,
    /// How the walks compare.
    #[serde(flatten)]
    pub agreements: Agreements,
}

/// Why walks do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRow {
    /// The difference; absent where it is none of those that are known.
    pub known: Option<KnownDifference>,
    /// Of walks of untouched contexts.
    pub untouched: u64,
    /// Of walks of contexts of T1 to T3.
    pub natural: u64,
}

/// A walker, and the codes that it gave instead of frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceRow {
    /// Its name.
    pub name: String,
    /// Walks that faulted, hung or gave more frames than they may.
    pub broke: u64,
    /// Codes, the most frequent first.
    pub codes: Vec<CodeRow>,
}

/// A code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRow {
    /// The code; the last of them stands for all below it.
    pub code: i32,
    /// Its name.
    pub name: String,
    /// Walks in which the other walker gives frames, of those with the code. Nothing proves these frames.
    pub other_has_frames: KOfN,
}

/// A difference in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// How natural the context is.
    pub tier: String,
    /// What was done to it.
    pub perturbation: String,
    /// The code at the walked pc.
    pub code: FindingBlob,
    /// What both say.
    pub contradiction: FindingContradiction,
}

/// Two walkers side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The walkers; `first` and `second` in the rows.
    pub walkers: [VoiceRow; 2],
    /// By tier; `T0` is untouched.
    pub tiers: Vec<TierRow>,
    /// Why walks do not agree.
    pub known: Vec<KnownRow>,
    /// The time that it took.
    pub seconds: f64,
    /// Frozen copies, and of these the lost ones.
    pub copies: u64,
    /// Copies that did not come to an end.
    pub lost: u64,
    /// Contexts a second inside copies; absent if none was walked there.
    pub per_second_in_copies: Option<f64>,
    /// Differences in full.
    pub examples: Vec<Example>,
}

impl Comparison {
    pub(crate) fn of(
        counts: &Counts,
        walkers: [(&str, Generation); 2],
        seconds: f64,
        examples: Vec<Example>,
    ) -> Self {
        let voice = |index: usize, (name, generation): (&str, Generation)| VoiceRow {
            name: name.to_owned(),
            broke: counts.broke.get(index).copied().unwrap_or(0),
            codes: codes(
                counts.codes.get(index).map_or(&[], |codes| &codes[..]),
                generation,
            ),
        };
        let [first, second] = walkers;
        let tiers = Tier::ALL.into_iter().zip(counts.tiers);
        let classes = KnownDifference::ALL.into_iter().map(Some).chain([None]);
        let [untouched, natural] = counts.known;
        let known = classes.zip(untouched.into_iter().zip(natural));
        let in_copies = counts.nanoseconds_in_copies as f64 / 1e9;
        Self {
            walkers: [voice(0, first), voice(1, second)],
            tiers: tiers
                .map(|(tier, agreements)| TierRow {
                    tier: tier.name().to_owned(),
                    agreements,
                })
                .collect(),
            known: known
                .map(|(known, (untouched, natural))| KnownRow {
                    known,
                    untouched,
                    natural,
                })
                .collect(),
            seconds,
            copies: counts.copies,
            lost: counts.lost,
            per_second_in_copies: (in_copies > 0.0).then(|| counts.in_copies as f64 / in_copies),
            examples,
        }
    }

    /// The contexts of a tier.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> Agreements {
        let row = self.tiers.iter().find(|row| row.tier == tier.name());
        row.map_or(Agreements::default(), |row| row.agreements)
    }

    /// Untouched contexts in which both gave frames and agree or differ in a known way, of all in which both gave frames.
    #[must_use]
    pub fn untouched_agreement(&self) -> KOfN {
        let untouched = self.tier(Tier::T0);
        KOfN::new(
            untouched.both().saturating_sub(self.unexplained()),
            untouched.both(),
        )
    }

    /// Untouched contexts whose walks do not agree for no known reason.
    #[must_use]
    pub fn unexplained(&self) -> u64 {
        let open = self.known.iter().filter(|row| row.known.is_none());
        open.map(|row| row.untouched).sum()
    }
}

fn codes(counts: &[CodeCount], generation: Generation) -> Vec<CodeRow> {
    let mut rows: Vec<CodeRow> = (0_i32..)
        .zip(counts)
        .filter(|(_, count)| count.walks > 0)
        .map(|(number, count)| CodeRow {
            code: -number,
            name: code_name(generation, Code(-number)).to_owned(),
            other_has_frames: KOfN::new(count.other_has_frames, count.walks),
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.other_has_frames.of));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_context_is_in_one_column() {
        let mut counts = Counts::new();
        let all = [
            Agreement::Agree,
            Agreement::Prefix {
                shorter: Voice::First,
                frames: 1,
            },
            Agreement::Prefix {
                shorter: Voice::Second,
                frames: 1,
            },
            Agreement::Differ { at: 0 },
            Agreement::OnlyFirst,
            Agreement::OnlySecond,
            Agreement::Neither,
        ];
        for agreement in all {
            counts.count(
                Tier::T1,
                [Plain::Returned(3), Plain::Returned(-5)],
                agreement,
            );
        }
        let row = counts.tiers[Tier::T1 as usize];
        let ends = row.only_first + row.only_second + row.neither;
        assert_eq!((row.contexts, row.both(), ends), (7, 4, 3));
        assert_eq!(counts.contexts(), 7);
    }

    #[test]
    fn codes_say_how_often_the_other_had_frames() {
        let mut counts = Counts::new();
        for (own, other) in [(-5, 4), (-5, 0), (2, 4), (-100, 1)] {
            let walks = [Plain::Returned(own), Plain::Returned(other)];
            counts.count(Tier::T0, walks, Agreement::Neither);
        }
        counts.count(
            Tier::T0,
            [Plain::Broke, Plain::Returned(1)],
            Agreement::OnlySecond,
        );
        let names = [
            ("agct", Generation::Agct),
            ("reference", Generation::Reference),
        ];
        let said = Comparison::of(&counts, names, 1.0, Vec::new());
        let [agct, reference] = &said.walkers;
        assert_eq!(agct.broke, 1);
        assert_eq!(agct.codes[0].code, -5);
        assert_eq!(agct.codes[0].other_has_frames, KOfN::new(1, 2));
        assert_eq!(agct.codes[1].other_has_frames, KOfN::new(1, 1));
        assert_eq!(reference.codes[0].other_has_frames, KOfN::new(0, 1));
    }

    #[test]
    fn known_differences_are_no_disagreement() {
        let mut counts = Counts::new();
        let both = [Plain::Returned(3); 2];
        for _ in 0..8 {
            counts.count(Tier::T0, both, Agreement::Agree);
        }
        counts.count(Tier::T0, both, Agreement::Differ { at: 0 });
        assert!(counts.explain(Tier::T0, Some(KnownDifference::ReturnAddress)));
        counts.count(Tier::T0, both, Agreement::Differ { at: 0 });
        assert!(counts.explain(Tier::T0, None));
        assert!(counts.explain(Tier::T0, None) && !counts.explain(Tier::T0, None));
        let names = [("a", Generation::Agct), ("b", Generation::Reference)];
        let said = Comparison::of(&counts, names, 1.0, Vec::new());
        assert_eq!(said.unexplained(), 3);
        assert_eq!(said.untouched_agreement(), KOfN::new(7, 10));
    }
}
