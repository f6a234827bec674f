//! The live engine: a Java thread held in its handler serves many walks (*park*).

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_guard::{Alarm, Guard, TrapScope, has_trap_flag, register_thread, set_trap_hook};
use walkfuzz_walkers::{ThreadHandle, Walked};

use crate::baton::{BATON, EVERYBODY, Intent, NOBODY, Place, WORKERS, on_sample, on_trap};
use crate::error::EngineError;
use crate::hand::Hand;
use crate::moment::{Behind, Moment};
use crate::worker::{Worker, cpu_nanoseconds, sampling_timer};
use crate::{Engine, Request, rseq, tls};

const IDLE_STACK: usize = 64 * 1024;

/// How long a thread has gone on when it is walked, at most, in turns of a loop: some tens of microseconds.
const MOST_TURNS: u32 = 1 << 11;

/// What a sample must satisfy to be held, from the JVM's own tables.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The code cache's reserved range.
    pub code: std::ops::Range<u64>,
    /// Offset of `_thread_state` in `JavaThread`.
    pub thread_state_offset: u64,
    /// The value of `_thread_in_Java`.
    pub in_java: u32,
}

/// How long one context may be held: a parked thread blocks safepoints.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Visits a park.
    pub visits: u32,
    /// Time a park.
    pub time: Duration,
    /// A walk that takes longer than this (at most twice) has hung.
    pub hang: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            visits: 1024,
            time: Duration::from_millis(8),
            hang: Duration::from_millis(500),
        }
    }
}

/// Counts of the engine since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples that arrived.
    pub samples: u64,
    /// Of those, samples outside Java code, which were sorted out.
    pub outside: u64,
    /// Contexts held.
    pub parks: u64,
    /// Single steps made.
    pub steps: u64,
    /// CPU time of the threads that carried the flow since the engine was installed, in nanoseconds: their Java code's included.
    pub cpu_nanoseconds: u64,
}

static ENV_TO_THREAD: AtomicU64 = AtomicU64::new(0);

/// Called by each workload thread when it starts, on that thread.
///
/// Errors are told through the return value, because the caller is native glue: 0 is success.
pub extern "C" fn worker_started(env: *mut c_void, index: i32) -> i32 {
    let Ok(index) = usize::try_from(index) else {
        return 1;
    };
    let Ok(slot) = register_thread() else {
        return 2;
    };
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::gettid() };
    let (Ok(timer), Ok(alarm)) = (sampling_timer(tid, index), Alarm::new(slot)) else {
        return 3;
    };
    let java_thread = (env as u64).wrapping_sub(ENV_TO_THREAD.load(Ordering::Acquire));
    let worker = Worker {
        index,
        thread: ThreadHandle { env, tid },
        java_thread,
        frames_end: tls::frames_end(),
        slot,
        alarm,
        timer,
    };
    if WORKERS.publish(worker) { 0 } else { 4 }
}

/// Blocks a workload thread until it is its turn; negative when it shall end, else the kind of work to do (0: any).
pub extern "C" fn await_turn(index: i32) -> i32 {
    BATON.await_turn(index.cast_unsigned())
}

/// The live engine. One per process, used by one flow of control.
pub struct Live {
    pub(crate) moment: Moment,
    bounds: Bounds,
    held: bool,
    since: Instant,
    visits: u32,
    next_worker: usize,
    idle_top: *mut u8,
    random: u64,
    parks: u64,
    steps: u64,
    home: i32,
    cpu_at_start: u64,
    /// Who makes a walk when the flow moves next, and what came of the last such walk.
    asked: Option<&'static Hand>,
    fetched: Option<Walked>,
}

