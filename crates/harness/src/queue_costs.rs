//! What ASGST's safepoint queue costs, and how much of what is put into it is completed as it was sampled.
//!
//! Contract: takes the process, its JVM and SIGPROF: nothing else may be done in it. Each of the workload's threads has a queue, and a timer whose signal
//! handler enqueues. The handler calls `ASGST_Enqueue` before anything else, so that the time it takes is that with caches as they are found.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use jni::sys::JNIEnv;
use serde::{Deserialize, Serialize};
use walkfuzz_asgst::abi::iterator::{Iterator as Frames, trace_kind};
use walkfuzz_asgst::abi::queue::{Queue, QueueElement};
use walkfuzz_asgst::queue;
use walkfuzz_engine::sampling_timer;
use walkfuzz_guard::{Guard, GuardOptions, read_pc};
use walkfuzz_jvm::{JvmOptions, Places, Workload, WorkloadHooks, place_frames};

use crate::asgst;
use crate::error::HarnessError;
use crate::world::World;

/// Sampled threads.
const THREADS: usize = 2;
/// Elements of a queue.
const ELEMENTS: c_int = 32;
/// Samples of a thread whose truth is remembered: more than wait in its queue.
const REMEMBERED: u64 = 64;
/// Times of each kind that are kept.
const KEPT: usize = 1 << 18;
/// How long each thread runs everything before it is sampled.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long the threads may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long what waits in queues may take after the last sample.
const REST: Duration = Duration::from_millis(100);
/// `WALKFUZZ_UNBIASED`.
const UNBIASED: c_int = 1;

/// What one interval came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueCosts {
    /// Signals.
    pub samples: u64,
    /// Of those, in a Java method.
    pub in_java: u64,
    /// Of those, delivered as sampled.
    pub unbiased: u64,
    /// Median time of a successful `ASGST_Enqueue`, in nanoseconds of wall clock.
    pub enqueue_p50_ns: u32,
    /// The 99th percentile.
    pub enqueue_p99_ns: u32,
    /// Median time from the begin of `ASGST_Enqueue` to the call of the queue's handler, of those in Java, in nanoseconds.
    pub latency_p50_ns: u32,
    /// The 99th percentile.
    pub latency_p99_ns: u32,
}

/// Times in nanoseconds; those that find no room are left out.
struct Times {
    values: [AtomicU32; KEPT],
    count: AtomicUsize,
}

impl Times {
    const fn new() -> Self {
        Self {
            values: [const { AtomicU32::new(0) }; KEPT],
            count: AtomicUsize::new(0),
        }
    }

    fn note(&self, nanoseconds: u64) {
        if let Some(value) = self.values.get(self.count.fetch_add(1, AcqRel)) {
            value.store(u32::try_from(nanoseconds).unwrap_or(u32::MAX), Release);
        }
    }

    /// The median and the 99th percentile of what was noted since the last call.
    fn take(&self) -> [u32; 2] {
        let count = self.count.swap(0, AcqRel);
        let noted = self.values.iter().take(count);
        let mut sorted: Vec<u32> = noted.map(|value| value.load(Acquire)).collect();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let at = |percent| sorted.get(last * percent / 100).copied().unwrap_or(0);
        [at(50), at(99)]
    }
}

/// One of the workload's threads. Its own handlers alone write to it.
struct Sampled {
    queue: AtomicPtr<Queue>,
    timer: AtomicPtr<c_void>,
    next: AtomicU64,
    /// Of a sample: when it was taken, and in the lowest bit whether that was in Java.
    truths: [AtomicU64; REMEMBERED as usize],
}

static SAMPLED: [Sampled; THREADS] = [const {
    Sampled {
        queue: AtomicPtr::new(std::ptr::null_mut()),
        timer: AtomicPtr::new(std::ptr::null_mut()),
        next: AtomicU64::new(0),
        truths: [const { AtomicU64::new(0) }; REMEMBERED as usize],
    }
}; THREADS];
static ENQUEUES: Times = Times::new();
static LATENCIES: Times = Times::new();
static SAMPLES: AtomicU64 = AtomicU64::new(0);
static IN_JAVA: AtomicU64 = AtomicU64::new(0);
static COMPLETED: AtomicU64 = AtomicU64::new(0);

impl Sampled {
    fn truth(&self, number: u64) -> Option<&AtomicU64> {
        self.truths.get((number % REMEMBERED) as usize)
    }
}

/// Nanoseconds of wall clock. Signal-safe.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: plain data.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

