//! What can go wrong outside a guarded call.

use std::io;

use walkfuzz_context::Address;

/// Errors of installing the guard, of registering threads and of alarms.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// Which one.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The alarm's signal cannot be used.
    #[error("signal {signal} cannot be the alarm's: {reason}")]
    AlarmSignal {
        /// The signal asked for.
        signal: i32,
        /// Why not.
        reason: &'static str,
    },
    /// Somebody replaced the handlers again and again.
    #[error("the handler of signal {signal} was replaced by others {times} times; giving up")]
    HandlerWar {
        /// The signal.
        signal: i32,
        /// How often it was taken back.
        times: usize,
    },
    /// Every slot belongs to a living thread.
    #[error("all {slots} guard slots are taken by living threads")]
    NoSlot {
        /// Slots there are.
        slots: usize,
    },
    /// The thread runs on a signal stack that is too small for fault handlers and cannot be replaced while in use.
    #[error("the thread runs on a signal stack of {size} bytes; register it before it does")]
    OnSignalStack {
        /// Its size.
        size: usize,
    },
    /// The calling thread is not registered.
    #[error("the thread is not registered with the guard")]
    NotRegistered,
    /// The thread is inside a guarded call.
    #[error("the thread is inside a guarded call")]
    InGuardedCall,
    /// More SafeFetch sites than the table holds.
    #[error("{given} SafeFetch sites given, room for {room}")]
    TooManySites {
        /// Sites passed in.
        given: usize,
        /// Sites the table holds.
        room: usize,
    },
    /// User space cannot single-step on this architecture.
    #[error("no trap flag in user space on this architecture")]
    NoTrapFlag,
}

impl GuardError {
    /// The last system call's error. Allocates nothing.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::System {
            call,
            source: io::Error::last_os_error(),
        }
    }
}

/// Memory that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {length} bytes at {address}")]
pub struct Unreadable {
    /// Start of the range asked for.
    pub address: Address,
    /// Its length in bytes.
    pub length: usize,
}
