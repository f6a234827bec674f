//! Samples that a safepoint queue completes.
//!
//! The handler of a sample puts its frame into its thread's queue. At the thread's next safepoint poll what waits there is walked by iterators, on the thread
//! itself and outside signal handlers. In the record walks at safepoints are the first walker's, what handlers put in the second's: one frame, or a code.
//!
//! Contract: [`EnqueueWalker`] is for handlers; queues are opened and closed under the control lock.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::*};

use jvmti_bindings::sys::jni::JNIEnv;
use serde::Serialize;
use walkfuzz_asgst::abi::iterator::{Frame as IteratorFrame, Iterator};
use walkfuzz_asgst::abi::queue::Queue;
use walkfuzz_asgst::queue::{self, QueueStatistics};
use walkfuzz_asgst::{iterator, take_frames};
use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_record::{Counter, Generation, WalkerId};
use walkfuzz_walkers::{
    Call, CallTrace, Frame, Start, ThreadHandle, TraceBuffer, Walker, ticks, walk_guarded,
};

use crate::protect;
use crate::sampler::{Sampler, WALKER};
use crate::spread::{Spread, SpreadSummary};
use crate::threads::Thread;

/// The second walker of the record: what handlers do.
pub(crate) const ENQUEUED: WalkerId = WalkerId(1);
/// What it is called.
pub(crate) const ENQUEUE: &str = "asgst-enqueue";
/// Elements of a thread's queue.
const CAPACITY: i32 = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct QueueSampling {
    /// What earlier samplings of this process counted.
    before: QueueStatistics,
    without: AtomicU64,
    latency: Spread,
}

/// The part of `RECORD.json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct QueueSummary {
    /// Elements of a thread's queue.
    capacity: i32,
    /// Threads that got no queue.
    threads_without: u64,
    /// Samples that were taken.
    enqueued: i64,
    /// Refused: the queue was full.
    refused_full: i64,
    /// Refused: no Java frame, or at a safepoint.
    refused_other: i64,
    /// Walked from the frame that was sampled.
    unbiased: i64,
    /// Walked from the safepoint: the sampled frame had returned.
    biased_gone: i64,
    /// Walked from the safepoint: the sampled frame could not be found.
    biased_unknown: i64,
    /// The thread ended before.
    lost_thread_end: i64,
    /// The sampling ended before.
    lost_deregistered: i64,
    /// From a sample to its walk; null without any.
    latency: Option<SpreadSummary>,
}

impl QueueSampling {
    pub(crate) fn new() -> Self {
        Self {
            before: counted(),
            without: AtomicU64::new(0),
            latency: Spread::new(),
        }
    }

    /// Makes the queue of a thread that begins to be sampled.
    pub(crate) fn open(&self, sampler: &'static Sampler, thread: &Thread) {
        self.close(thread);
        let env = thread.env.load(Relaxed) as *mut JNIEnv;
        let arg = ptr::from_ref(sampler).cast_mut().cast();
        // SAFETY: samplers live for ever.
        let made = unsafe { queue::register_queue(env, CAPACITY, 0, Some(deliver), arg) };
        self.without.fetch_add(u64::from(made.is_null()), Relaxed);
        thread.queue.store(made as u64, Release);
    }

    /// Ends the queue of a thread that is no longer sampled.
    pub(crate) fn close(&self, thread: &Thread) {
        let handle = thread.queue.swap(0, AcqRel);
        if handle != 0 {
            queue::deregister_queue(ptr::null_mut(), handle as *mut Queue);
        }
    }

    /// Ends the queue of a thread that ends.
    pub(crate) fn thread_ended(&self, thread: &Thread) {
        if thread.queue.swap(0, AcqRel) != 0 {
            queue::thread_ended(Address(thread.java_thread.load(Relaxed)));
        }
    }

    pub(crate) fn summary(&self, tick_hz: u64) -> QueueSummary {
        let (now, before) = (counted(), self.before);
        QueueSummary {
            capacity: CAPACITY,
            threads_without: self.without.load(Relaxed),
            enqueued: now.enqueued - before.enqueued,
            refused_full: now.refused_full - before.refused_full,
            refused_other: now.refused_other - before.refused_other,
            unbiased: now.unbiased - before.unbiased,
            biased_gone: now.biased_gone - before.biased_gone,
            biased_unknown: now.biased_unknown - before.biased_unknown,
            lost_thread_end: now.lost_thread_end - before.lost_thread_end,
            lost_deregistered: now.lost_deregistered - before.lost_deregistered,
            latency: self.latency.summary(tick_hz),
        }
    }
}

