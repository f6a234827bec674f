//! The folders of the corpus, and what is expected of their entries.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The folders of the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Walks that every walker must bear.
    Seeds,
    /// Walks that crash.
    Crashing,
    /// Walks that crashed once and did not lately.
    Incubating,
    /// Walks that crash one version and not the one in which that was fixed.
    Regression,
}

impl State {
    /// Every state, in the order in which checks take them.
    pub const ALL: [State; 4] = [
        State::Regression,
        State::Crashing,
        State::Incubating,
        State::Seeds,
    ];

    /// The folder's name.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            State::Seeds => "seeds",
            State::Crashing => "crashing",
            State::Incubating => "incubating",
            State::Regression => "regression",
        }
    }

    /// What its entries' `expected` says.
    #[must_use]
    pub const fn expected(self) -> Expected {
        match self {
            State::Seeds => Expected::Walks,
            State::Crashing | State::Incubating => Expected::Crash,
            State::Regression => Expected::Fixed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.folder())
    }
}

/// What is expected of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// No outcome that a maintainer should see, on any JDK.
    Walks,
    /// The signature, on its JDK.
    Crash,
    /// The signature on its JDK, and not on the one that has the fix.
    Fixed,
}
