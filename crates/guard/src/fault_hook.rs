//! Faults inside guarded calls that the code under test may be able to deal with itself: profilers bring handlers of their own, which skip a load that
//! failed or give up a walk.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use libc::{c_int, siginfo_t, ucontext_t};

use crate::arch;
use crate::slot::GuardSlot;

/// Called on a SIGSEGV or SIGBUS inside a guarded call that is no SafeFetch. True: dealt with, the thread continues with the ucontext as it is now.
/// False: it is a fault. It may as well leave by longjmp to a frame inside the guarded call. Runs on the signal stack; its own faults are the call's,
/// and it is not asked about them.
pub type FaultHook = unsafe fn(c_int, *mut siginfo_t, *mut ucontext_t) -> bool;

static HOOK: AtomicUsize = AtomicUsize::new(0);

/// Sets or removes the hook.
///
/// # Safety
/// It may be called in a signal handler at any instruction of a guarded call, until it is removed.
pub unsafe fn set_fault_hook(hook: Option<FaultHook>) {
    HOOK.store(hook.map_or(0, |hook| hook as usize), Release);
}

/// Whether the hook has dealt with a fault.
///
/// # Safety
/// The kernel's arguments; `slot` is the calling thread's.
pub(crate) unsafe fn ask(
    slot: &GuardSlot,
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
) -> bool {
    let hook = HOOK.load(Acquire);
    // SAFETY: the kernel's ucontext.
    if hook == 0 || slot.on_handler_stack(unsafe { arch::read_registers(uc) }.sp()) {
        return false;
    }
    // SAFETY: `set_fault_hook` stored a FaultHook, and its caller promised that it may be called here.
    unsafe {
        let hook: FaultHook = core::mem::transmute(hook);
        hook(signal, info, uc)
    }
}
