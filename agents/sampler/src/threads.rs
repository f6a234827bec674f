//! The Java threads that are sampled: a table that handlers search without locks, system calls or thread-local storage.
//!
//! A handler knows its thread by what `pthread_self` says, which is a load. A key lies within a window of its home place, so
//! that a search ends after one window also for threads that are not in the table.
//!
//! Contract: [`Thread::current`] and everything it gives are for handlers. [`add`] and [`remove`] are called under the lock of [`crate::control`]; a
//! thread removes itself, so that no handler of it is under way.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};

use walkfuzz_guard::GuardSlot;
use walkfuzz_walkers::ThreadHandle;

use crate::arch;
use crate::clock::CLOCKS;

/// How many threads can be in the table.
pub(crate) const PLACES: usize = 4096;
/// How far from its home a key may lie.
const WINDOW: usize = 32;

/// Keys apart from the rest, so that a search touches few cache lines. 0: nobody.
static KEYS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static THREADS: [Thread; PLACES] = [const { Thread::new() }; PLACES];
/// The places in use, for those who go through all threads.
static DENSE: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// One sampled thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Thread {
    /// The kernel's id; 0: the place is free.
    pub(crate) tid: AtomicI32,
    /// Its `JNIEnv*`.
    pub(crate) env: AtomicUsize,
    /// Its `JavaThread*`.
    pub(crate) java_thread: AtomicU64,
    /// Its place in the guard; null until its first handler, which registers it.
    pub(crate) slot: AtomicPtr<GuardSlot>,
    /// The handle of its safepoint queue; 0: it has none.
    pub(crate) queue: AtomicU64,
    /// Single steps still to make; 0: it runs freely.
    pub(crate) steps_left: AtomicU32,
    /// Samples in a row that found it at the same system call.
    pub(crate) still: AtomicU32,
    /// Where they found it.
    pub(crate) still_sp: AtomicU64,
    /// It waits: its clocks are stopped until it uses CPU time again.
    pub(crate) idle: AtomicBool,
    /// CPU time when it was found waiting, in ns.
    pub(crate) cpu_seen: AtomicU64,
    /// CPU time at the last account, in ns.
    pub(crate) cpu_base: AtomicU64,
    /// Whether its clocks should run. Changes under the control lock.
    pub(crate) chosen: AtomicBool,
    /// A signal of the ticking thread is under way to it.
    pub(crate) pending: AtomicBool,
    /// Its timers or event descriptors by clock, -1 for none. Change under the control lock.
    pub(crate) handles: [AtomicI32; CLOCKS],
    /// Written by its handlers only.
    pub(crate) samples: [AtomicU64; CLOCKS],
    /// Written by its handlers only, for the ticking clock by the ticking thread only.
    pub(crate) coalesced: [AtomicU64; CLOCKS],
    /// CPU time with clocks running that has been accounted for, in ns.
    pub(crate) accounted: AtomicU64,
}

impl Thread {
    const fn new() -> Self {
        Self {
            tid: AtomicI32::new(0),
            env: AtomicUsize::new(0),
            java_thread: AtomicU64::new(0),
            slot: AtomicPtr::new(std::ptr::null_mut()),
            queue: AtomicU64::new(0),
            steps_left: AtomicU32::new(0),
            still: AtomicU32::new(0),
            still_sp: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            cpu_seen: AtomicU64::new(0),
            cpu_base: AtomicU64::new(0),
            chosen: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            handles: [const { AtomicI32::new(-1) }; CLOCKS],
            samples: [const { AtomicU64::new(0) }; CLOCKS],
            coalesced: [const { AtomicU64::new(0) }; CLOCKS],
            accounted: AtomicU64::new(0),
        }
    }

    fn reset(&self) {
        self.slot.store(std::ptr::null_mut(), Relaxed);
        self.queue.store(0, Relaxed);
        self.steps_left.store(0, Relaxed);
        self.still.store(0, Relaxed);
        self.idle.store(false, Relaxed);
        self.cpu_seen.store(0, Relaxed);
        self.chosen.store(false, Relaxed);
        self.pending.store(false, Relaxed);
        self.cpu_base.store(0, Relaxed);
        for handle in &self.handles {
            handle.store(-1, Relaxed);
        }
        self.forget_counts();
    }

    /// Counts from zero.
    pub(crate) fn forget_counts(&self) {
        self.accounted.store(0, Relaxed);
        for word in self.samples.iter().chain(&self.coalesced) {
            word.store(0, Relaxed);
        }
    }