/// Of all queues of this process.
fn counted() -> QueueStatistics {
    queue::statistics(ptr::null_mut()).unwrap_or_default()
}

/// Puts samples into the queue of their thread.
#[derive(Debug)]
pub(crate) struct EnqueueWalker;

impl Walker for EnqueueWalker {
    fn name(&self) -> &'static str {
        "asgst-queue"
    }

    fn generation(&self) -> Generation {
        Generation::AsgstIterator
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let Start::Context(context) = start else {
            return None;
        };
        let depth = trace.reset(depth);
        trace.trace.env = thread.env;
        let handle = Thread::current().map_or(0, |thread| thread.queue.load(Acquire));
        trace.carried = [handle, ticks(), 0];
        Some(Call {
            function: enqueue,
            first: ptr::from_mut(trace).cast(),
            depth,
            last: context,
        })
    }
}

/// What the guard calls in a handler. An element is one frame.
unsafe extern "C" fn enqueue(first: *mut c_void, _: i32, context: *mut c_void) {
    let trace = first.cast::<TraceBuffer>();
    // SAFETY: `prepare` passes its own trace, which has room for one frame at least, and the calling thread's queue and context.
    unsafe {
        let [handle, at, _] = (*trace).carried;
        let answer = queue::enqueue(handle as *mut Queue, context, at as *mut c_void);
        if answer > 0 {
            (*trace).trace.frames.write(Frame { bci: -1, method: 0 });
        }
        (*trace).trace.num_frames = answer.min(1);
    }
}

/// What the guard calls at a safepoint.
unsafe extern "C" fn take(trace: *mut c_void, depth: i32, iterator: *mut c_void) {
    // SAFETY: `deliver` passes its own trace, with room for `depth` frames, and its iterator.
    unsafe {
        let trace = &mut *trace.cast::<CallTrace>();
        take_frames(trace, depth, iterator.cast());
    }
}

/// At a safepoint of the calling thread: walks one sample.
unsafe extern "C" fn deliver(iterator: *mut Iterator, sampler: *mut c_void, at: *mut c_void) {
    // SAFETY: `open` passes a sampler, which lives for ever.
    let sampler = unsafe { &*sampler.cast::<Sampler>() };
    let (Some(sampling), Some(thread)) = (&sampler.queue, Thread::current()) else {
        return;
    };
    sampling.latency.note(ticks().wrapping_sub(at as u64));
    let mut frame = IteratorFrame::NONE;
    // SAFETY: this handler's iterator, or null.
    unsafe {
        iterator::next_frame(iterator, &mut frame);
        iterator::rewind_iterator(iterator);
    }
    let arch = Arch::NATIVE;
    let mut registers = Registers::zeroed(arch);
    registers.set(arch.pc(), frame.pc as u64);
    registers.set(arch.sp(), frame.sp as u64);
    registers.set(arch.fp(), frame.fp as u64);
    let tid = thread.tid.load(Relaxed).cast_unsigned();
    let (Some(slot), Some((lane, bench))) = (protect::slot_of(thread), sampler.claim(tid)) else {
        sampler.drops.fetch_add(1, Relaxed);
        return;
    };
    if sampler.goes_on() {
        // SAFETY: the lane is ours, so the bench is.
        let tools = unsafe { &mut *bench.0.get() };
        let depth = tools.trace.reset(sampler.options.depth);
        let call = Call {
            function: take,
            first: (&raw mut tools.trace.trace).cast(),
            depth,
            last: iterator.cast(),
        };
        let kind = sampler.kind(frame.pc as u64);
        lane.begin_walk(0, WALKER, &registers, &registers, kind);
        // SAFETY: this thread's slot; the call was made for this trace.
        let walked =
            unsafe { walk_guarded(slot, &EnqueueWalker, &call, &tools.trace, &mut tools.fault) };
        let outcome = walked.outcome(&tools.fault, depth);
        lane.end_walk(&outcome, u32::try_from(walked.ticks).unwrap_or(u32::MAX));
        if walked.near_misses != 0 {
            lane.add(Counter::NearMisses, u64::from(walked.near_misses));
        }
    }
    lane.release();
}
