//! One sampling of this JVM: what handlers need, made once, and never freed, because a handler may still be under way on any thread.
//!
//! Contract: [`Sampler::current`] and [`Sampler::sample`] are for handlers: no allocation, lock, formatting, thread-local storage or panic.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};

use libc::ucontext_t;
use walkfuzz_context::{Address, BlobKind, Registers};
use walkfuzz_guard::{Fault, GuardSlot, read_registers};
use walkfuzz_jvm::HostFacts;
use walkfuzz_record::{Counter, Lane, Recorder, WalkOutcome, WalkerId};
use walkfuzz_vmstructs::{CodeMap, Perturber};
use walkfuzz_walkers::{Start, TraceBuffer, Walked, Walker as _, walk_bare, walk_guarded};

use crate::capsules;
use crate::clock::Clock;
use crate::options::Options;
use crate::queue::{ENQUEUED, QueueSampling};
use crate::remote::RemoteSampling;
use crate::sampling::Sampling;
use crate::threads::Thread;
use crate::timing::Timing;

/// The walker of a sampling.
pub(crate) const WALKER: WalkerId = WalkerId(0);

static CURRENT: AtomicPtr<Sampler> = AtomicPtr::new(std::ptr::null_mut());

/// See the module.
pub(crate) struct Sampler {
    pub(crate) options: Options,
    pub(crate) recorder: Recorder,
    pub(crate) vm: HostFacts,
    walker: Sampling,
    benches: Box<[Bench]>,
    /// One in the process that sampling began in, zero in its forked copies: the kernel wipes the page.
    original: &'static AtomicU32,
    /// What code lies where; replaced by the keeper.
    pub(crate) code: AtomicPtr<CodeMap>,
    pub(crate) perturber: Option<Perturber>,
    /// Who walks samples from outside.
    pub(crate) remote: Option<RemoteSampling>,
    /// Where samples wait for a safepoint.
    pub(crate) queue: Option<QueueSampling>,
    /// Where handlers are timed.
    pub(crate) timing: Option<Timing>,
    /// Whether walks are made under the guard.
    guarded: bool,
    /// Signals that hit a thread that is not sampled.
    pub(crate) strays: AtomicU64,
    /// Samples for which no lane or no place in the guard was free.
    pub(crate) drops: AtomicU64,
    /// Threads that found the table full.
    pub(crate) turned_away: AtomicU64,
    /// Nobody replaced our handlers yet.
    pub(crate) handlers_kept: AtomicBool,
}

/// What a walk is made with. Belongs to who holds the lane of its number.
pub(crate) struct Bench(pub(crate) UnsafeCell<Tools>);

pub(crate) struct Tools {
    pub(crate) trace: Box<TraceBuffer>,
    pub(crate) fault: Fault,
    pub(crate) scratch: Box<ucontext_t>,
}

impl Tools {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero is a valid ucontext_t.
        let scratch = unsafe { Box::new(std::mem::zeroed()) };
        Self {
            trace: TraceBuffer::new(),
            fault: Fault::NONE,
            scratch,
        }
    }
}

// SAFETY: the lane's claim gives a bench to one handler at a time.
unsafe impl Sync for Bench {}
// SAFETY: the traces' pointers point into the benches themselves.
unsafe impl Send for Bench {}

/// What a sample found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// The thread executes Java code.
    pub(crate) in_java: bool,
    /// Time-stamp counter ticks in the walker.
    pub(crate) walking: u64,
}

/// What brought a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This clock.
    Sample(Clock),
    /// A single step, of that number.
    Step(u32),
}

impl Sampler {
    pub(crate) fn new(
        options: Options,
        recorder: Recorder,
        vm: HostFacts,
        walker: Sampling,
        original: &'static AtomicU32,
        perturber: Option<Perturber>,
        remote: Option<RemoteSampling>,
    ) -> Self {
        let bench = || Bench(UnsafeCell::new(Tools::new()));
        Self {
            benches: (0..recorder.lanes()).map(|_| bench()).collect(),
            guarded: options.guard,
            timing: options.timing.then(Timing::new),
            options,
            recorder,
            vm,
            walker,
            original,
            code: AtomicPtr::new(Box::into_raw(Box::default())),
            perturber,
            remote,
            queue: None,
            strays: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            handlers_kept: AtomicBool::new(true),
        }
    }

    /// With queues for samples, which its walker puts into them.
    pub(crate) fn with_queue(mut self, queue: Option<QueueSampling>) -> Self {
        self.queue = queue;
        self
    }

