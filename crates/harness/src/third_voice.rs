//! What JVMTI says beside two walkers, for readers.

use serde::{Deserialize, Serialize};
use walkfuzz_record::finding::FindingContradiction;

use crate::counted::Agreements;

/// JVMTI's GetStackTrace, asked before and after both walkers have walked a thread in its handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThirdVoice {
    /// Threads outside Java that were asked: the sum of the following.
    pub asked: u64,
    /// Those that stood still: the same frames before and after, the same frame anchor all the time.
    pub stood_still: u64,
    /// Those that moved in between, or that JVMTI gave no frames of.
    pub moved: u64,
    /// Those that carry a virtual thread: JVMTI gives the carrier's own frames, a walker the virtual thread's.
    pub carriers: u64,
    /// Those that ended, or did not take the signal in time.
    pub missed: u64,
    /// How many different stacks those had that stood still.
    pub stacks: u64,
    /// The walkers beside it.
    pub walkers: Vec<AgainstJvmti>,
}

/// A walker beside JVMTI, of threads that stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgainstJvmti {
    /// Its name.
    pub name: String,
    /// How its walks compare: it is the first, JVMTI the second.
    #[serde(flatten)]
    pub agreements: Agreements,
    /// Of all: with the entry of a compiled method as bytecode -1, which JVMTI gives as 0; counted as the same.
    pub at_entry: u64,
    /// Of those that differ: for a known reason.
    pub known: u64,
    /// The first contradictions of each kind.
    pub examples: Vec<FindingContradiction>,
}

impl AgainstJvmti {
    /// Walks that JVMTI contradicts for no known reason: other frames, or frames beyond the thread's first one.
    #[must_use]
    pub fn contradicted(&self) -> u64 {
        let wrong = self.agreements.differ + self.agreements.second_shorter;
        wrong.saturating_sub(self.known)
    }
}

impl ThirdVoice {
    /// Walks of both that are contradicted for no known reason.
    #[must_use]
    pub fn contradicted(&self) -> u64 {
        self.walkers.iter().map(AgainstJvmti::contradicted).sum()
    }
}
