//! The minimal generation's callback at safepoints.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use walkfuzz_context::Address;

use super::tidy::Tidy;
use crate::abi::minimal::SafepointCallback;
use crate::{Vm, safepoint};

/// Threads that can wait for their safepoint at a time.
const WAITING: usize = 256;

/// The function, as a pointer.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static ARG: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Threads that triggered a safepoint and have not come to it yet.
static TRIGGERED: [AtomicU64; WAITING] = [const { AtomicU64::new(0) }; WAITING];
/// How many.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// `ASGST_SetSafepointCallback`. Signal-safe.
pub extern "C" fn set_safepoint_callback(callback: Option<SafepointCallback>, arg: *mut c_void) {
    let function = callback.map_or(std::ptr::null_mut(), |callback| callback as *mut c_void);
    // Whoever sees the new function sees its argument.
    CALLBACK.store(std::ptr::null_mut(), Release);
    ARG.store(arg, Release);
    CALLBACK.store(function, Release);
}

fn current() -> Option<SafepointCallback> {
    let function = CALLBACK.load(Acquire);
    // SAFETY: null, or what `set_safepoint_callback` was given.
    unsafe { std::mem::transmute::<*mut c_void, Option<SafepointCallback>>(function) }
}

/// `ASGST_GetSafepointCallback`. Signal-safe.
///
/// # Safety
/// Each pointer is null or can be written to.
pub unsafe extern "C" fn get_safepoint_callback(
    callback: *mut Option<SafepointCallback>,
    arg: *mut *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if !callback.is_null() && callback.is_aligned() {
            callback.write(current());
        }
        if !arg.is_null() && arg.is_aligned() {
            arg.write(ARG.load(Acquire));
        }
    }
}

/// `ASGST_TriggerSafePoint`: brings the calling thread to its next safepoint, where the callback is called once. Signal-safe. Nothing happens on threads that are none of
/// Java's, and beyond 256 threads that wait.
pub extern "C" fn trigger_safe_point() {
    if !safepoint::is_installed() {
        return;
    }
    let Some(thread) = Vm::get().and_then(Vm::own_java_thread) else {
        return;
    };
    let is_waiting = TRIGGERED.iter().any(|slot| slot.load(Acquire) == thread.0);
    let has_room = || {
        TRIGGERED
            .iter()
            .any(|slot| slot.compare_exchange(0, thread.0, AcqRel, Relaxed).is_ok())
    };
    if is_waiting || {
        COUNT.fetch_add(1, AcqRel);
        has_room() || {
            COUNT.fetch_sub(1, AcqRel);
            false
        }
    } {
        // SAFETY: the calling thread.
        unsafe { safepoint::arm(thread) };
    }
}

/// Calls the callback if the thread wanted it.
pub(super) fn at_safepoint(vm: &Vm, thread: Address) {
    if take(thread)
        && let Some(callback) = current()
    {
        let tidy = Tidy::of(vm, thread);
        // SAFETY: the client's function, as it promised when it set it.
        unsafe { callback(ARG.load(Acquire)) };
        tidy.up();
    }
}

/// A thread has ended: it waits no more, and whether it did.
pub(super) fn take(thread: Address) -> bool {
    if COUNT.load(Acquire) == 0 {
        return false;
    }
    let taken = TRIGGERED
        .iter()
        .any(|slot| slot.compare_exchange(thread.0, 0, AcqRel, Relaxed).is_ok());
    if taken {
        COUNT.fetch_sub(1, AcqRel);
    }
    taken
}
