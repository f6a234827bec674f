//! Where a handler lays down the context of its thread, and another thread takes it up.
//!
//! There is one desk. Who finds it taken goes without. Every wait at it has an end.
//!
//! Contract: all but [`Desk::new`] is signal-safe.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use walkfuzz_guard::futex;
use walkfuzz_walkers::ticks;

use crate::threads::Thread;

/// Nothing lies there.
const FREE: u32 = 0;
/// A handler is laying something down.
const LAYING: u32 = 1;
/// It lies there.
const OFFERED: u32 = 2;
/// It is being walked.
const WALKING: u32 = 3;
/// It has been walked, and the handler waits for that.
const WALKED: u32 = 4;
/// It is being walked, and its thread goes on.
const LEFT: u32 = 5;

/// How long somebody waits before looking again, in ms: a signal to a waiting thread, and a lost wake-up, cost no more.
const NAP: u32 = 5;

/// See the module.
pub(crate) struct Desk<P> {
    state: AtomicU32,
    thread: AtomicPtr<Thread>,
    paper: UnsafeCell<P>,
}

// SAFETY: `state` gives the paper to one thread at a time.
unsafe impl<P: Send> Sync for Desk<P> {}

/// How an offer ended for the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The walk is done.
    Walked,
    /// Nobody took it up in time: it was taken back.
    TakenBack,
    /// It was being walked when time was up: the walk goes on without its thread.
    Left,
}

impl<P> Desk<P> {
    pub(crate) fn new(paper: P) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            thread: AtomicPtr::new(std::ptr::null_mut()),
            paper: UnsafeCell::new(paper),
        }
    }

    /// Lays down for a handler of `thread` what `write` writes, and offers it. False if the desk is taken.
    pub(crate) fn offer(&self, thread: &'static Thread, write: impl FnOnce(&mut P)) -> bool {
        if !self.change(FREE, LAYING) {
            return false;
        }
        self.thread
            .store(std::ptr::from_ref(thread).cast_mut(), Relaxed);
        // SAFETY: nobody else touches it while the desk is being laid.
        write(unsafe { &mut *self.paper.get() });
        self.state.store(OFFERED, Release);
        futex::wake_all(&self.state);
        true
    }

    /// The handler waits until it has been walked, for so many ticks at most.
    pub(crate) fn wait(&self, most: u64) -> Patience {
        let began = ticks();
        loop {
            let now = self.state.load(Acquire);
            if now == WALKED {
                self.state.store(FREE, Release);
                return Patience::Walked;
            }
            if ticks().wrapping_sub(began) < most {
                futex::wait(&self.state, now, NAP);
            } else if self.change(OFFERED, FREE) {
                return Patience::TakenBack;
            } else if self.change(WALKING, LEFT) {
                return Patience::Left;
            }
        }
    }

    /// The walking thread walks what is offered; `None` if nothing is, after a little while. After a walk [`done`](Self::done) must follow.
    pub(crate) fn take_up<T>(&self, walk: impl FnOnce(&mut P) -> T) -> Option<T> {
        if self.change(OFFERED, WALKING) {
            // SAFETY: nobody else touches it while it is walked.
            return Some(walk(unsafe { &mut *self.paper.get() }));
        }
        let now = self.state.load(Acquire);
        if now != OFFERED {
            futex::wait(&self.state, now, 20 * NAP);
        }
        None
    }

    /// The walk is done; `held` says whether the walked thread waits for it. False if it went on before.
    pub(crate) fn done(&self, held: bool) -> bool {
        let stayed = self.change(WALKING, if held { WALKED } else { FREE });
        if !stayed {
            self.state.store(FREE, Release);
        }
        futex::wake_all(&self.state);
        stayed
    }

    /// A thread that is about to end, and will make no more offers, waits until nothing of it is walked, for so many ticks at most. Says whether
    /// there was anything to wait for, and whether it is over.
    pub(crate) fn await_end_of(&self, thread: &'static Thread, most: u64) -> (bool, bool) {
        let began = ticks();
        let mut waited = false;
        loop {
            let now = self.state.load(Acquire);
            let concerns = std::ptr::eq(self.thread.load(Relaxed), thread);
            if !concerns || now == FREE || self.change(OFFERED, FREE) {
                return (waited, true);
            }
            if ticks().wrapping_sub(began) > most {
                return (true, false);
            }
            waited = true;
            futex::wait(&self.state, now, NAP);
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state
            .compare_exchange(from, to, AcqRel, Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::threads;

    const LONG: u64 = u64::MAX;

    /// A desk and two threads of the table, which nobody else uses meanwhile.
    fn with_threads(body: impl FnOnce(&'static Thread, &'static Thread)) {
        let _turn = threads::TURN.lock().unwrap();
        let identity = |key: u64| threads::Identity {
            key,
            tid: 1,
            env: 1,
            java_thread: 2,
        };
        let one = threads::add(identity(0x1000)).unwrap();
        let other = threads::add(identity(0x2000)).unwrap();
        body(one, other);
        threads::remove(one);
        threads::remove(other);
    }

    #[test]
    fn one_at_a_time_and_whoever_waits_is_woken() {
        with_threads(|one, other| {
            let desk = Desk::new(0_u32);
            assert!(desk.offer(one, |paper| *paper = 7));
            assert!(!desk.offer(other, |paper| *paper = 9), "it is taken");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut taken = std::iter::repeat_with(|| desk.take_up(|paper| *paper));
                    assert_eq!(taken.find_map(|paper| paper), Some(7));
                    assert!(desk.done(true));
                });
                assert_eq!(desk.wait(LONG), Patience::Walked);
            });
            assert!(desk.offer(other, |_| {}), "it is free again");
        });
    }

    #[test]
    fn nobody_waits_for_ever() {
        with_threads(|one, other| {
            let desk = Desk::new(0_u32);
            assert!(desk.offer(one, |_| {}));
            assert_eq!(desk.wait(1), Patience::TakenBack);
            assert!(desk.offer(one, |_| {}));
            assert!(desk.take_up(|_| {}).is_some());
            assert_eq!(desk.wait(1), Patience::Left);
            assert_eq!(desk.await_end_of(one, 1), (true, false), "still walked");
            assert_eq!(desk.await_end_of(other, 1), (false, true), "not its walk");
            assert!(!desk.done(true), "its thread has gone on");
            assert_eq!(desk.await_end_of(one, 1), (false, true));
        });
    }

    #[test]
    fn who_ends_waits_for_the_walk_and_takes_its_offer_back() {
        with_threads(|one, _| {
            let desk = Desk::new(0_u32);
            assert!(desk.offer(one, |_| {}));
            assert_eq!(desk.await_end_of(one, LONG), (false, true));
            assert!(desk.offer(one, |_| {}));
            let walked = AtomicBool::new(false);
            assert!(desk.take_up(|_| {}).is_some());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    walked.store(true, SeqCst);
                    desk.done(false);
                });
                assert_eq!(desk.await_end_of(one, LONG), (true, true));
                assert!(walked.load(SeqCst));
            });
        });
    }
}