    /// The calling thread, if it is sampled. Signal-safe.
    #[inline]
    pub(crate) fn current() -> Option<&'static Thread> {
        find(own_key())
    }

    /// Says who it is.
    pub(crate) fn identify(&self, who: Identity) {
        self.env.store(who.env, Relaxed);
        self.java_thread.store(who.java_thread, Relaxed);
        self.tid.store(who.tid, Relaxed);
    }

    /// How walkers name it.
    #[inline]
    pub(crate) fn handle(&self) -> ThreadHandle {
        ThreadHandle {
            env: self.env.load(Relaxed) as *mut _,
            tid: self.tid.load(Relaxed),
        }
    }

    /// Its place, which tells it apart from other live ones.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        (std::ptr::from_ref(self) as usize).wrapping_sub(THREADS.as_ptr() as usize)
            / size_of::<Thread>()
            % PLACES
    }
}

/// The calling thread's key. Signal-safe.
#[inline]
pub(crate) fn own_key() -> u64 {
    arch::own_pthread()
}

#[inline]
fn home(key: u64) -> usize {
    // Thread control blocks are aligned to 64 bytes at least; the upper bits of the product are the mixed ones.
    ((key >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The thread of that key, if it is in the table. Signal-safe.
#[inline]
pub(crate) fn find(key: u64) -> Option<&'static Thread> {
    let home = home(key);
    (home..home + WINDOW).find_map(|place| {
        let place = place % PLACES;
        (KEYS[place].load(Acquire) == key).then(|| &THREADS[place])
    })
}

/// Who a thread is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Its `pthread_self()`.
    pub(crate) key: u64,
    pub(crate) tid: i32,
    pub(crate) env: usize,
    pub(crate) java_thread: u64,
}

/// Puts a thread into the table; `None` if its window is full, or if its key is there already. Under the control lock.
pub(crate) fn add(who: Identity) -> Option<&'static Thread> {
    let home = home(who.key);
    let window = || (home..home + WINDOW).map(|place| place % PLACES);
    if window().any(|place| KEYS[place].load(Relaxed) == who.key) {
        return None;
    }
    let place = window().find(|place| KEYS[*place].load(Relaxed) == 0)?;
    let thread = &THREADS[place];
    thread.reset();
    thread.identify(who);
    let count = COUNT.load(Relaxed);
    DENSE[count].store(place as u32, Relaxed);
    COUNT.store(count + 1, Release);
    KEYS[place].store(who.key, Release);
    Some(thread)
}

/// Takes a thread out. Under the control lock, and on the thread itself.
pub(crate) fn remove(thread: &'static Thread) {
    let place = thread.place();
    KEYS[place].store(0, Release);
    let count = COUNT.load(Relaxed);
    let found = (0..count).find(|&at| DENSE[at].load(Relaxed) as usize == place);
    if let (Some(at), Some(last)) = (found, count.checked_sub(1)) {
        DENSE[at].store(DENSE[last].load(Relaxed), Relaxed);
        COUNT.store(last, Release);
    }
    thread.tid.store(0, Relaxed);
}

/// How many there are.
pub(crate) fn count() -> usize {
    COUNT.load(Acquire)
}

/// The thread at a position below [`count`]. Without the control lock it may be one that has just left, or one that was seen before.
#[inline]
pub(crate) fn at(position: usize) -> Option<&'static Thread> {
    let place = DENSE.get(position)?.load(Relaxed) as usize;
    THREADS.get(place)
}

/// All threads. As [`at`].
pub(crate) fn all() -> impl Iterator<Item = &'static Thread> {
    (0..count()).filter_map(at)
}

/// The table is the process's: tests that use it take turns.
#[cfg(test)]
pub(crate) static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_by_themselves_alone() {
        let _turn = TURN.lock().unwrap();
        assert!(Thread::current().is_none());
        let identity = |key: u64, tid: i32| Identity {
            key,
            tid,
            env: 1,
            java_thread: 2,
        };
        let mine = add(identity(own_key(), 7)).unwrap();
        assert!(add(identity(own_key(), 7)).is_none(), "it is there already");
        assert!(std::ptr::eq(Thread::current().unwrap(), mine));
        std::thread::spawn(|| assert!(Thread::current().is_none()))
            .join()
            .unwrap();
        // Keys of one home fill their window and no more.
        let keys: Vec<u64> = (1..10_000_000_u64)
            .map(|n| n << 6)
            .filter(|key| home(*key) == PLACES - 2)
            .take(WINDOW + 1)
            .collect();
        assert_eq!(keys.len(), WINDOW + 1);
        let added: Vec<_> = keys
            .iter()
            .enumerate()
            .filter_map(|(at, key)| add(identity(*key, 100 + at as i32)))
            .collect();
        assert!((WINDOW - 1..=WINDOW).contains(&added.len()));
        assert_eq!(count(), added.len() + 1);
        let middle = added[3];
        remove(middle);
        assert_eq!(count(), added.len());
        assert!(all().all(|thread| !std::ptr::eq(thread, middle)));
        assert!(add(identity(keys[WINDOW], 999)).is_some(), "room again");
        remove(mine);
        assert!(Thread::current().is_none());
        while let Some(left) = all().next() {
            remove(left);
        }
    }
}