impl Live {
    /// Takes SIGPROF and the trap flag for this engine. Call before the workload starts.
    ///
    /// `env_to_thread` is the constant distance from a `JavaThread` to its `JNIEnv`.
    ///
    /// # Errors
    /// When SIGPROF cannot be taken or no stack can be had.
    pub fn install(
        _guard: &Guard,
        env_to_thread: u64,
        bounds: Bounds,
    ) -> Result<Self, EngineError> {
        ENV_TO_THREAD.store(env_to_thread, Ordering::Release);
        // SAFETY: the hook is signal-safe on any thread.
        unsafe { set_trap_hook(TrapScope::Unguarded, Some(on_trap)) };
        // SAFETY: all-zero is a valid sigaction, filled in below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_sample as *const () as usize;
        // No SA_ONSTACK: profilers' handlers run on the Java stack, and a parked thread must leave its alternative stack to
        // the fault handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the action is complete.
        if unsafe { libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(EngineError::Signal(std::io::Error::last_os_error()));
        }
        // SAFETY: a fresh anonymous mapping.
        let stack = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                IDLE_STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if stack == libc::MAP_FAILED {
            return Err(EngineError::Memory(std::io::Error::last_os_error()));
        }
        rseq::find();
        let slot = register_thread().map_err(EngineError::Guard)?;
        Ok(Self {
            moment: Moment::new(bounds.hang, slot),
            bounds,
            held: false,
            since: Instant::now(),
            visits: 0,
            next_worker: 0,
            // SAFETY: the end of the mapping made above.
            idle_top: unsafe { stack.cast::<u8>().add(IDLE_STACK) },
            random: 0x2545_f491_4f6c_dd1d,
            parks: 0,
            steps: 0,
            // SAFETY: gettid has no preconditions.
            home: unsafe { libc::gettid() },
            cpu_at_start: 0,
            asked: None,
            fetched: None,
        })
    }

    /// Lets a thread of its own make the walks from now on, for walkers that walk other threads.
    ///
    /// # Errors
    /// The thread cannot be had.
    pub fn walk_from_outside(&mut self) -> Result<(), EngineError> {
        self.moment.hand = Some(Hand::start(self.bounds.hang)?);
        Ok(())
    }

    /// Sets what a sample must satisfy.
    pub fn set_filter(&mut self, filter: &Filter) {
        BATON.set_filter(
            filter.code.clone(),
            filter.thread_state_offset,
            filter.in_java,
        );
    }

    /// Counts CPU time from now on.
    pub fn start_clock(&mut self) {
        self.cpu_at_start = self.cpu_nanoseconds();
    }

