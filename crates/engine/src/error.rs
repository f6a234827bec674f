//! What can go wrong in an engine.

use crate::freeze::FrozenEnd;

/// Errors of engines.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// SIGPROF could not be taken.
    #[error("cannot install the sampling handler for SIGPROF: {0}")]
    Signal(#[source] std::io::Error),
    /// No memory for the engine's stacks.
    #[error("cannot map the engine's idle stack: {0}")]
    Memory(#[source] std::io::Error),
    /// No thread to walk from.
    #[error("cannot start the thread that walks others: {0}")]
    Hand(#[source] std::io::Error),
    /// The guard refused this thread.
    #[error("cannot protect the calling thread: {0}")]
    Guard(#[source] walkfuzz_guard::GuardError),
    /// No Java thread has registered.
    #[error("no Java thread has registered with the engine")]
    NoWorkers,
    /// No sample came in time: the workload hangs, or is never in Java code.
    #[error("no sample in Java code arrived in time: the workload hangs or never runs Java code")]
    NoSample,
    /// This architecture has no trap flag.
    #[error("this architecture cannot single-step a thread from its own handler")]
    CannotStep,
    /// Nothing to walk.
    #[error("there is no snapshot to walk: walkfuzz snapshots take")]
    NoSnapshot,
    /// A snapshot cannot be mapped.
    #[error("cannot show a snapshot: {0}")]
    Snapshot(String),
    /// The kernel cannot fork.
    #[error("cannot fork a frozen copy: {0}")]
    Fork(#[source] std::io::Error),
    /// A frozen copy did not end as it should.
    #[error("a frozen copy ended early: {0:?}")]
    Copy(FrozenEnd),
}
