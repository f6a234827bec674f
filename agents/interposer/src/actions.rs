//! The profiler's signal handlers: kept here, with ours in their place.
//!
//! Two kinds. The handlers of *sampling signals* (SIGPROF, SIGVTALRM, real-time signals) are what is tested: the kernel gets ours, which calls the kept
//! one. The handlers of *fault signals* stay installed behind the guard's; what they replaced looks to them like [`on_declined`], by which they say that a
//! fault inside a tested call is not theirs.
//!
//! Contract: [`on_sigaction`], [`on_signal_import`] and [`on_jvm_sigaction`] take the place of imports, outside handlers. The rest is signal-safe.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use libc::{c_int, sigaction, sighandler_t, siginfo_t, ucontext_t};
use walkfuzz_guard::{Guard, read_registers};

use crate::interpose::on_signal;
use crate::turn;

const SIGNALS: usize = 65;
type WithInfo = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
type Plain = unsafe extern "C" fn(c_int);

/// A handler that is not ours.
struct Kept {
    handler: AtomicUsize,
    flags: AtomicI32,
}

/// A handler, to be called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    address: usize,
    with_info: bool,
}

/// The profiler's, by signal.
static PROFILERS: [Kept; SIGNALS] = [const { Kept::none() }; SIGNALS];
/// What its fault handlers replaced, by signal.
static REPLACED: [Kept; SIGNALS] = [const { Kept::none() }; SIGNALS];
/// How deep the profiler's fault handler may fault in itself.
const DEEPEST: u32 = 64;
/// The guard, once it is installed.
pub(crate) static GUARD: OnceLock<Guard> = OnceLock::new();
/// Whether the profiler's fault handler is being asked. It may leave by longjmp, so that this says something only in a tested call.
static ASKING: AtomicBool = AtomicBool::new(false);
/// Where the stack was when it was asked, and how often in a row it was asked further down meanwhile.
static ASKED_AT: AtomicU64 = AtomicU64::new(0);
static DEPTH: AtomicU32 = AtomicU32::new(0);
static DECLINED: AtomicBool = AtomicBool::new(false);
/// Faults of the tested call under way that it has dealt with.
static DEALT_WITH: AtomicU32 = AtomicU32::new(0);

impl Kept {
    const fn none() -> Self {
        Self {
            handler: AtomicUsize::new(0),
            flags: AtomicI32::new(0),
        }
    }

    fn set(&self, action: &sigaction) {
        self.flags.store(action.sa_flags, Relaxed);
        self.handler.store(action.sa_sigaction, Release);
    }

    fn get(&self) -> Option<Handler> {
        let address = self.handler.load(Acquire);
        is_function(address).then(|| Handler {
            address,
            with_info: self.flags.load(Relaxed) & libc::SA_SIGINFO != 0,
        })
    }
}

impl Handler {
    /// Calls it.
    ///
    /// # Safety
    /// What the kernel gave, or copies of it that the handler may be called with.
    pub(crate) unsafe fn run(self, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: a handler that was installed for this signal, with the flag that says how it is called.
        unsafe {
            if self.with_info {
                std::mem::transmute::<usize, WithInfo>(self.address)(signal, info, context);
            } else {
                std::mem::transmute::<usize, Plain>(self.address)(signal);
            }
        }
    }
}

fn is_function(address: sighandler_t) -> bool {
    address != libc::SIG_DFL && address != libc::SIG_IGN
}

fn slot(table: &'static [Kept; SIGNALS], signal: c_int) -> Option<&'static Kept> {
    table.get(usize::try_from(signal).ok()?)
}

/// The profiler's handler of a sampling signal.
pub(crate) fn of_profiler(signal: c_int) -> Option<Handler> {
    slot(&PROFILERS, signal)?.get()
}

/// Whether it has installed a handler of a sampling signal.
pub(crate) fn any() -> bool {
    (1..SIGNALS as c_int).any(|signal| is_sampling(signal) && of_profiler(signal).is_some())
}

/// The signals that profilers sample by.
fn is_sampling(signal: c_int) -> bool {
    signal == libc::SIGPROF || signal == libc::SIGVTALRM || signal >= libc::SIGRTMIN()
}

/// Takes the place of a profiler's `sigaction`.
pub(crate) unsafe extern "C" fn on_sigaction(
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if is_sampling(signal) {
            set_sampling(signal, new, old)
        } else if signal == libc::SIGSEGV || signal == libc::SIGBUS {
            set_fault(signal, new, old)
        } else {
            libc::sigaction(signal, new, old)
        }
    }
}

/// Takes the place of the JVM's `sigaction`: JFR samples by SIGPROF.
pub(crate) unsafe extern "C" fn on_jvm_sigaction(
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if signal == libc::SIGPROF {
            set_sampling(signal, new, old)
        } else {
            libc::sigaction(signal, new, old)
        }
    }
}

