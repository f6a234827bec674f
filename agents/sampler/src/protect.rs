//! Crash protection of the sampled threads: each is registered with the guard by its first handler, or as it begins.
//!
//! Contract: [`slot_of`] is signal-safe; its first call on a thread makes some system calls.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use walkfuzz_guard::{Alarm, GuardSlot, register_thread, unregister_thread, with_signals_blocked};

use crate::threads::{PLACES, Thread};

/// A walk that takes longer has hung.
pub(crate) const HANG: Duration = Duration::from_secs(1);

/// The alarm of a thread. Touched by the thread itself only.
struct Place {
    busy: AtomicBool,
    alarm: UnsafeCell<Option<Alarm>>,
}

// SAFETY: `busy` keeps handlers of the one thread apart; other threads never look.
unsafe impl Sync for Place {}

static ALARMS: [Place; PLACES] = [const {
    Place {
        busy: AtomicBool::new(false),
        alarm: UnsafeCell::new(None),
    }
}; PLACES];

/// The calling thread's slot in the guard; registers it if need be. `None` if there is no room.
#[inline]
pub(crate) fn slot_of(thread: &'static Thread) -> Option<&'static GuardSlot> {
    // SAFETY: `register` stored a slot, which lives for ever.
    match unsafe { thread.slot.load(Relaxed).as_ref() } {
        Some(slot) => Some(slot),
        None => register(thread),
    }
}

/// With all signals blocked: another clock's handler that came in the midst of it would have to drop its sample.
#[cold]
fn register(thread: &'static Thread) -> Option<&'static GuardSlot> {
    with_signals_blocked(|| register_undisturbed(thread))
}

fn register_undisturbed(thread: &'static Thread) -> Option<&'static GuardSlot> {
    let place = &ALARMS[thread.place()];
    if place.busy.swap(true, Acquire) {
        return None;
    }
    let slot = register_thread().ok();
    if let Some(slot) = slot {
        let alarm = Alarm::new(slot).ok();
        if let Some(alarm) = &alarm {
            // Without its alarm a walk that hangs goes on hanging; the driver's limits end it.
            let _ = alarm.arm(HANG);
        }
        // SAFETY: `busy` is ours.
        unsafe { *place.alarm.get() = alarm };
        thread
            .slot
            .store(std::ptr::from_ref(slot).cast_mut(), Relaxed);
    }
    place.busy.store(false, Release);
    slot
}

/// Takes the calling thread, which has left the table, out of the guard. `place` is the one it had.
pub(crate) fn unregister(thread: &'static Thread) {
    if thread.slot.swap(std::ptr::null_mut(), Relaxed).is_null() {
        return;
    }
    let place = &ALARMS[thread.place()];
    if !place.busy.swap(true, Acquire) {
        // SAFETY: `busy` is ours.
        unsafe { *place.alarm.get() = None };
        place.busy.store(false, Release);
    }
    // What it does not give back is reaped once the thread is gone.
    let _ = unregister_thread();
}
