//! What came of walking many contexts with two walkers, for readers.

use serde::{Deserialize, Serialize};
use walkfuzz_context::Tier;
use walkfuzz_record::finding::{FindingBlob, FindingContradiction};
use walkfuzz_record::{Code, Generation, KOfN, KnownDifference, code_name};

use crate::counted::{CodeCount, Counts};

pub use crate::counted::Agreements;
pub use crate::third_voice::{AgainstJvmti, ThirdVoice};

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
    /// What JVMTI says to both, of threads that stand still; absent if it was not asked.
    pub jvmti: Option<ThirdVoice>,
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
            jvmti: None,
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

    /// Untouched contexts in which both gave the same frames, of all in which both gave frames.
    #[must_use]
    pub fn untouched_equal(&self) -> KOfN {
        let untouched = self.tier(Tier::T0);
        KOfN::new(untouched.agree, untouched.both())
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
    use walkfuzz_walkers::Agreement;

    use super::*;
    use crate::counted::Plain;

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
        assert_eq!(said.untouched_equal(), KOfN::new(8, 10));
    }
}
