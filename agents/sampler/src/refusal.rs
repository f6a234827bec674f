//! Why a JVM is not sampled, in one sentence.

use walkfuzz_asgst::{SafepointError, VmError};
use walkfuzz_guard::GuardError;
use walkfuzz_jvm::{HostError, JvmError, WalkersError};
use walkfuzz_record::RecordError;
use walkfuzz_walkers::{PluginError, ReferenceError, RemoteError};

use crate::options::OptionError;
use crate::signals::SignalError;

/// Why there is no sampling.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Options(#[from] OptionError),
    #[error("stop means something only to a JVM that is sampled")]
    NothingToStop,
    #[error("this JVM is sampled already; stop that first")]
    Already,
    #[error(transparent)]
    Vm(#[from] HostError),
    #[error(transparent)]
    Jvm(#[from] JvmError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Signal(#[from] SignalError),
    #[error("perf events cannot be had: {0}; see /proc/sys/kernel/perf_event_paranoid")]
    Perf(std::io::Error),
    #[error("ITIMER_PROF is in use already: another profiler is at work")]
    Itimer,
    #[error("cannot set up crash protection: {0}")]
    Guard(#[from] GuardError),
    #[error("single steps cannot be had on this architecture")]
    CannotStep,
    #[error("cannot get a page of memory or a thread: {0}")]
    System(#[from] std::io::Error),
    #[error("this JVM does not say which thread is which")]
    NoIdentity,
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("the reference walker cannot walk this JVM: {0}")]
    Reference(#[from] ReferenceError),
    #[error("ASGST cannot serve this JVM: {0}")]
    Asgst(#[from] VmError),
    #[error("no safepoint queues: {0}")]
    Queue(#[from] SafepointError),
    #[error(transparent)]
    Walkers(#[from] WalkersError),
    #[error(transparent)]
    Plugin(#[from] PluginError),
}
