//! SIGTRAPs that belong to somebody else: single steps and breakpoints.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use libc::{siginfo_t, ucontext_t};

/// Whose SIGTRAPs a hook wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapScope {
    /// Those outside guarded calls (and in unregistered threads): single-stepping of Java threads.
    Unguarded,
    /// Those inside guarded calls: breakpoints in the walked code.
    Guarded,
}

/// Called first on a SIGTRAP of its scope. True: dealt with, the thread continues with the ucontext as it is now. False: it
/// is a fault (guarded) or goes to the previous handler (unguarded). Runs in the handler, on the stack that was interrupted, with no more
/// signals blocked than the interrupted thread had.
pub type TrapHook = unsafe fn(*mut siginfo_t, *mut ucontext_t) -> bool;

/// Called before the hook of any scope; the last argument says whether the trap came from inside a guarded call. The rest is as with
/// [`TrapHook`].
pub type BreakpointHook = unsafe fn(*mut siginfo_t, *mut ucontext_t, bool) -> bool;

static BREAKPOINT: AtomicUsize = AtomicUsize::new(0);
static UNGUARDED: AtomicUsize = AtomicUsize::new(0);
static GUARDED: AtomicUsize = AtomicUsize::new(0);

fn cell(scope: TrapScope) -> &'static AtomicUsize {
    match scope {
        TrapScope::Unguarded => &UNGUARDED,
        TrapScope::Guarded => &GUARDED,
    }
}

/// Sets or removes the hook of a scope.
///
/// # Safety
/// The hook may be called in a signal handler at any instruction of any thread, until it is removed.
pub unsafe fn set_trap_hook(scope: TrapScope, hook: Option<TrapHook>) {
    cell(scope).store(hook.map_or(0, |hook| hook as usize), Release);
}

/// Sets or removes the hook of breakpoints that any thread may meet, in guarded calls and outside them.
///
/// While there is one, SIGTRAP stays unblocked in the handlers that faults are passed on to: a breakpoint in code that they call would
/// end the process.
///
/// # Safety
/// As [`set_trap_hook`].
pub unsafe fn set_breakpoint_hook(hook: Option<BreakpointHook>) {
    BREAKPOINT.store(hook.map_or(0, |hook| hook as usize), Release);
}

/// Whether breakpoints may be met anywhere.
pub(crate) fn has_breakpoints() -> bool {
    BREAKPOINT.load(Acquire) != 0
}

/// Asks the breakpoints' hook, then that of a scope.
///
/// # Safety
/// Called by the handler of a SIGTRAP, with its arguments.
pub(crate) unsafe fn ask(scope: TrapScope, info: *mut siginfo_t, uc: *mut ucontext_t) -> bool {
    let breakpoints = BREAKPOINT.load(Acquire);
    if breakpoints != 0 {
        // SAFETY: as below.
        let taken = unsafe {
            let hook: BreakpointHook = core::mem::transmute(breakpoints);
            hook(info, uc, scope == TrapScope::Guarded)
        };
        if taken {
            return true;
        }
    }
    let hook = cell(scope).load(Acquire);
    if hook == 0 {
        return false;
    }
    // SAFETY: `set_trap_hook` stored a TrapHook, and its caller promised that it may be called here.
    unsafe {
        let hook: TrapHook = core::mem::transmute(hook);
        hook(info, uc)
    }
}
