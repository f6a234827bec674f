//! What samples are walked with, as the options choose it.
//!
//! Contract: not for handlers.

use jvmti_bindings::sys::jvmti::{jvmtiEnv, jvmtiError};
use walkfuzz_jvm::{JvmError, Jvmti};
use walkfuzz_record::{Generation, WalkerInfo};
use walkfuzz_walkers::{ExtensionCall, RemoteMode, RequestStackTrace};

/// The walkers, as messages name them.
pub(crate) const WALKERS: &str =
    "agct, agct-remote-env, agct-remote-tid, agct-remote-running or request-stack-trace";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkerChoice {
    /// AsyncGetCallTrace in the handler.
    Agct,
    /// AsyncGetCallTrace from another thread.
    Remote(RemoteMode),
    /// JVMTI's extension function RequestStackTrace.
    Request,
}

/// Why RequestStackTrace cannot be driven.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRequest {
    #[error(
        "this JVM offers no {}: walker={} has nothing to ask",
        RequestStackTrace::FUNCTION,
        RequestStackTrace::NAME
    )]
    NotThere,
    #[error(transparent)]
    Jvm(#[from] JvmError),
}

impl WalkerChoice {
    /// The walker of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "agct" => Some(WalkerChoice::Agct),
            RequestStackTrace::NAME => Some(WalkerChoice::Request),
            _ => RemoteMode::from_name(name).map(WalkerChoice::Remote),
        }
    }

    /// The walkers of its record, in a JVM of that version. The first one is the code under test.
    pub(crate) fn recorded(self, version: &str) -> Vec<WalkerInfo> {
        let walker = |name: &str, generation| WalkerInfo {
            name: name.to_owned(),
            generation,
            version: version.to_owned(),
        };
        let agct = walker("agct", Generation::Agct);
        match self {
            WalkerChoice::Agct => vec![agct],
            // The second one is what handlers walk with.
            WalkerChoice::Remote(mode) => vec![walker(mode.name(), Generation::Agct), agct],
            WalkerChoice::Request => {
                vec![walker(
                    RequestStackTrace::NAME,
                    Generation::RequestStackTrace,
                )]
            }
        }
    }
}

/// As JVMTI declares extension functions.
type ExtensionFunction = unsafe extern "C" fn(*mut jvmtiEnv, ...) -> jvmtiError;

/// The walker that asks with RequestStackTrace.
pub(crate) fn requester(jvmti: Jvmti) -> Result<RequestStackTrace, NoRequest> {
    let found = jvmti.extension_function(RequestStackTrace::FUNCTION)?;
    let function = found.ok_or(NoRequest::NotThere)?.function;
    // SAFETY: both begin with a pointer, take more behind it and return a 32-bit error.
    let function = unsafe { std::mem::transmute::<ExtensionFunction, ExtensionCall>(function) };
    // SAFETY: this JVM's own, as JVMTI shows it; environment and function stay.
    Ok(unsafe { RequestStackTrace::new(function, jvmti.raw().cast()) })
}
