//! The code under test, behind one trait.
//!
//! A [`Walker`] says how to call an asynchronous stack walker: what it walks from, how its output is laid out and what its
//! codes mean. The call itself is made by an engine or an agent, under a guard ([`walk_guarded`]) or bare ([`walk_bare`]); see
//! [`Walker`] for the contract of both sides.

mod agct;
mod agreement;
#[cfg(test)]
mod example;
mod from_frame;
mod known;
mod plugin;
mod reference;
mod remote;
mod request;
mod ticks;
mod trace;
mod walked;
mod walker;

pub use agct::Agct;
pub use agreement::{Agreement, Voice, compare, contradiction};
pub use from_frame::{FromFrame, as_frame};
pub use known::{Explainer, Referee, as_interrupted, behind_whole, known_difference};
pub use plugin::abi as plugin_abi;
pub use plugin::{
    Facts, Library, Manner, Plugin, PluginError, PluginPath, PluginRemote, check_name,
};
pub use reference::{ReferenceWalker, trace_reference};
pub use remote::{NoSuchThread, Remote, RemoteError, RemoteFacts, RemoteMode, agct_mark};
pub use request::{ExtensionCall, NoRequestStackTrace, RequestStackTrace};
pub use ticks::{tick_hz, ticks};
pub use trace::{CANARY, CallTrace, Frame, MAX_DEPTH, TraceBuffer, hash};
pub use walked::{Ended, Walked, fault_record, walk_bare, walk_guarded};
pub use walker::{Call, Methods, Start, ThreadHandle, WalkFunction, Walker};
pub use walkfuzz_reference::ReferenceError;
