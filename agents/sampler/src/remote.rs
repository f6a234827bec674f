//! Walks of sampled threads that another thread makes.
//!
//! The handler of a sample walks its thread itself, lays context and trace on the desk (`desk`) and, unless the walker lets threads run on, waits
//! there. The walking thread takes them up, walks the same context from outside and compares. Walks of a thread that waits must be the same as its
//! own; where the thread runs on, registers and stack are of different moments, and what differs shows how often that is not noticed.
//!
//! In the record walks from outside are the first walker's, those of handlers the second's. Of a thread that runs on they count as perturbed; one whose
//! frames are not those of the handler has *wrong frames*.
//!
//! Contract: [`RemoteSampling::meet`] is for handlers. The walking thread is unknown to the JVM, takes no signal but faults and the alarm, and allocates
//! nothing while a thread waits for it. Nobody waits without a limit.

mod counts;
mod desk;
mod outside;

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libc::ucontext_t;
use walkfuzz_context::{BlobKind, Registers};
use walkfuzz_guard::{
    Alarm, GuardSlot, copy_context, register_thread, take_fault_signals_only, unregister_thread,
    with_signals_blocked,
};
use walkfuzz_record::{Contradiction, Counter, Lane, WalkOutcome, WalkerId};
use walkfuzz_walkers::{Ended, Frame, Start, ThreadHandle, contradiction, ticks, walk_guarded};

use crate::protect::HANG;
use crate::sampler::{Sampler, Tools, WALKER};
use crate::threads::Thread;

use counts::{Counts, Pair};
use desk::{Desk, Patience};

pub(crate) use counts::RemoteSummary;
pub(crate) use outside::Outside;

/// The second walker of the record: the handler's own walks.
const COMPARED: WalkerId = WalkerId(1);
/// How long a handler waits for the walk of its thread.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long the end of a thread waits for a walk of it, which the alarm ends.
const EXIT: Duration = Duration::from_secs(20);
/// How long the end of a sampling waits for the walking thread.
const STOP: Duration = Duration::from_secs(5);

/// Who may walk threads now: from before the first offer until the walking thread has come to its end, which is after that of the sampling. A thread
/// that ends meanwhile waits for each. Never locked in a handler.
static WALKING: Mutex<Vec<&'static RemoteSampling>> = Mutex::new(Vec::new());

/// See the module.
pub(crate) struct RemoteSampling {
    outside: Outside,
    desk: Desk<Paper>,
    counts: Counts,
    /// The walking thread shall go on.
    wanted: AtomicBool,
    /// It is there.
    serving: AtomicBool,
    tick_hz: u64,
}

/// What lies on the desk.
struct Paper {
    /// The handler's trace; its scratch context is the copy that is walked.
    tools: Tools,
    /// What the handler's own walk returned.
    own: Option<i32>,
    thread: ThreadHandle,
    registers: Registers,
    kind: BlobKind,
}

// SAFETY: its pointers point into itself, or are a thread's name that nobody follows.
unsafe impl Send for Paper {}

impl RemoteSampling {
    pub(crate) fn new(outside: Outside, tick_hz: u64) -> Self {
        let paper = Paper {
            tools: Tools::new(),
            own: None,
            thread: ThreadHandle {
                env: std::ptr::null_mut(),
                tid: 0,
            },
            registers: Registers::zeroed(walkfuzz_context::Arch::NATIVE),
            kind: BlobKind::Outside,
        };
        Self {
            outside,
            desk: Desk::new(paper),
            counts: Counts::new(),
            wanted: AtomicBool::new(true),
            serving: AtomicBool::new(true),
            tick_hz,
        }
    }

