//! Why nothing can be fuzzed here.

use std::path::PathBuf;

use walkfuzz_harness::HarnessError;
use walkfuzz_jvm::JvmError;
use walkfuzz_stress::agents::AgentError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No JDK, or not the one that was named.
    #[error(transparent)]
    Jvm(#[from] JvmError),
    /// The agent that edits the queue is not here.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// JFR of this JDK has no such queue.
    #[error(
        "JFR of JDK {0} has no queue of samples; from JDK 25 on it has one: name such a JDK with WALKFUZZ_JDK"
    )]
    TooOld(u32),
    /// A session's.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// ASGST's functions are not all there.
    #[error("this JVM exports some functions of ASGST, and not all that the target calls")]
    Incomplete,
    /// There is no such queue to choose.
    #[error("WALKFUZZ_QUEUE is {0:?}; expected own or jfr, and jfr for queue_elements alone")]
    Choice(String),
    /// The command of the JVM cannot be made.
    #[error("cannot start a JVM: {0}")]
    Start(String),
    /// It came to no sample.
    #[error("the JVM took no edit in {seconds} s: {said}; its output is in {}", folder.display())]
    Deaf {
        /// How long it had.
        seconds: u64,
        /// What the interposer said, if anything.
        said: String,
        /// Where its output is.
        folder: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl QueueError {
    /// What the program ends with: 2 for usage, 3 for the environment.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            QueueError::Agent(AgentError::NoFile { .. })
            | QueueError::Choice(_)
            | QueueError::Jvm(JvmError::BadSetting { .. }) => 2,
            QueueError::Harness(error) => error.exit_code(),
            _ => 3,
        }
    }
}
