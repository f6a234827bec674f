//! What walks threads from another one: AsyncGetCallTrace, or a library.
//!
//! Contract: as the walkers'.

use walkfuzz_walkers::{Manner, PluginRemote, Remote, RemoteFacts, RemoteMode, Walker};

/// See the module.
pub(crate) enum Outside {
    /// AsyncGetCallTrace.
    Agct {
        walker: Remote,
        /// What the JVM needs for it.
        facts: RemoteFacts,
    },
    /// The walker of a library.
    Library {
        walker: PluginRemote,
        manner: Manner,
    },
}

impl Outside {
    pub(crate) fn agct(facts: RemoteFacts, mode: RemoteMode) -> Self {
        Outside::Agct {
            walker: Remote::new(facts, mode),
            facts,
        }
    }

    pub(crate) fn walker(&self) -> &dyn Walker {
        match self {
            Outside::Agct { walker, .. } => walker,
            Outside::Library { walker, .. } => walker,
        }
    }

    /// Whether walked threads wait.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Outside::Agct { walker, .. } => walker.mode().holds(),
            Outside::Library { manner, .. } => *manner == Manner::Held,
        }
    }

    /// AsyncGetCallTrace, if it is that.
    pub(crate) fn as_agct(&self) -> Option<(&Remote, &RemoteFacts)> {
        match self {
            Outside::Agct { walker, facts } => Some((walker, facts)),
            Outside::Library { .. } => None,
        }
    }
}