    /// In the handler of a sample of `thread`. Returns the ticks of its own walk. Signal-safe.
    ///
    /// # Safety
    /// `context` is the handler's, `slot` the calling thread's, `lane` its own.
    pub(crate) unsafe fn meet(
        &self,
        sampler: &Sampler,
        thread: &'static Thread,
        slot: &GuardSlot,
        lane: &Lane,
        context: *mut ucontext_t,
        sampled: (&Registers, BlobKind),
    ) -> u64 {
        let (registers, kind) = sampled;
        let (mut walking, mut offered) = (0, 0);
        let laid = self.desk.offer(thread, |paper| {
            lane.begin_walk(0, COMPARED, registers, registers, kind);
            // SAFETY: the handler's context; the lane is open.
            let walked =
                unsafe { sampler.walk(thread, Some(slot), lane, &mut paper.tools, context, true) };
            walking = walked.map_or(0, |walked| walked.ticks);
            paper.own = walked.and_then(|walked| returned(walked.ended));
            paper.thread = thread.handle();
            paper.registers = *registers;
            paper.kind = kind;
            // SAFETY: the handler's context.
            unsafe { copy_context(context, &mut paper.tools.scratch) };
            // The walking thread may take the core when it is woken.
            offered = ticks();
        });
        if !laid {
            self.counts.busy.fetch_add(1, Relaxed);
            return 0;
        }
        if self.outside.holds() {
            match self.desk.wait(self.in_ticks(PATIENCE)) {
                Patience::Walked => self.counts.held.note(ticks().wrapping_sub(offered)),
                Patience::TakenBack => {
                    self.counts.late.fetch_add(1, Relaxed);
                }
                Patience::Left => {
                    self.counts.left.fetch_add(1, Relaxed);
                }
            }
        }
        walking
    }

    /// From now on threads may be walked.
    pub(crate) fn begin(&'static self) {
        walking().push(self);
    }

    fn await_end_of(&self, thread: &'static Thread) {
        let (waited, over) = self.desk.await_end_of(thread, self.in_ticks(EXIT));
        self.counts
            .exits_waited
            .fetch_add(u64::from(waited), Relaxed);
        self.counts
            .exits_unwaited
            .fetch_add(u64::from(!over), Relaxed);
    }

    /// Lets the walking thread come to its end. It may not, if it hangs where no alarm reaches it: the JVM goes on all the same, and threads that end
    /// go on waiting for it.
    pub(crate) fn stop(&self) {
        self.wanted.store(false, Release);
        let began = Instant::now();
        while self.serving.load(Acquire) && began.elapsed() < STOP {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.serving.load(Acquire) {
            walking().retain(|other| !std::ptr::eq(*other, self));
        }
    }

    pub(crate) fn summary(&self) -> RemoteSummary {
        self.counts.summary(&self.outside, self.tick_hz)
    }

    fn in_ticks(&self, time: Duration) -> u64 {
        (time.as_secs_f64() * self.tick_hz as f64) as u64
    }

    /// Walks what is offered, until the sampling ends.
    fn serve(&self, sampler: &Sampler) {
        take_fault_signals_only();
        let slot = register_thread();
        // Without its alarm a walk that hangs goes on hanging; the driver's limits end it.
        let alarm = slot.as_ref().ok().and_then(|slot| Alarm::new(slot).ok());
        if let Some(alarm) = &alarm {
            let _ = alarm.arm(HANG);
        }
        match slot {
            Ok(slot) => self.walk_offers(sampler, slot),
            Err(error) => eprintln!("walkfuzz-sampler: nothing is walked: {error}"),
        }
        drop(alarm);
        let _ = unregister_thread();
        self.serving.store(false, Release);
    }

    fn walk_offers(&self, sampler: &Sampler, slot: &GuardSlot) {
        // SAFETY: no arguments.
        let own_tid = unsafe { libc::gettid() }.cast_unsigned();
        let mut tools = Tools::new();
        while self.wanted.load(Acquire) {
            let made = self
                .desk
                .take_up(|paper| self.walk(sampler, slot, own_tid, &mut tools, paper));
            let Some(made) = made else {
                continue;
            };
            let stayed = self.desk.done(self.outside.holds());
            if let Some(made) = made {
                self.settle(made, stayed);
            }
        }
    }

    /// Walks what lies on the desk; `None` if it cannot be walked.
    fn walk<'a>(
        &self,
        sampler: &'a Sampler,
        slot: &GuardSlot,
        own_tid: u32,
        tools: &mut Tools,
        paper: &mut Paper,
    ) -> Option<Made<'a>> {
        let context = (&raw mut *paper.tools.scratch).cast();
        let depth = sampler.options.depth;
        let start = Start::Context(context);
        let walker = self.outside.walker();
        let call = walker.prepare(&mut tools.trace, depth, paper.thread, start)?;
        let Some((lane, _)) = sampler.claim(own_tid) else {
            sampler.drops.fetch_add(1, Relaxed);
            return None;
        };
        let registers = &paper.registers;
        lane.begin_walk(0, WALKER, registers, registers, paper.kind);
        if !self.outside.holds() {
            lane.mark_perturbed();
        }
        // SAFETY: this thread's slot and the walker's own call; the walked thread is held, or its end waits for this.
        let walked = unsafe { walk_guarded(slot, walker, &call, &tools.trace, &mut tools.fault) };
        let pair = paper.own.zip(returned(walked.ended)).map(|(own, outside)| {
            let count = |code| usize::try_from(code).unwrap_or(0);
            let inside = paper.tools.trace.frames(count(own));
            let given = tools.trace.frames(count(outside));
            Compared {
                pair: Pair::of(own, outside, own == outside && inside == given),
                own,
                outside,
                contradiction: contradiction(given, inside, first_difference(given, inside)),
            }
        });
        Some(Made {
            lane,
            outcome: walked.outcome(&tools.fault, depth),
            ticks: u32::try_from(walked.ticks).unwrap_or(u32::MAX),
            near_misses: walked.near_misses,
            pair,
        })
    }

    /// Writes down what came of a walk, whose thread `stayed` until its end or was not meant to.
    fn settle(&self, made: Made<'_>, stayed: bool) {
        let Made {
            lane, mut outcome, ..
        } = made;
        match made.pair.filter(|_| stayed) {
            Some(compared) => {
                let pair = compared.pair;
                self.counts.pair(pair, compared.own, compared.outside);
                // Of a thread that runs on, a code says that the walk was given up: nobody takes it for an answer.
                let holds = self.outside.holds();
                if pair == Pair::OtherFrames || (pair == Pair::OtherCode && holds) {
                    outcome = WalkOutcome::WrongFrames(compared.contradiction);
                }
            }
            None if !stayed => lane.mark_perturbed(),
            None => {}
        }
        self.counts.walks.fetch_add(1, Relaxed);
        self.counts
            .faults
            .fetch_add(u64::from(matches!(outcome, WalkOutcome::Fault(_))), Relaxed);
        self.counts
            .hangs
            .fetch_add(u64::from(matches!(outcome, WalkOutcome::Hang)), Relaxed);
        if made.near_misses != 0 {
            lane.add(Counter::NearMisses, u64::from(made.near_misses));
        }
        lane.end_walk(&outcome, made.ticks);
        lane.release();
    }
}

