//! What a sampling signal becomes: calls of the profiler's handler, the first with a copy of the context as it is, the others with perturbed copies.
//!
//! All of them are made under the guard, in a turn of one thread. Threads that are not known (the JVM's own, and those that were there before the JVM
//! had started) get the handler's call as it is, also in a turn.
//!
//! Contract: signal-safe: no allocation, lock, formatting, thread-local storage or panic.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use libc::{c_int, siginfo_t, ucontext_t};
use walkfuzz_context::{Address, Registers};
use walkfuzz_guard::{
    Fault, FaultKind, GuardSlot, call, copy_context, read_registers, write_registers,
};
use walkfuzz_jvm::HostFacts;
use walkfuzz_record::{Counter, Lane, RETURNED, Recorder, WalkOutcome, WalkerId};
use walkfuzz_vmstructs::{CodeMap, Perturber};
use walkfuzz_walkers::{fault_record, ticks};

use crate::actions::{self, Handler};
use crate::agct::{self, Difference, Told};
use crate::checkpoint::Checkpoint;
use crate::queue::Queue;
use crate::threads::{self, Thread};
use crate::turn::Turn;

/// The only walker of a record.
const WALKER: WalkerId = WalkerId(0);

static CURRENT: AtomicPtr<Interposer> = AtomicPtr::new(std::ptr::null_mut());

/// What handlers need, made once, and never freed.
pub(crate) struct Interposer {
    pub(crate) recorder: Recorder,
    pub(crate) facts: HostFacts,
    pub(crate) perturber: Perturber,
    pub(crate) perturb: u32,
    /// JFR's, if its elements are edited.
    pub(crate) queue: Option<Queue>,
    /// One in the process that it was made in, zero in forked copies of it.
    pub(crate) original: &'static AtomicU32,
    pub(crate) tools: Tools,
    /// Signals that came.
    pub(crate) came: AtomicU64,
}

/// Belongs to who has the turn.
pub(crate) struct Tools(UnsafeCell<Bench>);

struct Bench {
    fault: Fault,
    scratch: Box<ucontext_t>,
    checkpoint: Checkpoint,
    code: Box<CodeMap>,
}

// SAFETY: the turn gives it to one thread at a time.
unsafe impl Sync for Tools {}

impl Tools {
    pub(crate) fn new(checkpoint: Checkpoint) -> Self {
        Self(UnsafeCell::new(Bench {
            fault: Fault::NONE,
            // SAFETY: all-zero is a valid ucontext_t.
            scratch: unsafe { Box::new(std::mem::zeroed()) },
            checkpoint,
            code: Box::default(),
        }))
    }

    /// Replaces what is known of the code cache. Gives the old map back, to be freed outside the turn.
    pub(crate) fn replace_code(&self, _turn: &Turn, code: Box<CodeMap>) -> Box<CodeMap> {
        // SAFETY: the turn is the caller's.
        let bench = unsafe { &mut *self.0.get() };
        std::mem::replace(&mut bench.code, code)
    }
}

/// One call of the profiler's handler.
struct Signal<'a> {
    handler: Handler,
    number: c_int,
    info: *mut siginfo_t,
    context: *mut ucontext_t,
    thread: &'a Thread,
    slot: &'a GuardSlot,
}

impl Interposer {
    /// Makes it the one that handlers find.
    pub(crate) fn publish(self) -> &'static Interposer {
        let interposer = Box::leak(Box::new(self));
        CURRENT.store(interposer, Release);
        interposer
    }

    /// Handlers only pass on from now on.
    pub(crate) fn retire() -> Option<&'static Interposer> {
        // SAFETY: `publish` stored a reference that lives for ever.
        unsafe { CURRENT.swap(std::ptr::null_mut(), AcqRel).as_ref() }
    }

    /// The one that is at work, and not in a forked copy of its process: that would write into the same record.
    pub(crate) fn current() -> Option<&'static Interposer> {
        // SAFETY: as above.
        let interposer = unsafe { CURRENT.load(Acquire).as_ref()? };
        (interposer.original.load(Relaxed) != 0).then_some(interposer)
    }

    /// # Safety
    /// A signal that is being handled; the turn is the caller's.
    unsafe fn take(&self, signal: &Signal<'_>, tid: u32) {
        // SAFETY: the turn is the caller's.
        let bench = unsafe { &mut *self.tools.0.get() };
        let lanes = self.recorder.lanes();
        let index = 1 + tid % (lanes - 1);
        let Some(lane) = self.recorder.lane(index).filter(|lane| lane.claim(tid)) else {
            return;
        };
        lane.add(Counter::Samples, 1);
        // SAFETY: the kernel's context; the thread lives.
        let (untouched, in_java) = unsafe {
            let java_thread = signal.thread.java_thread();
            (
                read_registers(signal.context),
                self.facts.is_in_java(java_thread),
            )
        };
        let kind = bench.code.kind_of_segment(Address(untouched.pc().0));
        lane.begin_walk(0, WALKER, &untouched, &untouched, kind);
        // SAFETY: the caller's promise.
        let (outcome, before) = unsafe { walk(bench, lane, signal, &untouched) };
        lane.control(!outcome.was_ended());
        if !in_java {
            lane.add(Counter::OutsideJava, 1);
        } else if let Some(queue) = self.queue.as_ref().filter(|_| !outcome.was_ended()) {
            let java_thread = signal.thread.java_thread();
            self.perturber
                .at(&untouched, &self.facts.code, |rng, landscape| {
                    let pc = untouched.pc().0;
                    let note = |before: &Registers, after: &Registers| {
                        let kind = bench.code.kind_of_segment(Address(after.pc().0));
                        lane.begin_walk(1, WALKER, after, before, kind);
                        lane.mark_perturbed();
                    };
                    queue.edit(java_thread, pc, rng, landscape, note);
                    // Nothing, if none was found.
                    lane.end_walk(&WalkOutcome::Error(RETURNED), 0);
                });
        } else if self.perturb != 0 {
            let one = |registers: &Registers| {
                // The end waits for this thread.
                if Interposer::current().is_none() {
                    return;
                }
                let kind = bench.code.kind_of_segment(Address(registers.pc().0));
                lane.begin_walk(1, WALKER, registers, &untouched, kind);
                lane.mark_perturbed();
                // SAFETY: the caller's promise.
                let (_, told) = unsafe { walk(bench, lane, signal, registers) };
                compare(lane, before, told);
            };
            self.perturber
                .each(&untouched, &self.facts.code, self.perturb, one);
        }
        lane.release();
    }
}

