//! Bug or robustness: a grade, with the reason that a reader wants.

use std::fmt;

use walkfuzz_context::witness::Grade;
use walkfuzz_context::{Tier, Witness};
use walkfuzz_record::KOfN;

use crate::interval::share_text;

/// A finding's grade and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Only T0, or T1 to T3 with a witness, is a bug.
    pub grade: Grade,
    /// The reason, as half a sentence.
    pub because: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.grade, self.because)
    }
}

/// Grades a finding of `tier` whose class of contexts was observed as `witness` says.
#[must_use]
pub fn verdict(tier: Tier, witness: Witness) -> Verdict {
    let meaning = tier.meaning();
    let because = match tier {
        Tier::T0 => format!("{tier}, {meaning}"),
        Tier::T1 | Tier::T2 | Tier::T3 if witness.is_observed() => {
            let share = share_text(KOfN::new(witness.observed, witness.of));
            format!("{tier}, {meaning}; its like was observed in {share} untouched contexts")
        }
        Tier::T1 | Tier::T2 | Tier::T3 if witness.of == 0 => {
            format!("{tier}, {meaning}; no untouched context was counted")
        }
        Tier::T1 | Tier::T2 | Tier::T3 => {
            let share = share_text(KOfN::new(0, witness.of));
            format!("{tier}, {meaning}; never observed: {share} untouched contexts")
        }
        Tier::T4 => format!("{tier}, {meaning}"),
    };
    Verdict {
        grade: Grade::of(tier, witness),
        because,
    }
}