/// `thread`, the calling one, has left the table and ends: its `JavaThread` must stay until nobody walks it.
pub(crate) fn await_end_of(thread: &'static Thread) {
    let walking = walking().clone();
    for remote in walking {
        remote.await_end_of(thread);
    }
}

fn walking() -> MutexGuard<'static, Vec<&'static RemoteSampling>> {
    WALKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What came of a walk, whose lane stands open.
struct Made<'a> {
    lane: &'a Lane,
    outcome: WalkOutcome,
    ticks: u32,
    near_misses: u32,
    /// `None` if one of the walks did not return.
    pair: Option<Compared>,
}

/// How a walk from outside compares with the handler's own.
struct Compared {
    pair: Pair,
    /// What each returned.
    own: i32,
    outside: i32,
    /// What is wrong with the frames from outside, if they differ.
    contradiction: Contradiction,
}

/// The first place at which the frames are not the same, ends included.
fn first_difference(given: &[Frame], inside: &[Frame]) -> usize {
    given.iter().zip(inside).take_while(|(a, b)| a == b).count()
}

fn returned(ended: Ended) -> Option<i32> {
    match ended {
        Ended::Returned(code) => Some(code.0),
        Ended::Overran(_) | Ended::Broke(..) | Ended::Faulted => None,
    }
}

/// Starts the walking thread of a sampling.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start(sampler: &'static Sampler) -> std::io::Result<()> {
    let Some(remote) = &sampler.remote else {
        return Ok(());
    };
    with_signals_blocked(|| {
        std::thread::Builder::new()
            .name("walkfuzz-walking".to_owned())
            .spawn(move || remote.serve(sampler))
    })?;
    Ok(())
}
