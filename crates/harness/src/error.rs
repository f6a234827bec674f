//! Why a session cannot start or go on.

use walkfuzz_engine::EngineError;

/// Errors of a session. Each is one sentence that names what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// A variable of the environment.
    #[error("{name}={value} means nothing: wanted {wanted}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        wanted: String,
    },
    /// The JVM.
    #[error(transparent)]
    Jvm(#[from] walkfuzz_jvm::JvmError),
    /// What a walker needs of the JVM.
    #[error(transparent)]
    Walkers(#[from] walkfuzz_jvm::WalkersError),
    /// A walker from a library.
    #[error(transparent)]
    Plugin(#[from] walkfuzz_walkers::PluginError),
    /// A walker that gives pcs, beside another one.
    #[error(
        "the walker {walker} gives pcs and no method ids, so that its frames and another walker's cannot be held against each other: walk with it alone (WALKFUZZ_ORACLE=none)"
    )]
    GivesPcs {
        /// Its name.
        walker: String,
    },
    /// The workload.
    #[error("only {registered} of {wanted} workload threads registered in time")]
    Workload {
        /// How many did.
        registered: usize,
        /// How many should have.
        wanted: usize,
    },
    /// HotSpot's tables.
    #[error("cannot read HotSpot's own structures: {0}")]
    VmStructs(String),
    /// Symbols of libjvm.
    #[error("cannot read symbols: {0}")]
    Symbols(#[from] walkfuzz_symbols::Error),
    /// The guard.
    #[error("cannot set up crash protection: {0}")]
    Guard(#[from] walkfuzz_guard::GuardError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The record.
    #[error(transparent)]
    Record(#[from] walkfuzz_record::RecordError),
    /// The run folder.
    #[error(transparent)]
    Store(#[from] walkfuzz_record::StoreError),
    /// A walk could not be kept in a file.
    #[error("no capsule: {0}")]
    Capsule(String),
    /// A capsule in which no smaller perturbation can be looked for.
    #[error("cannot be minimised: {0}")]
    NotMinimisable(String),
    /// A capsule in which another walker cannot be asked.
    #[error("no second opinion: {0}")]
    NoOpinion(String),
    /// A snapshot could not be taken, read or shown.
    #[error("no snapshot: {0}")]
    Snapshot(String),
    /// A folder or file that should hold snapshots and does not.
    #[error("no snapshot: {0}")]
    SnapshotFile(String),
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl HarnessError {
    /// The exit code of a program that ends with this error: 2 for usage, 3 for the environment.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            HarnessError::Variable { .. }
            | HarnessError::GivesPcs { .. }
            | HarnessError::SnapshotFile(_) => 2,
            HarnessError::Plugin(error) => error.exit_code(),
            _ => 3,
        }
    }
}
