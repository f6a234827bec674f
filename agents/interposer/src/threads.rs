//! The Java threads that are under the guard: a table that handlers search without locks and without thread-local storage.
//!
//! Contract: [`current`] is for handlers. [`add`] and [`remove`] run on the thread itself, outside handlers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

use walkfuzz_guard::{
    Alarm, GuardError, GuardSlot, SLOTS, register_thread, unregister_thread, with_signals_blocked,
};

/// A handler that takes longer has hung.
const HANG: Duration = Duration::from_secs(1);

/// One thread.
#[derive(Debug)]
pub(crate) struct Thread {
    tid: AtomicI32,
    java_thread: AtomicU64,
    slot: AtomicPtr<GuardSlot>,
}

static THREADS: [Thread; SLOTS] = [const {
    Thread {
        tid: AtomicI32::new(0),
        java_thread: AtomicU64::new(0),
        slot: AtomicPtr::new(std::ptr::null_mut()),
    }
}; SLOTS];
/// Places from here on have never been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Held while places are given away; handlers never look.
static GIVING: std::sync::Mutex<()> = std::sync::Mutex::new(());

thread_local! {
    /// Ends with the thread. Never touched by handlers.
    static ALARM: RefCell<Option<Alarm>> = const { RefCell::new(None) };
}

impl Thread {
    /// Its `JavaThread`.
    pub(crate) fn java_thread(&self) -> u64 {
        self.java_thread.load(Relaxed)
    }

    /// Its place in the guard.
    pub(crate) fn slot(&self) -> Option<&'static GuardSlot> {
        // SAFETY: `add` stored a slot, which lives for ever.
        unsafe { self.slot.load(Relaxed).as_ref() }
    }
}

/// The thread with this id, if it is in the table. Signal-safe.
pub(crate) fn current(tid: i32) -> Option<&'static Thread> {
    THREADS
        .iter()
        .take(USED.load(Acquire))
        .find(|thread| thread.tid.load(Acquire) == tid)
}

/// Puts the calling thread into the table and under the guard.
///
/// # Errors
/// The guard has no room.
pub(crate) fn add(java_thread: u64) -> Result<(), GuardError> {
    with_signals_blocked(|| {
        let slot = register_thread()?;
        let alarm = Alarm::new(slot)?;
        alarm.arm(HANG)?;
        ALARM.with_borrow_mut(|own| *own = Some(alarm));
        let _giving = GIVING.lock();
        let place = THREADS
            .iter()
            .position(|thread| thread.tid.load(Relaxed) == 0)
            .ok_or(GuardError::NoSlot { slots: SLOTS })?;
        USED.fetch_max(place + 1, AcqRel);
        let thread = &THREADS[place];
        thread.java_thread.store(java_thread, Relaxed);
        thread
            .slot
            .store(std::ptr::from_ref(slot).cast_mut(), Relaxed);
        // SAFETY: no arguments.
        thread.tid.store(unsafe { libc::gettid() }, Release);
        Ok(())
    })
}

/// Takes the calling thread out.
pub(crate) fn remove() {
    with_signals_blocked(|| {
        // SAFETY: no arguments.
        if let Some(thread) = current(unsafe { libc::gettid() }) {
            thread.tid.store(0, Release);
            ALARM.with_borrow_mut(|own| *own = None);
            // A thread that it does not give back is reaped once it is gone.
            let _ = unregister_thread();
        }
    });
}