extern "C" fn on_signal(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    let index = unsafe { (*info).si_value().sival_ptr } as usize;
    let Some(sampled) = SAMPLED.get(index) else {
        return;
    };
    let number = sampled.next.load(Relaxed);
    let arg = std::ptr::without_provenance_mut(number as usize);
    let began = now();
    // SAFETY: the thread's own queue, and the kernel's context.
    let answer = unsafe { queue::enqueue(sampled.queue.load(Acquire), context, arg) };
    let ended = now();
    SAMPLES.fetch_add(1, Relaxed);
    let mut element = QueueElement {
        pc: std::ptr::null_mut(),
        fp: std::ptr::null_mut(),
        sp: std::ptr::null_mut(),
        arg: std::ptr::null_mut(),
    };
    // SAFETY: the kernel's context; the element is a local.
    let is_in_java = unsafe {
        queue::get_enqueuable_element(context, &raw mut element) == trace_kind::JAVA
            && element.pc as u64 == read_pc(context.cast()).0
    };
    IN_JAVA.fetch_add(u64::from(is_in_java), Relaxed);
    if answer == trace_kind::JAVA {
        ENQUEUES.note(ended - began);
        if let Some(truth) = sampled.truth(number) {
            truth.store(began << 1 | u64::from(is_in_java), Relaxed);
        }
        sampled.next.store(number.wrapping_add(1), Relaxed);
    }
}

unsafe extern "C" fn on_element(_: *mut Frames, index: *mut c_void, number: *mut c_void) {
    let time = now();
    let sampled = SAMPLED.get(index as usize);
    let truth = sampled.and_then(|sampled| Some((sampled, sampled.truth(number as u64)?)));
    if let Some((sampled, truth)) = truth {
        let truth = truth.load(Relaxed);
        if truth & 1 == 1 {
            LATENCIES.note(time.saturating_sub(truth >> 1));
            let fate = queue::outcome(sampled.queue.load(Acquire));
            COMPLETED.fetch_add(u64::from(fate == UNBIASED), Relaxed);
        }
    }
}

extern "C" fn started(env: *mut JNIEnv, index: i32) {
    let index = index as usize;
    let Some(sampled) = SAMPLED.get(index) else {
        return;
    };
    let arg = std::ptr::without_provenance_mut(index);
    // SAFETY: the calling thread's own; what the handler uses is static.
    let queue = unsafe { queue::register_queue(env.cast(), ELEMENTS, 0, Some(on_element), arg) };
    // SAFETY: no arguments.
    if let Ok(timer) = sampling_timer(unsafe { libc::gettid() }, index) {
        sampled.timer.store(timer, Release);
        sampled.queue.store(queue, Release);
    }
}

extern "C" fn go_on(_: i32) -> i32 {
    0
}

extern "C" fn stopped(_: i32) {}

/// Has each thread's timer fire every so often; never for zero.
fn sample_every(interval: Duration) {
    let every = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(interval.subsec_nanos()),
    };
    let every = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    for sampled in &SAMPLED {
        // SAFETY: `started` made the timer; the times are a local.
        unsafe {
            let timer = sampled.timer.load(Acquire);
            libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut());
        }
    }
}

/// Starts a JVM with the workload, and samples its threads for `time` at each of these intervals, which are shorter than a second. Crash logs go to `folder`.
///
/// # Errors
/// What this machine or this JVM lacks: queues among it.
pub fn queue_costs(
    mut options: JvmOptions,
    folder: &Path,
    intervals: &[Duration],
    time: Duration,
) -> Result<Vec<QueueCosts>, HarnessError> {
    let jar = place_frames(&Places::from_env().cache.join("workloads"))?;
    options.class_path.push(jar);
    options.error_folder = Some(folder.to_owned());
    let jvm = walkfuzz_jvm::start(&options)?;
    let _guard = Guard::install(GuardOptions::default())?;
    let world = World::attach()?;
    let vm = asgst::publish(&world, &jvm)?;
    asgst::prepare_queues(&world, vm)?;
    // SAFETY: all-zero is a valid sigaction, filled in here; the handler is signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut());
    }
    jvm.start_workload(&Workload {
        threads: THREADS as i32,
        warm_up: WARM_UP,
        ..Workload::new(WorkloadHooks {
            started,
            await_turn: go_on,
            stopped,
        })
    })?;
    let began = Instant::now();
    let registered = || {
        let queues = SAMPLED.iter().map(|sampled| sampled.queue.load(Acquire));
        queues.filter(|queue| !queue.is_null()).count()
    };
    while registered() < THREADS {
        if began.elapsed() > PATIENCE {
            return Err(HarnessError::Workload {
                registered: registered(),
                wanted: THREADS,
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let costs = intervals.iter().map(|interval| {
        sample_every(*interval);
        std::thread::sleep(time);
        sample_every(Duration::ZERO);
        std::thread::sleep(REST);
        let [enqueue_p50_ns, enqueue_p99_ns] = ENQUEUES.take();
        let [latency_p50_ns, latency_p99_ns] = LATENCIES.take();
        QueueCosts {
            samples: SAMPLES.swap(0, AcqRel),
            in_java: IN_JAVA.swap(0, AcqRel),
            unbiased: COMPLETED.swap(0, AcqRel),
            enqueue_p50_ns,
            enqueue_p99_ns,
            latency_p50_ns,
            latency_p99_ns,
        }
    });
    Ok(costs.collect())
}
