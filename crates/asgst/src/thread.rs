//! The thread that is walked: which it is, what state it is in.
//!
//! Contract: signal-safe.

use std::ffi::c_int;

use walkfuzz_context::Address;
use walkfuzz_reference::{CheckedMemory, Thread};
use walkfuzz_vmstructs::{Memory as _, MissingEntry, Tables};

use crate::abi::iterator::error;
use crate::vm::Vm;

/// JVMTI's thread states (jvmti.h), as far as they can be told from outside the heap.
pub(crate) mod jvmti_state {
    pub(crate) const ALIVE: i32 = 0x1;
    pub(crate) const RUNNABLE: i32 = 0x4;
    pub(crate) const WAITING_INDEFINITELY: i32 = 0x10;
    pub(crate) const WAITING: i32 = 0x80;
    pub(crate) const IN_OBJECT_WAIT: i32 = 0x100;
    pub(crate) const BLOCKED_ON_MONITOR_ENTER: i32 = 0x400;
    pub(crate) const IN_NATIVE: i32 = 0x40_0000;
}

/// Values between `_thread_exiting` and the last that a thread on its way out has (javaThread.hpp, `TerminatedTypes`).
const TERMINATED: i32 = 4;

/// What a thread is doing, as far as it matters to a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Java, native code, the JVM's code, or waiting in it.
    Something,
    /// On its way between them: it may be about to stop at a safepoint.
    Passing,
    /// It is only being made.
    New,
    /// On its way out.
    Exiting,
    /// Nothing that is known.
    Unknown,
}

/// Where threads keep what is looked at here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadFields {
    state: u64,
    in_native: i32,
    in_java: i32,
    in_vm: i32,
    blocked: i32,
    new: i32,
    terminated: u64,
    exiting: i32,
    pending_monitor: u64,
    waiting_monitor: u64,
}

impl ThreadFields {
    pub(crate) fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let offset = |name: &str| tables.require_of_thread(name);
        let number = |name: &str| tables.require_thread_state(name);
        Ok(Self {
            state: offset("_thread_state")?,
            in_native: number("_thread_in_native")?,
            in_java: number("_thread_in_Java")?,
            in_vm: number("_thread_in_vm")?,
            blocked: number("_thread_blocked")?,
            new: number("_thread_new")?,
            terminated: offset("_terminated")?,
            exiting: number("JavaThread::_thread_exiting")?,
            pending_monitor: offset("_current_pending_monitor")?,
            waiting_monitor: offset("_current_waiting_monitor")?,
        })
    }

    fn state(&self, thread: Address) -> Option<i32> {
        CheckedMemory.read_i32(at(thread, self.state)).ok()
    }

    /// What the thread is doing.
    #[inline]
    pub(crate) fn doing(&self, thread: Address) -> Doing {
        let terminated = CheckedMemory.read_i32(at(thread, self.terminated));
        let (Ok(terminated), Some(state)) = (terminated, self.state(thread)) else {
            return Doing::Unknown;
        };
        if (self.exiting..self.exiting + TERMINATED).contains(&terminated) {
            return Doing::Exiting;
        }
        let settled = [self.in_java, self.in_native, self.in_vm, self.blocked];
        match state {
            state if settled.contains(&state) => Doing::Something,
            // Each state's number is even, and the way out of it has the next.
            state if settled.contains(&(state - 1)) => Doing::Passing,
            state if (self.new..=self.new + 1).contains(&state) => Doing::New,
            _ => Doing::Unknown,
        }
    }

    /// The state as JVMTI has it, without what only the heap knows: a thread that waits but not for a monitor is `WAITING`.
    pub(crate) fn jvmti_state(&self, thread: Address) -> i32 {
        use jvmti_state::*;
        let monitor = |offset| matches!(CheckedMemory.read_pointer(at(thread, offset)), Ok(found) if found.0 != 0);
        let Some(state) = self.state(thread) else {
            return 0;
        };
        // The way out of a state belongs to it.
        let state = state & !1;
        if state == self.in_native {
            ALIVE | RUNNABLE | IN_NATIVE
        } else if state == self.in_java || state == self.in_vm {
            ALIVE | RUNNABLE
        } else if state != self.blocked {
            0
        } else if monitor(self.pending_monitor) {
            ALIVE | BLOCKED_ON_MONITOR_ENTER
        } else if monitor(self.waiting_monitor) {
            ALIVE | WAITING | WAITING_INDEFINITELY | IN_OBJECT_WAIT
        } else {
            ALIVE | WAITING
        }
    }
}

/// The calling thread, if it can be walked; else an error of [`error`].
#[inline]
pub(crate) fn own() -> Result<(&'static Vm, Thread), c_int> {
    let vm = Vm::get().ok_or(error::NO_THREAD)?;
    let address = vm.own_java_thread().ok_or(error::NO_THREAD)?;
    match vm.thread_fields.doing(address) {
        Doing::Something | Doing::Passing => {}
        Doing::Exiting => return Err(error::THREAD_EXIT),
        Doing::New | Doing::Unknown => return Err(error::UNSAFE_STATE),
    }
    let thread = vm.reference.thread(&CheckedMemory, address);
    Ok((vm, thread.map_err(|_| error::NO_THREAD)?))
}

#[inline]
fn at(thread: Address, offset: u64) -> Address {
    Address(thread.0.wrapping_add(offset))
}
