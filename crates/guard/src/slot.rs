//! One slot per guarded thread, in a fixed table without locks and without thread-local storage.
//!
//! Everything here may be called in signal handlers. A slot is used by its own thread and by the handlers that
//! interrupt it, so relaxed atomics are enough: the order that matters is program order. Other threads look only at
//! the table of owners.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::*};

use libc::pid_t;
use walkfuzz_context::Sp;

use crate::stack::{LANES, Lane};

/// How many threads can be registered at once.
pub const SLOTS: usize = 1024;

/// The slot belongs to nobody.
pub(crate) const FREE: pid_t = 0;
/// The slot is being taken from a dead thread.
pub(crate) const CHANGING_HANDS: pid_t = -1;

/// The protection of one thread: what the trampolines and the fault handler share.
///
/// The first three fields are known to the trampolines by offset.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct GuardSlot {
    /// Recovery frame of the innermost guarded call, 0 outside guarded calls.
    pub(crate) recovery_sp: AtomicUsize,
    /// Guarded calls begun; never goes back.
    pub(crate) calls: AtomicU64,
    /// Number of the innermost guarded call, 0 outside guarded calls.
    pub(crate) current_call: AtomicU64,
    /// Index of the handler stack that the kernel uses for this thread now.
    pub(crate) lane: AtomicUsize,
    /// The guarded call for which the JVM's handler is being asked.
    pub(crate) asking_call: AtomicU64,
    /// Blocked signals when it was asked.
    pub(crate) asking_mask: AtomicU64,
    /// The guarded call that the alarm saw last.
    pub(crate) ticked_call: AtomicU64,
    /// The thread's CPU time at the first tick in that call, in ns.
    pub(crate) first_tick: AtomicU64,
    /// Ticks in that call since.
    pub(crate) later_ticks: AtomicU64,
    /// Time between ticks, in ns.
    pub(crate) alarm_period: AtomicU64,
    pub(crate) near_misses: AtomicU64,
    pub(crate) recoveries: AtomicU64,
    /// Handler stacks by lane.
    pub(crate) lanes: [Lane; LANES],
    /// The mapping that holds our handler stacks, 0 if there is none.
    pub(crate) mapping: AtomicUsize,
    /// What the thread had before: given back by `unregister_thread`.
    pub(crate) replaced: Lane,
    /// See [`GuardSlot::ask_jvm`].
    pub(crate) asks_jvm: AtomicBool,
}

// The trampolines read and write these as plain words.
const _: () = assert!(size_of::<AtomicUsize>() == 8 && size_of::<AtomicU64>() == 8);

static TABLE: [GuardSlot; SLOTS] = [const { GuardSlot::new() }; SLOTS];
/// Thread id per slot. Apart from the slots, so that a search touches few cache lines.
static OWNERS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
/// Slots from here on have never been used.
static USED: AtomicUsize = AtomicUsize::new(0);

impl GuardSlot {
    const fn new() -> Self {
        Self {
            recovery_sp: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            current_call: AtomicU64::new(0),
            lane: AtomicUsize::new(0),
            asking_call: AtomicU64::new(0),
            asking_mask: AtomicU64::new(0),
            ticked_call: AtomicU64::new(0),
            first_tick: AtomicU64::new(0),
            later_ticks: AtomicU64::new(0),
            alarm_period: AtomicU64::new(0),
            near_misses: AtomicU64::new(0),
            recoveries: AtomicU64::new(0),
            lanes: [const { Lane::new() }; LANES],
            mapping: AtomicUsize::new(0),
            replaced: Lane::new(),
            asks_jvm: AtomicBool::new(true),
        }
    }

    /// The calling thread's slot, if it is registered. Signal-safe; costs one system call.
    #[must_use]
    pub fn current() -> Option<&'static GuardSlot> {
        find(this_thread())
    }

    /// Whether the thread is inside a guarded call now.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.recovery_sp.load(Relaxed) != 0
    }

    /// Guarded calls begun on this slot. Nested ones count.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Faults at SafeFetch instructions that were resumed.
    #[inline]
    #[must_use]
    pub fn near_misses(&self) -> u64 {
        self.near_misses.load(Relaxed)
    }

    /// Guarded calls that were given up: faults and hangs.
    #[must_use]
    pub fn recoveries(&self) -> u64 {
        self.recoveries.load(Relaxed)
    }

    /// Whether the JVM's handler is asked at SafeFetch instructions, as it is unless this says no. On a thread that passes for another one it must
    /// not be: it would take the fault for the other's. The guard then resumes the load by itself. Returns what was said before.
    #[inline]
    pub fn ask_jvm(&self, asks: bool) -> bool {
        let before = self.asks_jvm.load(Relaxed);
        self.asks_jvm.store(asks, Relaxed);
        before
    }

    /// Thread id of the owner.
    #[must_use]
    pub fn owner(&self) -> i32 {
        self.owner_cell().load(Acquire)
    }

    /// Whether `sp` lies on the signal stack that the kernel would use for this thread's next handler.
    pub(crate) fn on_handler_stack(&self, sp: Sp) -> bool {
        self.lanes
            .get(self.lane.load(Relaxed))
            .is_some_and(|lane| lane.contains(sp))
    }

    /// Forgets the previous owner's state, keeps counters and mapping.
    pub(crate) fn reset(&self) {
        self.recovery_sp.store(0, Relaxed);
        self.current_call.store(0, Relaxed);
        self.lane.store(0, Relaxed);
        self.asking_call.store(0, Relaxed);
        self.ticked_call.store(0, Relaxed);
        self.asks_jvm.store(true, Relaxed);
    }

    pub(crate) fn owner_cell(&self) -> &'static AtomicI32 {
        // A slot that is not in the table cannot be made: the constructor is private and used for the table only.
        let index = (core::ptr::from_ref(self) as usize).wrapping_sub(TABLE.as_ptr() as usize)
            / size_of::<GuardSlot>();
        &OWNERS[index % SLOTS]
    }
}

/// The calling thread's id.
pub(crate) fn this_thread() -> pid_t {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::gettid() }
}

/// The slot of thread `tid`.
pub(crate) fn find(tid: pid_t) -> Option<&'static GuardSlot> {
    let index = OWNERS
        .iter()
        .take(USED.load(Acquire))
        .position(|owner| owner.load(Acquire) == tid)?;
    TABLE.get(index)
}

/// Takes a free slot for `tid`.
pub(crate) fn claim(tid: pid_t) -> Option<&'static GuardSlot> {
    for (index, (owner, slot)) in OWNERS.iter().zip(&TABLE).enumerate() {
        if owner.load(Relaxed) != FREE {
            continue;
        }
        // Before the owner is visible, so that a search never stops short of it.
        USED.fetch_max(index + 1, AcqRel);
        if owner
            .compare_exchange(FREE, CHANGING_HANDS, AcqRel, Relaxed)
            .is_ok()
        {
            slot.reset();
            owner.store(tid, Release);
            return Some(slot);
        }
    }
    None
}

/// Calls `visit` with each slot that has been used, and its owner.
pub(crate) fn each(mut visit: impl FnMut(&'static GuardSlot, &'static AtomicI32)) {
    for (owner, slot) in OWNERS.iter().zip(&TABLE).take(USED.load(Acquire)) {
        visit(slot, owner);
    }
}

/// The slot at `address`, if it is one.
pub(crate) fn at(address: usize) -> Option<&'static GuardSlot> {
    let offset = address.checked_sub(TABLE.as_ptr() as usize)?;
    if offset % size_of::<GuardSlot>() != 0 {
        return None;
    }
    TABLE.get(offset / size_of::<GuardSlot>())
}
