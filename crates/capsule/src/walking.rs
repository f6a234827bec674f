//! What walks in this very process share with the handlers of their signals: which walk is under way and how it ended, the clock that
//! ends one which does not, the stack that the handlers run on.
//!
//! Contract: one thread walks. Its handlers run while it is in a walk, or end the process. What is called in a handler allocates nothing
//! and uses no thread-local storage, for the thread pointer may be the walk's.

use std::cell::UnsafeCell;
use std::io;
use std::ptr;

use libc::{c_int, c_void, ucontext_t};
use walkfuzz_context::Pc;

use crate::arch;
use crate::capsule::{Entry, SafeFetch};
use crate::outcome::Ended;

/// CPU time between two ticks of the clock.
pub(crate) const TICK_US: i64 = 250_000;
/// Ticks within one walk that make it a hang.
pub(crate) const TICKS: u32 = 2;
/// Bytes of the stack that handlers run on.
pub(crate) const SIGNAL_STACK: usize = 256 << 10;

/// A static that one thread and its handlers use.
pub(crate) struct Shared<T>(UnsafeCell<T>);

// SAFETY: used by the one thread that walks, and by handlers while it is in a walk.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// The walk under way, or the last one.
pub(crate) struct Walking {
    under_way: bool,
    near_misses: u32,
    ticks: u32,
    /// How it ended, if not by returning.
    ended: Option<Ended>,
}

impl Walking {
    /// Before the first one.
    pub(crate) const NONE: Self = Self {
        under_way: false,
        near_misses: 0,
        ticks: 0,
        ended: None,
    };

    /// Whether one is under way.
    pub(crate) const fn under_way(&self) -> bool {
        self.under_way
    }

    /// Faults at SafeFetch loads so far.
    pub(crate) const fn near_misses(&self) -> u32 {
        self.near_misses
    }

    /// Counts a tick of the clock. Whether it has ended the walk.
    pub(crate) fn tick(&mut self) -> bool {
        self.ticks += 1;
        let hangs = self.under_way && self.ticks >= TICKS;
        if hangs {
            self.ended = Some(Ended::Hang);
        }
        hangs
    }

    /// The walk has ended so. The caller sees to it that it does.
    pub(crate) fn end(&mut self, ended: Ended) {
        self.ended = Some(ended);
    }

    /// Lets a walk that met `signal` at a SafeFetch load go on where the JVM's handler lets it go on. `false` if it was elsewhere.
    ///
    /// # Safety
    /// `context` is the running handler's.
    pub(crate) unsafe fn go_on(
        &mut self,
        loads: &[SafeFetch],
        signal: c_int,
        pc: Pc,
        context: *mut ucontext_t,
    ) -> bool {
        if !matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            return false;
        }
        let Some(load) = loads.iter().find(|load| load.fault == pc) else {
            return false;
        };
        self.near_misses += 1;
        // SAFETY: the caller's promise.
        unsafe { walkfuzz_guard::write_pc(context, load.continuation) };
        true
    }
}

/// Calls the walker. How its walk ended; `None` if it returned.
///
/// # Safety
/// The capsule is mapped, the handlers are installed and know `walking`, which nobody else uses meanwhile.
pub(crate) unsafe fn walk(walking: *mut Walking, entry: &Entry) -> Option<Ended> {
    // SAFETY: the caller's promise. `enter` comes back whatever the walk does, or the process ends.
    unsafe {
        (*walking).near_misses = 0;
        (*walking).ticks = 0;
        (*walking).ended = None;
        (*walking).under_way = true;
        arch::enter(entry);
        (*walking).under_way = false;
        (*walking).ended
    }
}

/// Lets the handlers of this thread run on `stack`.
///
/// # Safety
/// `stack` lives, and does not move, until another one has taken its place.
pub(crate) unsafe fn take_signal_stack(stack: &mut [u8]) -> io::Result<()> {
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the caller's promise.
    match unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the clock tick (`SIGPROF`) each time that so much CPU time has passed; never, if 0.
pub(crate) fn set_clock(microseconds: i64) {
    let tick = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds,
    };
    let timer = libc::itimerval {
        it_interval: tick,
        it_value: tick,
    };
    // SAFETY: plain values.
    unsafe {
        libc::syscall(
            libc::SYS_setitimer,
            libc::ITIMER_PROF,
            &raw const timer,
            ptr::null_mut::<c_void>(),
        );
    }
}
