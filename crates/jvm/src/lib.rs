//! Finding, installing, checking and starting a HotSpot JVM.
//!
//! The way is [`Places::choose`] (which JDK), [`check`] (can its libjvm be used), [`start`] (a JVM inside this process),
//! [`Jvm::start_workload`] (Java threads whose stacks can be walked). The environment variables that steer it are listed at
//! [`JvmOptions::from_env`].
//!
//! Contract: nothing here may be called from a signal handler. One JVM per process: HotSpot cannot be started twice.

mod agent_options;
mod catalogue;
pub mod check;
mod debian;
mod error;
mod extensions;
mod find;
mod hooks;
mod host;
mod install;
mod jdk;
mod jvmti;
mod methods;
mod options;
mod predecessors;
mod protection;
mod stacks;
mod start;
mod version;
mod walkers;
mod words;
mod workload;

pub use agent_options::{escaped, unescaped};
pub use catalogue::{CATALOGUE, DEFAULT_JDK, Pinned, Registry, pinned};
pub use error::JvmError;
pub use extensions::ExtensionFunction;
pub use find::{Candidate, Places};
pub use host::{HostError, HostFacts, HostJvm, Libjvm, libjvm_module};
pub use install::{install, install_for};
pub use jdk::{Jdk, Source};
pub use jvmti::{Jvmti, java_thread_of};
pub use methods::{MethodId, Methods, ThreadHooks};
pub use options::{Collector, JvmOptions};
pub use protection::{Protection, ask_jvm_at_safefetch, tell_guard};
pub use stacks::{PlatformThread, StackFrame};
pub use start::{Jvm, start};
pub use version::Version;
pub use walkers::{WalkersError, library_facts};
pub use workload::{FRAMES_JAR, Workload, WorkloadHooks, place_frames, place_jar};
