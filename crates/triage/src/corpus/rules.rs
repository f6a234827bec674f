//! The rules by which a check judges and moves an entry.

use serde::{Deserialize, Serialize};

use crate::corpus::State;

/// Checks in a row without reproduction after which a crashing entry incubates.
pub const MISSES: u32 = 3;

/// What a check saw on one JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It happened.
    Again,
    /// It did not, at enough moments to say so.
    NotAgain,
    /// Nobody knows: the JVM is missing, or too little was walked.
    Unknown,
}

/// What a check says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// As expected.
    Pass,
    /// Not as expected.
    Fail,
    /// Nothing was proven.
    Unknown,
}

/// What follows from a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: CheckVerdict,
    /// The entry's misses from now on.
    pub misses: u32,
    /// Where it moves.
    pub moves_to: Option<State>,
}

/// The rules: what was seen on the JVM that an entry crashes (for seeds: on any), and on the one that has the fix.
#[must_use]
pub fn rule(state: State, misses: u32, bad: Observed, fixed: Observed) -> Ruling {
    use CheckVerdict::{Fail, Pass, Unknown};
    let ruling = |verdict, misses, moves_to| Ruling {
        verdict,
        misses,
        moves_to,
    };
    match (state, bad, fixed) {
        (State::Seeds, Observed::Again, _) => ruling(Fail, 0, None),
        (State::Seeds, Observed::NotAgain, _) => ruling(Pass, 0, None),
        // A fix that does not hold is the worst news, whatever else is known.
        (State::Regression, _, Observed::Again) => ruling(Fail, 0, Some(State::Crashing)),
        (State::Regression, Observed::Again, Observed::NotAgain) => ruling(Pass, 0, None),
        // Without the crash on the bad version, its absence on the good one says nothing.
        (State::Regression, Observed::NotAgain, _) => ruling(Unknown, misses + 1, None),
        (State::Crashing, Observed::Again, _) => ruling(Pass, 0, None),
        (State::Crashing, Observed::NotAgain, _) => {
            let misses = misses + 1;
            let moves = (misses >= MISSES).then_some(State::Incubating);
            ruling(Unknown, misses, moves)
        }
        (State::Incubating, Observed::Again, _) => ruling(Pass, 0, Some(State::Crashing)),
        (State::Incubating, Observed::NotAgain, _) => ruling(Pass, misses + 1, None),
        (_, Observed::Unknown, _) | (State::Regression, _, Observed::Unknown) => {
            ruling(Unknown, misses, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_move_by_the_rules() {
        use CheckVerdict::{Fail, Pass, Unknown};
        use Observed::{Again, NotAgain};
        let of = |state, misses, bad, fixed| {
            let ruling = rule(state, misses, bad, fixed);
            (ruling.verdict, ruling.misses, ruling.moves_to)
        };
        let nobody = Observed::Unknown;
        // Three misses in a row, then it incubates, and comes back when it is seen.
        assert_eq!(of(State::Crashing, 0, NotAgain, nobody), (Unknown, 1, None));
        let moved = (Unknown, 3, Some(State::Incubating));
        assert_eq!(of(State::Crashing, 2, NotAgain, nobody), moved);
        assert_eq!(of(State::Crashing, 2, Again, nobody), (Pass, 0, None));
        assert_eq!(of(State::Incubating, 3, NotAgain, nobody), (Pass, 4, None));
        let back = (Pass, 0, Some(State::Crashing));
        assert_eq!(of(State::Incubating, 9, Again, nobody), back);
        // A fix has to hold, and the bug has to show where it is.
        assert_eq!(of(State::Regression, 1, Again, NotAgain), (Pass, 0, None));
        let broken = (Fail, 0, Some(State::Crashing));
        assert_eq!(of(State::Regression, 0, Again, Again), broken);
        assert_eq!(of(State::Regression, 0, nobody, Again), broken);
        assert_eq!(
            of(State::Regression, 0, NotAgain, NotAgain),
            (Unknown, 1, None)
        );
        assert_eq!(of(State::Regression, 0, Again, nobody), (Unknown, 0, None));
        assert_eq!(
            of(State::Regression, 0, nobody, NotAgain),
            (Unknown, 0, None)
        );
        assert_eq!(of(State::Seeds, 0, Again, nobody), (Fail, 0, None));
        // A JDK that is missing changes nothing and proves nothing.
        for state in State::ALL {
            assert_eq!(of(state, 2, nobody, nobody), (Unknown, 2, None), "{state}");
        }
    }
}