    /// Makes a thread's queue, if this sampling has any. Not for handlers.
    pub(crate) fn open_queue(&'static self, thread: &Thread) {
        if let Some(queue) = &self.queue {
            queue.open(self, thread);
        }
    }

    /// What the walker is called.
    pub(crate) fn walker_name(&self) -> &'static str {
        self.walker.name()
    }

    /// Makes it the one that handlers find. It stays in memory for ever.
    pub(crate) fn publish(self) -> &'static Sampler {
        let sampler = Box::leak(Box::new(self));
        CURRENT.store(sampler, Release);
        sampler
    }

    /// Handlers find nothing from now on.
    pub(crate) fn retire() {
        CURRENT.store(std::ptr::null_mut(), SeqCst);
        // A handler has its lane before it looks here again: who looks at the lanes from now on sees it, or it sees this.
        fence(SeqCst);
    }

    /// Whether this one has not been retired, for who has a lane already.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        std::ptr::eq(CURRENT.load(SeqCst), self)
    }

    /// A sample that finds no place.
    #[cold]
    fn miss(&self, thread: &Thread, cause: Cause, overrun: u64) {
        count(thread, cause, overrun);
        self.drops.fetch_add(1, Relaxed);
    }

    /// Whether this one goes on.
    pub(crate) fn is_current(sampler: &'static Sampler) -> bool {
        std::ptr::eq(CURRENT.load(Acquire), sampler)
    }

    /// The sampling that goes on, if one does, and not in a forked copy of its process: that would write into the same record. Signal-safe.
    #[inline]
    pub(crate) fn current() -> Option<&'static Sampler> {
        // SAFETY: `publish` stored a reference that lives for ever.
        let sampler = unsafe { CURRENT.load(Acquire).as_ref()? };
        (sampler.original.load(Relaxed) != 0).then_some(sampler)
    }

    /// What handlers take this process for.
    #[cfg(test)]
    pub(crate) fn stand_for_copy(&self, copy: bool) {
        self.original.store(u32::from(!copy), Relaxed);
    }

    /// Whether `thread`, the calling one, executes Java code. Signal-safe.
    #[inline]
    pub(crate) fn is_in_java(&self, thread: &Thread) -> bool {
        // SAFETY: the calling thread's JavaThread lives until the thread has left the table.
        unsafe { self.vm.is_in_java(thread.java_thread.load(Relaxed)) }
    }

    /// What the code at `pc` is, as of the last look. Signal-safe.
    #[inline]
    pub(crate) fn kind(&self, pc: u64) -> BlobKind {
        // SAFETY: a map is freed only after every lane was free since it was replaced, and the caller holds one.
        let map = unsafe { &*self.code.load(Acquire) };
        map.kind_of_segment(Address(pc))
    }

    /// A free lane and its bench. Signal-safe.
    #[inline]
    pub(crate) fn claim(&self, tid: u32) -> Option<(&Lane, &Bench)> {
        // Lane 0 is the keeper's. A thread comes back to the same lane, whose words its core still has; handlers on top of it and
        // threads that share it look further.
        let lanes = self.recorder.lanes();
        let first = tid % (lanes - 1);
        (0..lanes - 1).find_map(|step| {
            let index = 1 + (first + step) % (lanes - 1);
            let lane = self.recorder.lane(index)?;
            lane.claim(tid)
                .then_some((lane, self.benches.get(index as usize)?))
        })
    }

    /// Walks `thread`, the calling one, from `context`. Signal-safe.
    ///
    /// # Safety
    /// `context` is the handler's.
    #[inline(always)] // As `Sampling`.
    pub(crate) unsafe fn sample(
        &self,
        thread: &'static Thread,
        context: *mut ucontext_t,
        cause: Cause,
        overrun: u64,
    ) -> Sampled {
        let mut sampled = Sampled {
            in_java: self.is_in_java(thread),
            walking: 0,
        };
        let slot = if self.guarded {
            match crate::protect::slot_of(thread) {
                Some(slot) => Some(slot),
                None => {
                    self.miss(thread, cause, overrun);
                    return sampled;
                }
            }
        } else {
            None
        };
        let Some((lane, bench)) = self.claim(thread.tid.load(Relaxed).cast_unsigned()) else {
            self.miss(thread, cause, overrun);
            return sampled;
        };
        // Who comes after the end was not seen at work, and must not change sums that are made.
        if !self.goes_on() {
            lane.release();
            return sampled;
        }
        count(thread, cause, overrun);
        // SAFETY: the lane is ours, so the bench is.
        let tools = unsafe { &mut *bench.0.get() };
        let index = match cause {
            Cause::Sample(_) => {
                lane.add(Counter::Samples, 1);
                lane.add(Counter::Coalesced, overrun);
                0
            }
            Cause::Step(number) => {
                lane.add(Counter::Steps, 1);
                u8::try_from(number).unwrap_or(u8::MAX)
            }
        };
        if !sampled.in_java {
            lane.add(Counter::OutsideJava, 1);
        }
        // SAFETY: the handler's context.
        let untouched = unsafe { read_registers(context) };
        let kind = self.kind(untouched.pc().0);
        if let (Some(remote), Some(slot)) = (&self.remote, slot) {
            // SAFETY: the handler's context, the thread's slot, the lane that is ours.
            sampled.walking +=
                unsafe { remote.meet(self, thread, slot, lane, context, (&untouched, kind)) };
            lane.release();
            return sampled;
        }
        let walker = if self.queue.is_some() {
            ENQUEUED
        } else {
            WALKER
        };
        lane.begin_walk(index, walker, &untouched, &untouched, kind);
        // SAFETY: the context is the handler's, the lane open for this walk.
        let walked = unsafe { self.walk(thread, slot, lane, tools, context, true) };
        sampled.walking += walked.map_or(0, |walked| walked.ticks);
        if let Some(perturber) = &self.perturber
            && sampled.in_java
            && matches!(cause, Cause::Sample(_))
        {
            perturber.each(
                &untouched,
                &self.vm.code,
                self.options.perturb,
                |registers: &Registers| {
                    // SAFETY: the handler's context; the copy is the bench's.
                    let scratch = unsafe {
                        walkfuzz_guard::copy_context(context, &mut tools.scratch);
                        let scratch: *mut ucontext_t = &raw mut *tools.scratch;
                        walkfuzz_guard::write_registers(scratch, registers);
                        scratch
                    };
                    lane.begin_walk(
                        1,
                        WALKER,
                        registers,
                        &untouched,
                        self.kind(registers.pc().0),
                    );
                    lane.mark_perturbed();
                    // SAFETY: as above.
                    let walked = unsafe { self.walk(thread, slot, lane, tools, scratch, false) };
                    sampled.walking += walked.map_or(0, |walked| walked.ticks);
                },
            );
        }
        lane.release();
        sampled
    }

    /// The call itself, in a lane where it stands open. `None` if there is no call to make.
    ///
    /// # Safety
    /// `context` is the handler's, `untouched`, or a copy of it; `slot` is the calling thread's.
    #[inline(always)] // As `Sampling`.
    pub(crate) unsafe fn walk(
        &self,
        thread: &Thread,
        slot: Option<&GuardSlot>,
        lane: &Lane,
        tools: &mut Tools,
        context: *mut ucontext_t,
        untouched: bool,
    ) -> Option<Walked> {
        let handle = thread.handle();
        let depth = self.options.depth;
        let start = Start::Context(context.cast());
        let call = self
            .walker
            .prepare(&mut tools.trace, depth, handle, start)?;
        // SAFETY: the caller's promise.
        let walked = unsafe {
            match slot {
                Some(slot) => {
                    walk_guarded(slot, &self.walker, &call, &tools.trace, &mut tools.fault)
                }
                None => walk_bare(&self.walker, &call, &tools.trace),
            }
        };
        let outcome = walked.outcome(&tools.fault, depth);
        if matches!(outcome, WalkOutcome::Fault(_)) && untouched {
            // As the walk began.
            let again = self.walker.prepare(&mut tools.trace, depth, handle, start);
            if let Some(again) = again {
                capsules::take(&tools.fault, again);
            }
        }
        lane.end_walk(&outcome, u32::try_from(walked.ticks).unwrap_or(u32::MAX));
        if walked.near_misses != 0 {
            lane.add(Counter::NearMisses, u64::from(walked.near_misses));
        }
        Some(walked)
    }
}

/// Counts a sample that a clock delivered; in the thread's own handler.
#[inline]
fn count(thread: &Thread, cause: Cause, overrun: u64) {
    let Cause::Sample(clock) = cause else {
        return;
    };
    let add = |word: &AtomicU64, more: u64| {
        word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
    };
    add(&thread.samples[clock as usize], 1);
    if overrun != 0 {
        add(&thread.coalesced[clock as usize], overrun);
    }
}
