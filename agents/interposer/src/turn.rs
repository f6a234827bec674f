//! One thread at a time is in the profiler's handlers.
//!
//! What a handler that was left had changed can be put back only while nobody else is at work in the same memory. A signal that comes while another
//! thread has the turn waits for it a little, and is dropped then: profilers bear lost signals.
//!
//! Contract: signal-safe.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

/// How often a handler looks before it gives its signal up.
const LOOKS: u32 = 2_000;

/// The thread that has it; 0: nobody.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// Signals that were given up.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The turn; it ends when this is dropped.
pub(crate) struct Turn(());

impl Turn {
    /// Takes it for the thread `tid`, the calling one. `None`: the signal is to be dropped.
    pub(crate) fn take(tid: i32) -> Option<Self> {
        let mut looks = 0;
        while OWNER.compare_exchange(0, tid, Acquire, Relaxed).is_err() {
            looks += 1;
            if looks == LOOKS || is_mine(tid) {
                DROPPED.fetch_add(1, Relaxed);
                return None;
            }
            std::hint::spin_loop();
        }
        Some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        OWNER.store(0, Release);
    }
}

/// Whether the thread `tid`, the calling one, has the turn.
pub(crate) fn is_mine(tid: i32) -> bool {
    OWNER.load(Relaxed) == tid
}

/// Signals that were given up so far.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}
