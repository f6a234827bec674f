//! The handlers that were there before ours, and passing a fault on to them as the kernel would.

use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::*};

use libc::{c_int, sigaction, siginfo_t, sigset_t, ucontext_t};

use crate::handler::Handler;

/// How often the guard takes a signal back from others before it gives up.
pub(crate) const GENERATIONS: usize = 8;
/// The signals that are faults, in the order of the table below.
pub(crate) const FAULT_SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// One `sigaction`, readable by handlers.
pub(crate) struct PreviousAction {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

/// Per generation and signal. An entry is written before the handler of its generation is installed.
static PREVIOUS: [[PreviousAction; FAULT_SIGNALS.len()]; GENERATIONS] =
    [const { [const { PreviousAction::new() }; FAULT_SIGNALS.len()] }; GENERATIONS];

/// The entry of a fault signal.
pub(crate) fn previous(generation: usize, signal: c_int) -> Option<&'static PreviousAction> {
    let index = FAULT_SIGNALS.iter().position(|&fault| fault == signal)?;
    PREVIOUS.get(generation)?.get(index)
}

/// Passes a fault on to the handler before `generation`'s.
///
/// # Safety
/// Called by the handler of `signal`, with its arguments.
pub(crate) unsafe fn chain(
    generation: usize,
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
) {
    match previous(generation, signal) {
        // SAFETY: the caller's promise.
        Some(action) => unsafe { action.run(signal, info, uc) },
        // SAFETY: the caller's promise.
        None => unsafe { die(signal, info) },
    }
}

impl PreviousAction {
    pub(crate) const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    /// Remembers `action`.
    pub(crate) fn remember(&self, action: &sigaction) {
        self.flags.store(action.sa_flags, Release);
        // SAFETY: the kernel's 64-bit set is the first word of libc's.
        self.mask.store(
            unsafe { (&raw const action.sa_mask).cast::<u64>().read() },
            Release,
        );
        self.handler.store(action.sa_sigaction, Release);
    }

    /// Whether nobody had a handler.
    pub(crate) fn is_default(&self) -> bool {
        self.handler.load(Acquire) == libc::SIG_DFL
    }

    /// Does what the kernel would do with the signal if this were the action in place.
    ///
    /// # Safety
    /// Called by the handler of `signal`, with its arguments.
    pub(crate) unsafe fn run(&self, signal: c_int, info: *mut siginfo_t, uc: *mut ucontext_t) {
        let flags = self.flags.load(Acquire);
        let handler = if flags & libc::SA_RESETHAND != 0 {
            // Only once, whichever thread comes first.
            self.handler.swap(libc::SIG_DFL, AcqRel)
        } else {
            self.handler.load(Acquire)
        };
        // SAFETY: the kernel's info.
        let forced = unsafe { (*info).si_code } > 0;
        match handler {
            // A signal that the kernel forces on a thread cannot be ignored (kernel/signal.c, force_sig_info_to_task).
            libc::SIG_IGN if !forced => {}
            // SAFETY: the caller's promise.
            libc::SIG_DFL | libc::SIG_IGN => unsafe { die(signal, info) },
            handler => {
                let mut block = self.mask.load(Acquire);
                if flags & libc::SA_NODEFER == 0 {
                    block |= 1 << (signal - 1);
                }
                if crate::trap::has_breakpoints() {
                    block &= !(1 << (libc::SIGTRAP - 1));
                }
                // SAFETY: the set is written before use; the handler was installed for this signal. All three arguments are
                // passed with and without SA_SIGINFO, as the kernel does (arch/x86/kernel/signal_64.c,
                // x64_setup_rt_frame).
                unsafe {
                    let mut set: sigset_t = core::mem::zeroed();
                    (&raw mut set).cast::<u64>().write(block);
                    let mut before: sigset_t = core::mem::zeroed();
                    libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
                    let handler: Handler = core::mem::transmute(handler);
                    handler(signal, info, uc.cast());
                    libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
                }
            }
        }
    }
}

/// The default action: the process ends, with the core of the fault where possible.
///
/// # Safety
/// Called by the handler of `signal`, with its info.
unsafe fn die(signal: c_int, info: *const siginfo_t) {
    // SAFETY: plain data, and system calls that touch nothing else.
    unsafe {
        let mut default: sigaction = core::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &default, core::ptr::null_mut());
        // A faulting instruction faults again when the handler returns. A trap has been executed, and a sent signal has none.
        if signal == libc::SIGTRAP || (*info).si_code <= 0 {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
        }
    }
}
