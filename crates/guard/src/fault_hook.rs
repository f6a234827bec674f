//! Faults inside guarded calls that the code under test may be able to deal with itself: profilers bring handlers of their own, which skip a load that
//! failed or give up a walk.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::arch;
use crate::slot::GuardSlot;

/// Called on a SIGSEGV or SIGBUS inside a guarded call that is no SafeFetch. True: dealt with, the thread continues with the ucontext as it is now.
/// False: it is a fault. It may as well leave by longjmp to a frame inside the guarded call.
///
/// It runs on the stack that was interrupted, as the handlers of profilers do that replace HotSpot's: async-profiler declines where its frame is
/// not on the stack that it walks on. Its own faults are the guarded call's, and it is asked about them again: it must bound that.
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
    /// What a function may use below its sp without moving it (System V ABI, x86_64).
    const RED_ZONE: u64 = 128;
    let hook = HOOK.load(Acquire);
    // SAFETY: the kernel's ucontext.
    let sp = unsafe { arch::read_registers(uc) }.sp();
    if hook == 0 {
        return false;
    }
    let mut asked = Asked {
        // SAFETY: `set_fault_hook` stored a FaultHook.
        hook: unsafe { core::mem::transmute::<usize, FaultHook>(hook) },
        signal,
        info,
        uc,
        dealt_with: false,
    };
    // SAFETY: the hook's caller promised that it may be called here. Below the red zone the interrupted stack is unused; where it cannot be written,
    // that is a fault of the guarded call.
    unsafe {
        let argument = (&raw mut asked).cast();
        if slot.on_handler_stack(sp) {
            // A signal in the midst of a fault's handler: this one runs on the stack that was interrupted.
            run(argument);
        } else {
            let top = sp.0.saturating_sub(RED_ZONE) as usize;
            arch::run_on_stack(run, argument, top);
        }
    }
    asked.dealt_with
}

struct Asked {
    hook: FaultHook,
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
    dealt_with: bool,
}

unsafe extern "C" fn run(asked: *mut c_void) {
    // SAFETY: `ask` passes its own, and the kernel's arguments.
    unsafe {
        let asked = &mut *asked.cast::<Asked>();
        asked.dealt_with = (asked.hook)(asked.signal, asked.info, asked.uc);
    }
}