/// Takes the place of a profiler's `signal`.
pub(crate) unsafe extern "C" fn on_signal_import(
    signal: c_int,
    handler: sighandler_t,
) -> sighandler_t {
    // SAFETY: plain data; the handler is the caller's. The flag is glibc's for `signal`.
    unsafe {
        let mut new: sigaction = std::mem::zeroed();
        let mut old: sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        match on_sigaction(signal, &raw const new, &raw mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// # Safety
/// As `sigaction`.
unsafe fn set_sampling(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    let Some(kept) = slot(&PROFILERS, signal) else {
        // SAFETY: the caller's; the kernel refuses.
        return unsafe { libc::sigaction(signal, new, old) };
    };
    let before = kept.get();
    // SAFETY: plain data, and the caller's pointers.
    unsafe {
        let mut was: sigaction = std::mem::zeroed();
        let result = match new.as_ref() {
            Some(new) if is_function(new.sa_sigaction) => {
                let mut ours = *new;
                ours.sa_sigaction = on_signal as *const () as usize;
                ours.sa_flags |= libc::SA_SIGINFO;
                // Before a signal can come.
                kept.set(new);
                libc::sigaction(signal, &raw const ours, &raw mut was)
            }
            _ => libc::sigaction(signal, new, &raw mut was),
        };
        if let Some(old) = old.as_mut().filter(|_| result == 0) {
            *old = was;
            if let Some(before) = before
                && was.sa_sigaction == on_signal as *const () as usize
            {
                old.sa_sigaction = before.address;
                if !before.with_info {
                    old.sa_flags &= !libc::SA_SIGINFO;
                }
            }
        }
        result
    }
}

/// # Safety
/// As `sigaction`.
unsafe fn set_fault(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    // SAFETY: plain data, and the caller's pointers.
    unsafe {
        let mut was: sigaction = std::mem::zeroed();
        let result = libc::sigaction(signal, new, &raw mut was);
        if result != 0 {
            return result;
        }
        let profilers = slot(&PROFILERS, signal);
        let is_theirs = profilers
            .and_then(Kept::get)
            .is_some_and(|known| known.address == was.sa_sigaction);
        if is_function(was.sa_sigaction) && !is_theirs {
            if let Some(replaced) = slot(&REPLACED, signal) {
                replaced.set(&was);
            }
            was.sa_sigaction = on_declined as *const () as usize;
            was.sa_flags |= libc::SA_SIGINFO;
        }
        if let Some(old) = old.as_mut() {
            *old = was;
        }
        if let Some(new) = new.as_ref() {
            if let Some(profilers) = profilers {
                profilers.set(new);
            }
            if let Some(guard) = GUARD.get() {
                // It can only fail after eight such turns; the guard then stands behind the profiler, whose faults count as its own.
                let _ = guard.reassert();
            }
        }
        result
    }
}

/// What a profiler's fault handler hands on to.
unsafe extern "C" fn on_declined(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: no arguments.
    if ASKING.load(Relaxed) && turn::is_mine(unsafe { libc::gettid() }) {
        DECLINED.store(true, Relaxed);
        return;
    }
    if let Some(handler) = slot(&REPLACED, signal).and_then(Kept::get) {
        // SAFETY: the arguments of a handler that this one stands for.
        unsafe { handler.run(signal, info, context) };
    }
}

/// What the guard calls at a fault in a tested call. The profiler's fault handler may come back, or leave by longjmp into the call.
pub(crate) unsafe fn on_fault(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut ucontext_t,
) -> bool {
    let handler = slot(&PROFILERS, signal).and_then(Kept::get);
    // SAFETY: no arguments.
    let mine = turn::is_mine(unsafe { libc::gettid() });
    let Some(handler) = handler.filter(|_| mine) else {
        return false;
    };
    // SAFETY: the kernel's context.
    let sp = unsafe { read_registers(context) }.sp().0;
    // After a longjmp it looks as if the handler were still being asked; that it is asked ever deeper is another thing.
    if ASKING.swap(true, Relaxed) && sp < ASKED_AT.load(Relaxed) {
        if DEPTH.fetch_add(1, Relaxed) == DEEPEST {
            return false;
        }
    } else {
        DEPTH.store(0, Relaxed);
    }
    ASKED_AT.store(sp, Relaxed);
    DECLINED.store(false, Relaxed);
    DEALT_WITH.fetch_add(1, Relaxed);
    // SAFETY: the kernel's arguments.
    unsafe { handler.run(signal, info, context.cast()) };
    ASKING.store(false, Relaxed);
    if DECLINED.load(Relaxed) {
        DEALT_WITH.fetch_sub(1, Relaxed);
        return false;
    }
    true
}

/// A tested call has ended: how many faults of it the profiler has dealt with.
pub(crate) fn dealt_with() -> u32 {
    ASKING.store(false, Relaxed);
    DEALT_WITH.swap(0, Relaxed)
}
