//! One thread at a time is in the profiler's handlers.
//!
//! What a handler that was left had changed can be put back only while nobody else is at work in the same memory. A signal that comes while another
//! thread has the turn waits for it a little, and is dropped then: profilers bear lost signals.
//!
//! Contract: signal-safe, except for [`Turn::wait`].

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

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
        loop {
            if let Some(turn) = Self::if_free(tid) {
                return Some(turn);
            }
            looks += 1;
            if looks == LOOKS || is_mine(tid) {
                DROPPED.fetch_add(1, Relaxed);
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes it for the calling thread, which is in no handler. `None`: nobody gave it back for so long.
    pub(crate) fn wait(limit: Duration) -> Option<Self> {
        let began = Instant::now();
        // SAFETY: no arguments.
        let tid = unsafe { libc::gettid() };
        loop {
            let turn = Self::if_free(tid);
            if turn.is_some() || began.elapsed() > limit {
                return turn;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn if_free(tid: i32) -> Option<Self> {
        let taken = OWNER.compare_exchange(0, tid, Acquire, Relaxed);
        // Only made when it is: one that is dropped gives the turn back.
        taken.is_ok().then(|| Self(()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_takes_the_turn_from_nobody() {
        let mine = Turn::wait(Duration::ZERO);
        assert!(mine.is_some());
        assert!(Turn::wait(Duration::ZERO).is_none());
        assert!(Turn::take(1).is_none());
        // SAFETY: no arguments.
        assert!(is_mine(unsafe { libc::gettid() }));
        drop(mine);
        assert!(Turn::take(1).is_some());
        assert!(!is_mine(1));
    }
}
