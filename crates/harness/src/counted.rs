//! Walks of many contexts with two walkers, counted by how natural the contexts are.
//!
//! [`Counts`] lies in memory that frozen copies share: plain numbers, no allocation.

use serde::{Deserialize, Serialize};
use walkfuzz_context::Tier;
use walkfuzz_record::KnownDifference;
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
pub(crate) struct CodeCount {
    pub(crate) walks: u64,
    pub(crate) other_has_frames: u64,
}

/// Everything that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub(crate) tiers: [Agreements; Tier::ALL.len()],
    /// Of walks that do not agree, untouched ones and those of T1 to T3: why.
    pub(crate) known: [[u64; CLASSES]; 2],
    /// Of each walker.
    pub(crate) codes: [[CodeCount; CODES]; 2],
    pub(crate) broke: [u64; 2],
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
}
