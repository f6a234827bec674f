//! Calls under protection.
//!
//! Signal-safe; no system call unless the call leaves a signal stack. Guarded calls nest, on one stack, through
//! handlers and over stack switches: each leaves its recovery frame on the stack it was made from.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use libc::{c_int, c_void};
use walkfuzz_context::Sp;

use crate::arch;
use crate::fault::{Fault, FaultKind};
use crate::slot::GuardSlot;
use crate::stack::{self, LANES};

/// What can be called: the shape of AsyncGetCallTrace(trace, depth, ucontext), of which anything else can be made.
pub type GuardedFn = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void);

/// The part of a recovery frame that the fault handler reads; see [`crate::arch`].
#[repr(C)]
pub(crate) struct RecoveryFrame {
    _float_control: u64,
    pub(crate) enclosing_sp: usize,
    pub(crate) enclosing_call: u64,
    pub(crate) fault: *mut Fault,
}

/// Calls `f(a, b, c)`. If it raises SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGTRAP, or the thread's alarm finds it unfinished, the
/// call is given up, `fault` says why, and the caller goes on. What the callee had begun stays half done: no destructor
/// runs, locks that it took stay taken, memory that it got is lost.
///
/// `fault` is written before the call returns and by nobody else, so it may lie in memory that survives the process.
///
/// # Errors
/// The fault, if the call was given up.
///
/// # Safety
/// - `slot` is the calling thread's, from [`crate::register_thread`].
/// - `f(a, b, c)` may be called, and may be left at any instruction without being finished. Nothing between this call and
///   the callee's last frame may rely on a destructor.
/// - The callee neither unwinds nor leaves by longjmp through this call, and does not return on another thread.
#[inline]
pub unsafe fn call<'a>(
    slot: &GuardSlot,
    f: GuardedFn,
    a: *mut c_void,
    b: c_int,
    c: *mut c_void,
    fault: &'a mut Fault,
) -> Result<(), &'a Fault> {
    // SAFETY: the caller's promise.
    match unsafe { arch::call(slot, f, a, b, c, fault) } {
        0 => Ok(()),
        _ => Err(fault),
    }
}

/// As [`call`], on another stack: sp is `stack_top`, rounded down to a multiple of 16, when `f` is called. Takes two more
/// system calls if made from a handler on the thread's signal stack, because that must not be overwritten by the
/// handler of a fault; one such step is possible per thread, a further one is refused as
/// [`FaultKind::NoHandlerStack`].
///
/// # Errors
/// The fault, if the call was given up.
///
/// # Safety
/// As [`call`], and memory below `stack_top` is writable, as much as `f` needs (less is a fault, if what lies below
/// cannot be written), and used by nobody else: leave room for the red zone of the frame that owns `stack_top`.
pub unsafe fn call_on_stack<'a>(
    slot: &GuardSlot,
    stack_top: Sp,
    f: GuardedFn,
    a: *mut c_void,
    b: c_int,
    c: *mut c_void,
    fault: &'a mut Fault,
) -> Result<(), &'a Fault> {
    let top = stack_top.0 as usize;
    let given_up = if slot.on_handler_stack(arch::stack_pointer()) {
        if slot.lane.load(Relaxed) + 1 >= LANES {
            *fault = Fault {
                kind: FaultKind::NoHandlerStack,
                ..Fault::NONE
            };
            return Err(fault);
        }
        let mut departure = Departure { slot, f, a, b, c };
        let departure = (&raw mut departure).cast();
        let here = slot.lane.load(Relaxed);
        let null = ptr::null_mut();
        // SAFETY: the caller's promise; `departure` outlives the call.
        let given_up = unsafe {
            arch::call_on_stack(slot, leave_signal_stack, departure, 0, null, fault, top)
        };
        if given_up != 0
            && let Some(lane) = slot.lanes.get(here)
        {
            // `leave_signal_stack` did not get to its end. The fault handler cannot do this for it by rewriting uc_stack:
            // since Linux 6.12 the kernel restores the signal stack before sp, and refuses while sp is on the other one.
            // SAFETY: mapped as long as the thread is registered. Refused if it is the active one already.
            let _ = unsafe { stack::activate(&lane.get()) };
            slot.lane.store(here, Relaxed);
        }
        given_up
    } else {
        // SAFETY: the caller's promise.
        unsafe { arch::call_on_stack(slot, f, a, b, c, fault, top) }
    };
    match given_up {
        0 => Ok(()),
        _ => Err(fault),
    }
}

/// A call that leaves the signal stack.
struct Departure<'a> {
    slot: &'a GuardSlot,
    f: GuardedFn,
    a: *mut c_void,
    b: c_int,
    c: *mut c_void,
}

/// Makes the call with the next lane as signal stack. If it is given up, `call_on_stack` sets the lane back.
unsafe extern "C" fn leave_signal_stack(departure: *mut c_void, _: c_int, _: *mut c_void) {
    // SAFETY: `call_on_stack` passes its own.
    let Departure { slot, f, a, b, c } = unsafe { &*departure.cast::<Departure<'_>>() };
    let here = slot.lane.load(Relaxed);
    let (Some(from), Some(to)) = (slot.lanes.get(here), slot.lanes.get(here + 1)) else {
        // SAFETY: as below. Not reached: `call_on_stack` looked.
        return unsafe { f(*a, *b, *c) };
    };
    slot.lane.store(here + 1, Relaxed);
    // SAFETY: both lanes are mapped as long as the thread is registered; sp is on neither of them here. Were the first switch to
    // fail, only the protection of the waiting frames would be missing; it cannot, its argument is valid.
    unsafe {
        let _ = stack::activate(&to.get());
        f(*a, *b, *c);
        let _ = stack::activate(&from.get());
    }
    slot.lane.store(here, Relaxed);
}
