//! The flow of control that moves onto parked threads.
//!
//! A fuzzer's loop (libFuzzer's, AFL's, a test's) is one flow of control that wants to run *inside* the signal handler of a
//! Java thread, because only there is the thread's stack held still and is the walker's idea of "the current thread" right.
//! Two threads with a hand-over per input would cost microseconds; so the flow itself moves: when it asks for a moment, its
//! stack pointer is put aside, the thread that carried it goes on with its own work, and the next sampled Java thread
//! takes the flow up in its handler. The thread that the flow began on (*home*) sleeps meanwhile.
//!
//! # Contract
//! - One flow per process. No reference to thread-local storage may be held across a move.
//! - A thread takes the flow only while it executes Java code in the code cache: it holds no lock of libc's or the JVM's,
//!   so that the flow may allocate and lock although it runs in a handler. The handler itself does neither.
//! - While a thread is parked no safepoint is reached: the engine bounds each park by count and time.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use walkfuzz_guard::{futex, read_registers, set_trap_flag};

use crate::arch;
use crate::worker::{Workers, sample_after};

/// Nobody's turn: all workers run.
pub(crate) const EVERYBODY: u32 = u32::MAX;
/// The workload shall end.
pub(crate) const NOBODY: u32 = u32::MAX - 1;

/// Who may take the flow up.
mod phase {
    /// The flow runs.
    pub(super) const HELD: u32 = 0;
    /// The next qualifying sample of the wanted worker.
    pub(super) const SAMPLE: u32 = 1;
    /// The wanted worker's next trap.
    pub(super) const STEP: u32 = 2;
    /// The home thread.
    pub(super) const HOME: u32 = 3;
}

/// Where the flow wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Onto this worker, doing this kind of work, when it next is in Java code after this many nanoseconds.
    Sample {
        worker: usize,
        kind: u32,
        delay: u32,
    },
    /// Onto the same worker, one instruction later.
    Step,
    /// Back to the thread that it came from.
    Home,
}

/// Where the flow finds itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the handler of this worker, which was interrupted with this context.
    Parked {
        worker: usize,
        context: *mut libc::ucontext_t,
    },
    /// At home: as asked, or because no sample came in time.
    Home { gave_up: bool },
}

pub(crate) struct Baton {
    phase: AtomicU32,
    turn: AtomicU32,
    wanted: AtomicUsize,
    /// The kind of work that the workload shall do in this turn; 0 lets it choose.
    kind: AtomicU32,
    /// The saved stack pointer of the flow; meaningful while `phase` is not `HELD`.
    flow: UnsafeCell<usize>,
    /// The saved stack pointer of whoever carries the flow; written by the carrier before it switches to the flow.
    carrier: UnsafeCell<usize>,
    /// What the flow wants next, and where it was taken up; handed over together with the flow.
    intent: UnsafeCell<Intent>,
    place: UnsafeCell<Place>,
    idle_stack: AtomicPtr<u8>,
    /// What a sample must satisfy.
    code_low: AtomicU64,
    code_high: AtomicU64,
    state_offset: AtomicU64,
    in_java: AtomicU32,
    /// How long home waits for a sample before it takes the flow back.
    patience_ms: AtomicU32,
    /// Samples that arrived, and those of them that came outside Java code.
    pub(crate) samples: AtomicI64,
    pub(crate) outside: AtomicI64,
    random: AtomicU64,
}

// SAFETY: the cells are handed over with the flow: they are written by its current carrier only, and each hand-over goes
// through a release store and an acquire exchange of `phase`.
unsafe impl Sync for Baton {}

pub(crate) static BATON: Baton = Baton {
    phase: AtomicU32::new(phase::HELD),
    turn: AtomicU32::new(EVERYBODY),
    wanted: AtomicUsize::new(0),
    kind: AtomicU32::new(0),
    flow: UnsafeCell::new(0),
    carrier: UnsafeCell::new(0),
    intent: UnsafeCell::new(Intent::Home),
    place: UnsafeCell::new(Place::Home { gave_up: false }),
    idle_stack: AtomicPtr::new(std::ptr::null_mut()),
    code_low: AtomicU64::new(u64::MAX),
    code_high: AtomicU64::new(0),
    state_offset: AtomicU64::new(0),
    in_java: AtomicU32::new(8),
    patience_ms: AtomicU32::new(10_000),
    samples: AtomicI64::new(0),
    outside: AtomicI64::new(0),
    random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
};