/// Calls the handler with a copy of the context that has these registers, and closes the lane's open walk.
///
/// # Safety
/// As [`Interposer::take`].
unsafe fn walk(
    bench: &mut Bench,
    lane: &Lane,
    signal: &Signal<'_>,
    registers: &Registers,
) -> (WalkOutcome, Option<Told>) {
    let near_before = signal.slot.near_misses();
    bench.checkpoint.keep(signal.thread.java_thread());
    agct::forget();
    let context: *mut ucontext_t = &raw mut *bench.scratch;
    // SAFETY: the kernel's context, and a whole ucontext_t.
    unsafe {
        copy_context(signal.context, &mut bench.scratch);
        write_registers(context, registers);
    }
    let prepared = (signal, context.cast::<c_void>());
    let first = (&raw const prepared).cast_mut().cast();
    let null = std::ptr::null_mut();
    let began = ticks();
    // SAFETY: the slot is the calling thread's; what the handler leaves undone is put back as far as it can be.
    let ended = unsafe { call(signal.slot, run, first, 0, null, &mut bench.fault) };
    let ticks = ticks().wrapping_sub(began);
    let (outcome, told) = match ended {
        Ok(()) => {
            let told = agct::told();
            let returned = WalkOutcome::Error(RETURNED);
            (
                told.map_or(returned, |told| WalkOutcome::from_num_frames(told.code)),
                told,
            )
        }
        Err(fault) => {
            lane.add(Counter::PutBack, bench.checkpoint.put_back().into());
            match fault.kind {
                FaultKind::Hang => (WalkOutcome::Hang, None),
                _ => (WalkOutcome::Fault(fault_record(fault)), None),
            }
        }
    };
    lane.end_walk(&outcome, u32::try_from(ticks).unwrap_or(u32::MAX));
    let near = signal.slot.near_misses().wrapping_sub(near_before);
    lane.add(Counter::NearMisses, near);
    lane.add(Counter::SelfProtected, actions::dealt_with().into());
    (outcome, told)
}

/// What the guard calls.
unsafe extern "C" fn run(prepared: *mut c_void, _: c_int, _: *mut c_void) {
    // SAFETY: `walk` passes its own; the kernel's arguments, and a copy of its context.
    unsafe {
        let (signal, context) = &*prepared.cast::<(&Signal<'_>, *mut c_void)>();
        signal.handler.run(signal.number, signal.info, *context);
    }
}

fn compare(lane: &Lane, before: Option<Told>, told: Option<Told>) {
    let (Some(before), Some(told)) = (before, told) else {
        return;
    };
    lane.add(Counter::AgctCompared, 1);
    match told.beside(&before) {
        Difference::Same => {}
        Difference::Lost => lane.add(Counter::AgctLost, 1),
        Difference::Other => lane.add(Counter::AgctOther, 1),
    }
}

/// What the kernel calls in the place of the profiler's handler.
pub(crate) unsafe extern "C" fn on_signal(
    number: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let Some(handler) = actions::of_profiler(number) else {
        return;
    };
    // SAFETY: the kernel's arguments; errno is the thread's own.
    unsafe {
        let Some(interposer) = Interposer::current() else {
            return handler.run(number, info, context);
        };
        interposer.came.fetch_add(1, Relaxed);
        let errno = *libc::__errno_location();
        let tid = libc::gettid();
        if let Some(_turn) = Turn::take(tid) {
            // While this thread waited for its turn the record may have been closed.
            let known = Interposer::current()
                .and_then(|_| threads::current(tid))
                .and_then(|thread| Some((thread, thread.slot()?)));
            if let Some((thread, slot)) = known {
                let signal = Signal {
                    handler,
                    number,
                    info,
                    context: context.cast(),
                    thread,
                    slot,
                };
                interposer.take(&signal, tid.cast_unsigned());
            } else {
                handler.run(number, info, context);
            }
        }
        *libc::__errno_location() = errno;
    }
}
