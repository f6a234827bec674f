//! A thread that makes the walks of held threads for them, as a profiler's sampling thread does.
//!
//! The flow on the held thread lays its call down, wakes the hand and waits; the hand makes the call under the guard and wakes the flow. A call that
//! hangs is ended by the hand's alarm, so that the wait has an end. Or the flow lays its call down, lets the thread go, and fetches the result when it
//! holds the next one: then the walked thread runs on.
//!
//! Contract: [`Hand::walk`] allocates and locks nothing. One flow uses it at a time. It is not there in a forked copy: walks of copies are made on the spot.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::mpsc;
use std::time::Duration;

use walkfuzz_guard::{Alarm, Fault, futex, register_thread, take_fault_signals_only};
use walkfuzz_walkers::{Call, TraceBuffer, Walked, Walker, walk_guarded};

use crate::error::EngineError;

/// The hand waits for a call.
const IDLE: u32 = 0;
/// A call lies there.
const ASKED: u32 = 1;
/// It has been made.
const MADE: u32 = 2;

/// How often somebody looks before going to sleep: on two cores the other one answers within some microseconds.
const LOOKS: u32 = 2_000;
/// Between two looks of one who sleeps, in ms; wake-ups come at once.
const NAP: u32 = 100;

/// See the module. Lives for ever.
#[derive(Debug)]
pub(crate) struct Hand {
    state: AtomicU32,
    errand: UnsafeCell<Option<Errand>>,
}

/// A call and where its result goes.
#[derive(Debug)]
struct Errand {
    walker: *const dyn Walker,
    call: Call,
    trace: *const TraceBuffer,
    fault: *mut Fault,
    walked: Option<Walked>,
    /// Turns that the hand makes before the call.
    delay: u32,
}

// SAFETY: `state` gives the errand to the flow or to the hand; what it points to lives until the flow has the result.
unsafe impl Sync for Hand {}
// SAFETY: as above.
unsafe impl Send for Hand {}

impl Hand {
    /// Starts the thread. A call that takes longer than `hang` (at most twice) is ended.
    pub(crate) fn start(hang: Duration) -> Result<&'static Self, EngineError> {
        let hand: &'static Hand = Box::leak(Box::new(Hand {
            state: AtomicU32::new(IDLE),
            errand: UnsafeCell::new(None),
        }));
        let (ready, started) = mpsc::channel();
        std::thread::Builder::new()
            .name("walkfuzz-hand".to_owned())
            .spawn(move || hand.serve(hang, &ready))
            .map_err(EngineError::Hand)?;
        let gone = |_| EngineError::Hand(std::io::ErrorKind::BrokenPipe.into());
        started.recv().map_err(gone)??;
        Ok(hand)
    }

    fn serve(&self, hang: Duration, ready: &mpsc::Sender<Result<(), EngineError>>) {
        // A sample of ours, or somebody's, must not come in between.
        take_fault_signals_only();
        let prepared = register_thread().and_then(|slot| {
            let alarm = Alarm::new(slot)?;
            alarm.arm(hang)?;
            Ok((slot, alarm))
        });
        let (slot, _alarm) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                // The receiver waits for exactly this.
                let _ = ready.send(Err(EngineError::Guard(error)));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        loop {
            self.await_state(ASKED);
            // SAFETY: asked: it is the hand's now.
            if let Some(errand) = unsafe { &mut *self.errand.get() } {
                for _ in 0..errand.delay {
                    std::hint::spin_loop();
                }
                // SAFETY: the flow waits, so that what it lent lives; the slot is this thread's.
                errand.walked = Some(unsafe {
                    walk_guarded(
                        slot,
                        &*errand.walker,
                        &errand.call,
                        &*errand.trace,
                        &mut *errand.fault,
                    )
                });
            }
            self.state.store(MADE, Release);
            futex::wake_all(&self.state);
        }
    }

    /// Has the call made that `walker` prepared into `trace`.
    pub(crate) fn walk(
        &self,
        walker: &dyn Walker,
        call: &Call,
        trace: &TraceBuffer,
        fault: &mut Fault,
    ) -> Option<Walked> {
        // SAFETY: what is lent is lent until this returns.
        unsafe { self.lay(walker, call, trace, fault, 0) };
        self.ask();
        self.fetch()
    }

    /// Lays a call down, which `walker` prepared into `trace`; the hand makes so many turns before it makes the call.
    ///
    /// # Safety
    /// [`fetch`](Self::fetch) comes while everything that is lent lives, before another call is laid down.
    pub(crate) unsafe fn lay(
        &self,
        walker: &dyn Walker,
        call: &Call,
        trace: &TraceBuffer,
        fault: &mut Fault,
        delay: u32,
    ) {
        // SAFETY: of the reference's lifetime nothing is left after the fetch: the errand is taken back.
        let walker = unsafe {
            std::mem::transmute::<*const (dyn Walker + '_), *const (dyn Walker + 'static)>(walker)
        };
        let errand = Errand {
            walker,
            call: *call,
            trace,
            fault,
            walked: None,
            delay,
        };
        // SAFETY: idle: it is the flow's.
        unsafe { *self.errand.get() = Some(errand) };
    }

    /// The hand may make the call that lies there.
    pub(crate) fn ask(&self) {
        self.state.store(ASKED, Release);
        futex::wake_all(&self.state);
    }

    /// Waits until the call has been made that was asked for.
    pub(crate) fn fetch(&self) -> Option<Walked> {
        self.await_state(MADE);
        // SAFETY: made: it is the flow's again.
        let errand = unsafe { (*self.errand.get()).take() };
        self.state.store(IDLE, Release);
        errand?.walked
    }

    fn await_state(&self, wanted: u32) {
        for _ in 0..LOOKS {
            if self.state.load(Acquire) == wanted {
                return;
            }
            std::hint::spin_loop();
        }
        loop {
            let now = self.state.load(Acquire);
            if now == wanted {
                return;
            }
            futex::wait(&self.state, now, NAP);
        }
    }
}