pub(crate) static WORKERS: Workers = Workers::new();

impl Baton {
    /// Sets what a sample must satisfy: pc within the code cache's reserved range, thread state "in Java".
    pub(crate) fn set_filter(&self, code: std::ops::Range<u64>, state_offset: u64, in_java: u32) {
        self.code_low.store(code.start, Ordering::Relaxed);
        self.code_high.store(code.end, Ordering::Relaxed);
        self.state_offset.store(state_offset, Ordering::Relaxed);
        self.in_java.store(in_java, Ordering::Release);
    }

    pub(crate) fn set_patience(&self, milliseconds: u32) {
        self.patience_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Whether `pc` lies in the code cache.
    #[inline]
    pub(crate) fn in_code(&self, pc: u64) -> bool {
        pc >= self.code_low.load(Ordering::Relaxed) && pc < self.code_high.load(Ordering::Relaxed)
    }

    /// Gives the turn to one worker, [`EVERYBODY`] or [`NOBODY`].
    pub(crate) fn give_turn(&self, whom: u32) {
        if self.turn.swap(whom, Ordering::AcqRel) != whom {
            futex::wake_all(&self.turn);
        }
    }

    /// Blocks the calling worker until it is its turn. Negative when the workload shall end; else the kind of work to do.
    pub(crate) fn await_turn(&self, index: u32) -> i32 {
        loop {
            match self.turn.load(Ordering::Acquire) {
                NOBODY => return -1,
                EVERYBODY => return 0,
                turn if turn == index => return self.kind.load(Ordering::Relaxed).cast_signed(),
                turn => futex::wait(&self.turn, turn, 1000),
            }
        }
    }

    /// Moves the calling flow. Returns where it was taken up.
    ///
    /// # Safety
    /// Only the flow may call this; see the module's contract.
    pub(crate) unsafe fn travel(&self, intent: Intent, home_stack_top: *mut u8) -> Place {
        // SAFETY: the caller is the flow, so `phase` is HELD and the cells are its own; the carrier's stack pointer was
        // saved when it took the flow up, or is that of a fresh idle flow.
        unsafe {
            *self.intent.get() = intent;
            let carrier = match *self.place.get() {
                Place::Parked { .. } => *self.carrier.get(),
                Place::Home { .. } => {
                    if self
                        .idle_stack
                        .swap(home_stack_top, Ordering::Relaxed)
                        .is_null()
                    {
                        arch::prepare(
                            home_stack_top,
                            idle_at_home,
                            std::ptr::from_ref(self) as usize,
                        )
                    } else {
                        *self.carrier.get()
                    }
                }
            };
            arch::switch(self.flow.get(), carrier);
            *self.place.get()
        }
    }

    /// Runs on the carrier's stack once the flow is put aside: lets the next carrier take it up.
    ///
    /// # Safety
    /// Only the carrier that the flow just left may call this. `context` is its interrupted context, null at home.
    unsafe fn publish(&self, context: *mut libc::ucontext_t) {
        // SAFETY: until `phase` changes below, nobody else touches the cell.
        let intent = unsafe { *self.intent.get() };
        if !context.is_null() {
            // SAFETY: the kernel's context of the interrupted thread, on its own stack.
            let _ = unsafe { set_trap_flag(context, intent == Intent::Step) };
        }
        match intent {
            Intent::Sample {
                worker,
                kind,
                delay,
            } => {
                self.wanted.store(worker, Ordering::Relaxed);
                self.kind.store(kind, Ordering::Relaxed);
                self.phase.store(phase::SAMPLE, Ordering::Release);
                self.give_turn(worker as u32);
                if let Some(worker) = WORKERS.get(worker) {
                    sample_after(worker, delay);
                }
            }
            Intent::Step => self.phase.store(phase::STEP, Ordering::Release),
            Intent::Home => {
                self.phase.store(phase::HOME, Ordering::Release);
                futex::wake_all(&self.phase);
            }
        }
    }

    /// Takes the flow up on the calling thread, and returns when the flow has left it.
    ///
    /// # Safety
    /// The caller has exchanged `phase` to HELD.
    unsafe fn carry(&self, place: Place) {
        // SAFETY: holding the phase means owning the cells; the flow's stack pointer was saved by its `switch`.
        unsafe {
            *self.place.get() = place;
            arch::switch(self.carrier.get(), *self.flow.get());
        }
    }

    fn take(&self, from: u32) -> bool {
        self.phase
            .compare_exchange(from, phase::HELD, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn random_delay(&self) -> u32 {
        let next = self
            .random
            .load(Ordering::Relaxed)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random.store(next, Ordering::Relaxed);
        5_000 + ((next >> 40) as u32 % 45_000)
    }
}

/// What the home thread does while its flow is away.
extern "C" fn idle_at_home(baton: usize) -> ! {
    // SAFETY: `travel` passes the address of the static baton.
    let baton = unsafe { &*(baton as *const Baton) };
    loop {
        // SAFETY: the flow just left this thread.
        unsafe { baton.publish(std::ptr::null_mut()) };
        let mut waited = 0;
        let mut last = baton.samples.load(Ordering::Relaxed);
        let gave_up = loop {
            let seen = baton.phase.load(Ordering::Acquire);
            if seen == phase::HOME {
                if baton.take(phase::HOME) {
                    break false;
                }
                continue;
            }
            futex::wait(&baton.phase, seen, 250);
            let now = baton.samples.load(Ordering::Relaxed);
            waited = if seen == phase::SAMPLE && now == last {
                waited + 250
            } else {
                0
            };
            last = now;
            if waited > baton.patience_ms.load(Ordering::Relaxed) && baton.take(phase::SAMPLE) {
                break true;
            }
        };
        // SAFETY: the phase was taken just above.
        unsafe { baton.carry(Place::Home { gave_up }) };
    }
}

/// SIGPROF's handler.
pub(crate) extern "C" fn on_sample(_signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers to a three-argument handler; errno is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        if !info.is_null() && (*info).si_code == libc::SI_TIMER {
            sampled((*info).si_value().sival_ptr as usize, context.cast());
        }
        *libc::__errno_location() = errno;
    }
}

/// # Safety
/// `context` is the kernel's, of the calling thread.
unsafe fn sampled(index: usize, context: *mut libc::ucontext_t) {
    let baton = &BATON;
    if baton.phase.load(Ordering::Acquire) != phase::SAMPLE
        || baton.wanted.load(Ordering::Relaxed) != index
    {
        return;
    }
    let Some(worker) = WORKERS.get(index) else {
        return;
    };
    baton.samples.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the context is the kernel's; a JavaThread outlives its own handlers, and its state is one of its words.
    let (registers, state) = unsafe {
        let state = (worker.java_thread + baton.state_offset.load(Ordering::Relaxed)) as *const u32;
        (read_registers(context), state.read_volatile())
    };
    if state != baton.in_java.load(Ordering::Relaxed) || !baton.in_code(registers.pc().0) {
        baton.outside.fetch_add(1, Ordering::Relaxed);
        sample_after(worker, baton.random_delay());
        return;
    }
    if baton.take(phase::SAMPLE) {
        // SAFETY: the phase was taken; after `carry` the flow has left this thread.
        unsafe {
            baton.carry(Place::Parked {
                worker: index,
                context,
            });
            baton.publish(context);
        }
    }
}

/// Unclaimed SIGTRAPs: a single step ends here. Returns false when the trap is not the engine's.
///
/// A trap that nobody waits for is ours all the same: HotSpot's stubs save the flags with `pushf`, the trap flag among them, and
/// `popf` brings it back when the thread is no longer stepped. It is cleared then.
pub(crate) unsafe fn on_trap(info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) -> bool {
    /// The kernel's si_code of a single step.
    const TRAP_TRACE: i32 = 2;
    let baton = &BATON;
    // SAFETY: the guard passes the kernel's pointers on; errno is this thread's own.
    unsafe {
        if info.is_null() || (*info).si_code != TRAP_TRACE {
            return false;
        }
        let errno = *libc::__errno_location();
        let worker = baton.wanted.load(Ordering::Relaxed);
        let ours = WORKERS
            .get(worker)
            .is_some_and(|worker| worker.thread.tid == libc::gettid());
        if ours && baton.take(phase::STEP) {
            baton.carry(Place::Parked { worker, context });
            baton.publish(context);
        } else {
            let _ = set_trap_flag(context, false);
        }
        *libc::__errno_location() = errno;
    }
    true
}