    /// How long to wait for a sample before giving up.
    pub fn set_patience(&mut self, patience: Duration) {
        BATON.set_patience(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX));
    }

    /// How many workload threads have registered.
    #[must_use]
    pub fn workers(&self) -> usize {
        WORKERS.count()
    }

    /// CPU time of the flow's home and of all workload threads, in nanoseconds. A system call for each.
    fn cpu_nanoseconds(&self) -> u64 {
        let workers = (0..crate::worker::MAX_WORKERS).filter_map(|index| WORKERS.get(index));
        workers
            .map(|worker| cpu_nanoseconds(worker.thread.tid))
            .sum::<u64>()
            + cpu_nanoseconds(self.home)
    }

    /// Lets every workload thread run (warm-up).
    pub fn everybody_runs(&mut self) {
        BATON.give_turn(EVERYBODY);
    }

    /// Whether the held context may serve another visit.
    fn spent(&self) -> bool {
        self.visits >= self.bounds.visits || self.since.elapsed() >= self.bounds.time
    }

    /// Moves to a fresh sample.
    pub(crate) fn sample(&mut self, worker: Option<usize>, kind: u32) -> Result<(), EngineError> {
        let worker = worker
            .and_then(|index| WORKERS.get(index % WORKERS.count().max(1)))
            .or_else(|| WORKERS.next_after(self.next_worker))
            .ok_or(EngineError::NoWorkers)?
            .index;
        self.next_worker = worker;
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let delay = 15_000 + ((self.random >> 40) as u32 % 60_000);
        self.travel(Intent::Sample {
            worker,
            kind,
            delay,
        })
    }

    /// Moves to where `request` wants it.
    fn sample_as(&mut self, request: &Request) -> Result<(), EngineError> {
        self.sample(request.worker, request.kind)?;
        for _ in 0..request.steps {
            if !has_trap_flag() {
                break;
            }
            if !self.step()? {
                self.sample(request.worker, request.kind)?;
                break;
            }
            (request.natural)(&self.moment);
        }
        Ok(())
    }

    /// Moves one instruction on. Returns false when the thread has left the code cache.
    pub(crate) fn step(&mut self) -> Result<bool, EngineError> {
        if !has_trap_flag() {
            return Err(EngineError::CannotStep);
        }
        self.travel(Intent::Step)?;
        self.steps += 1;
        Ok(BATON.in_code(self.moment.untouched.pc().0))
    }

    fn travel(&mut self, intent: Intent) -> Result<(), EngineError> {
        if self.held
            && intent != Intent::Step
            && let Some(worker) = WORKERS.get(self.moment.worker)
        {
            let _ = worker.alarm.disarm();
        }
        self.held = false;
        if let Some(asked) = self.asked {
            asked.ask();
        }
        // SAFETY: `self` is used by the one flow only (install is called once, and the engine is neither Sync nor Clone).
        let place = unsafe { BATON.travel(intent, self.idle_top) };
        // Before anything of the moment changes, whose context the walk began from.
        if let Some(asked) = self.asked.take() {
            self.fetched = asked.fetch();
        }
        match place {
            Place::Home { gave_up: false } => Ok(()),
            Place::Home { gave_up: true } => Err(EngineError::NoSample),
            Place::Parked { worker, context } => {
                let worker = WORKERS.get(worker).ok_or(EngineError::NoWorkers)?;
                // SAFETY: the worker is parked with this context until the flow leaves it.
                unsafe { self.moment.hold(worker, context, intent == Intent::Step) };
                if intent != Intent::Step {
                    let _ = worker.alarm.arm(self.bounds.hang);
                    self.parks += 1;
                }
                self.held = true;
                self.since = Instant::now();
                self.visits = 0;
                Ok(())
            }
        }
    }
}

impl Engine for Live {
    fn name(&self) -> &'static str {
        "live-park"
    }

    fn visit(
        &mut self,
        request: &Request,
        visitor: &mut dyn FnMut(&mut Moment),
    ) -> Result<(), EngineError> {
        if !self.held || request.fresh || self.spent() {
            self.sample_as(request)?;
        }
        self.visits += 1;
        visitor(&mut self.moment);
        Ok(())
    }

    fn let_go(
        &mut self,
        request: &Request<'_>,
        behind: Behind<'_>,
    ) -> Result<Option<Walked>, EngineError> {
        let Some(hand) = self.moment.hand.filter(|_| self.held) else {
            return Ok(None);
        };
        let untouched = self.moment.untouched;
        let (walker, depth) = (behind.walker, behind.depth);
        let prepared = self.moment.prepare(walker, &untouched, depth, behind.trace);
        let Some(call) = prepared else {
            return Ok(None);
        };
        (behind.begin)(&self.moment);
        let delay = (self.random >> 20) as u32 % MOST_TURNS;
        // SAFETY: the next move of the flow fetches it, which is below.
        unsafe { hand.lay(walker, &call, behind.trace, behind.fault, delay) };
        self.asked = Some(hand);
        self.fetched = None;
        self.sample_as(request)?;
        Ok(self.fetched.take())
    }

    fn moments(&self) -> u64 {
        self.moment.serial
    }

    fn held(&mut self) -> Option<&mut Moment> {
        self.held.then_some(&mut self.moment)
    }

    fn counts(&self) -> Counts {
        Counts {
            samples: BATON.samples.load(Ordering::Relaxed).cast_unsigned(),
            outside: BATON.outside.load(Ordering::Relaxed).cast_unsigned(),
            parks: self.parks,
            steps: self.steps,
            cpu_nanoseconds: self.cpu_nanoseconds().saturating_sub(self.cpu_at_start),
        }
    }

    fn go_home(&mut self) -> Result<(), EngineError> {
        self.travel(Intent::Home)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.held {
            let _ = self.go_home();
        }
        BATON.give_turn(NOBODY);
    }
}
