//! Starting and stopping: which threads are sampled, whose clocks run, and what they have cost.
//!
//! Contract: not for handlers. One lock guards everything here; it is held for microseconds, and no handler ever takes it. What a thread does to itself (to
//! begin, to end) happens in JVMTI's callbacks, where it may wait without hindering a safepoint.

use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use walkfuzz_context::generate::{Dice, Rng};
use walkfuzz_record::Counter;

use crate::capsules;
use crate::clock::{self, CLOCKS, Clock};
use crate::keeper;
use crate::options::Choice;
use crate::protect;
use crate::remote;
use crate::sampler::Sampler;
use crate::summary::Summary;
use crate::threads::{self, Identity, Thread};

/// Sums over threads, those that have ended included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// CPU time of sampled threads while clocks ran, in ns.
    pub(crate) cpu: u64,
    /// Samples that clocks delivered.
    pub(crate) samples: [u64; CLOCKS],
    /// Samples that they merged into others.
    pub(crate) coalesced: [u64; CLOCKS],
    /// The least share of its requested samples that a thread got which used [`WEIGHTY`] of CPU time.
    pub(crate) least: [Option<f64>; CLOCKS],
    /// Threads there have been.
    pub(crate) threads: u64,
    /// Clocks that the kernel refused to a thread.
    pub(crate) refused: u64,
    /// How often clocks were stopped and started.
    pub(crate) churns: u64,
}

/// CPU time, in ns, from which on a thread's own share of samples means something.
const WEIGHTY: u64 = 500_000_000;

/// A sampling under way.
pub(crate) struct Running {
    pub(crate) sampler: &'static Sampler,
    pub(crate) ticking: bool,
    rng: Rng,
    /// Of threads that have ended.
    ended: Totals,
}

static CONTROL: Mutex<Option<Running>> = Mutex::new(None);

pub(crate) fn lock() -> MutexGuard<'static, Option<Running>> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread begins to be sampled. Called on it, or for one that was there before under the lock.
pub(crate) fn add(running: &mut Option<Running>, who: Identity) {
    if let Some(known) = threads::find(who.key) {
        // Met before it could say so itself; or it took the place of one that ended unseen.
        known.identify(who);
        if let Some(running) = running {
            running.sampler.open_queue(known);
        }
        return;
    }
    // Threads are known also while nothing is sampled, for what comes later.
    let added = threads::add(who);
    let Some(running) = running else {
        return;
    };
    let Some(thread) = added else {
        running.sampler.turned_away.fetch_add(1, Relaxed);
        return;
    };
    running.ended.threads += 1;
    running.sampler.open_queue(thread);
    thread
        .cpu_base
        .store(clock::cpu_nanoseconds(who.tid).unwrap_or(0), Relaxed);
    if running.ticking && running.sampler.options.choice == Choice::All {
        running.start_clocks(thread);
    }
}

/// The calling thread ends.
pub(crate) fn remove_current() {
    let Some(thread) = Thread::current() else {
        return;
    };
    let mut running = lock();
    if let Some(running) = running.as_mut() {
        running.stop_clocks(thread);
        running.account(thread);
    }
    threads::remove(thread);
    if let Some(running) = running.as_mut() {
        // Only now no handler adds to them any more; the place is nobody's before the lock is free.
        let ended = running.sums(thread);
        running.ended.add(&ended);
        if let Some(queue) = &running.sampler.queue {
            queue.thread_ended(thread);
        }
    }
    drop(running);
    remote::await_end_of(thread);
    // Signals that are under way find nobody from here on.
    protect::unregister(thread);
}

/// Begins a sampling.
pub(crate) fn begin(sampler: &'static Sampler) {
    let mut control = lock();
    let mut running = Running {
        sampler,
        ticking: false,
        rng: Rng::new(sampler.options.seed),
        ended: Totals::default(),
    };
    for thread in threads::all() {
        running.ended.threads += 1;
        sampler.open_queue(thread);
        thread.forget_counts();
        let now = clock::cpu_nanoseconds(thread.tid.load(Relaxed));
        thread.cpu_base.store(now.unwrap_or(0), Relaxed);
    }
    if let Some(remote) = &sampler.remote {
        remote.begin();
    }
    *control = Some(running);
}

/// Ends a sampling: stops the clocks, waits for handlers that are under way, closes the record. False if there was none.
pub(crate) fn end() -> bool {
    let mut control = lock();
    let Some(mut running) = control.take() else {
        return false;
    };
    running.set_ticking(false);
    for thread in threads::all() {
        running.account(thread);
    }
    Sampler::retire();
    if let Some(queue) = &running.sampler.queue {
        threads::all().for_each(|thread| queue.close(thread));
    }
    drop(control);
    let sampler = running.sampler;
    if let Some(remote) = &sampler.remote {
        remote.stop();
    }
    // A handler that is preempted may take its time; one that never ends must not stop the JVM from ending.
    let began = Instant::now();
    while keeper::handlers_at_work(sampler) && began.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    capsules::finish();
    running.write_counters();
    Summary::of(&running, true).write(sampler.recorder.path());
    sampler.recorder.close();
    true
}

impl Running {
    /// Starts or stops all clocks.
    pub(crate) fn set_ticking(&mut self, ticking: bool) {
        if self.ticking == ticking {
            return;
        }
        self.ticking = ticking;
        let options = &self.sampler.options;
        if options.clocks.contains(&Clock::Itimer) {
            let interval = if ticking {
                options.interval
            } else {
                Duration::ZERO
            };
            if clock::set_itimer(interval).is_err() {
                self.ended.refused += 1;
            }
        }
        if ticking {
            for thread in threads::all() {
                // What it used while nothing ticked is nobody's.
                let now = clock::cpu_nanoseconds(thread.tid.load(Relaxed));
                thread.cpu_base.store(now.unwrap_or(0), Relaxed);
            }
            self.choose();
        } else {
            for thread in threads::all() {
                self.account(thread);
                self.stop_clocks(thread);
            }
            self.ended.churns += 1;
        }
    }

    /// Chooses the threads whose clocks run from now on.
    pub(crate) fn choose(&mut self) {
        if !self.ticking {
            return;
        }
        let count = threads::count();
        let wanted = match self.sampler.options.choice {
            Choice::All => count,
            Choice::Random(wanted) => wanted as usize,
        };
        // Reservoir: each thread has the same chance. Those that wait would be wasted.
        let busy = |thread: &&Thread| !thread.idle.load(Relaxed);
        let mut left = threads::all().filter(busy).count();
        let mut wanted = wanted.min(left);
        for thread in threads::all() {
            let all = self.sampler.options.choice == Choice::All;
            let take = if all {
                true
            } else if thread.idle.load(Relaxed) || left == 0 {
                false
            } else {
                let take = self.rng.below(left as u32) < wanted as u32;
                left -= 1;
                wanted -= usize::from(take && wanted > 0);
                take
            };
            match (take, thread.chosen.load(Relaxed)) {
                (true, false) => self.start_clocks(thread),
                (false, true) => {
                    self.account(thread);
                    self.stop_clocks(thread);
                }
                _ => {}
            }
        }
    }

    fn start_clocks(&mut self, thread: &Thread) {
        thread.chosen.store(true, Relaxed);
        thread.idle.store(false, Relaxed);
        thread.still.store(0, Relaxed);
        let now = clock::cpu_nanoseconds(thread.tid.load(Relaxed));
        thread.cpu_base.store(now.unwrap_or(0), Relaxed);
        let options = &self.sampler.options;
        for &clock in &options.clocks {
            let phase = self.rng.word();
            if clock::start_thread(clock, thread, options.interval, phase).is_err() {
                // The thread is gone, or the kernel has no more timers for this user (RLIMIT_SIGPENDING).
                self.ended.refused += 1;
            }
        }
    }

    fn stop_clocks(&self, thread: &Thread) {
        thread.chosen.store(false, Relaxed);
        for &clock in &self.sampler.options.clocks {
            clock::stop_thread(clock, thread);
        }
    }

    /// Starts the clocks again of a thread that no longer waits.
    pub(crate) fn wake(&mut self, thread: &Thread) {
        thread.still.store(0, Relaxed);
        thread.idle.store(false, Release);
        if thread.chosen.load(Relaxed) && self.sampler.options.clocks.contains(&Clock::Timer) {
            let phase = self.rng.word();
            let interval = self.sampler.options.interval;
            let _ = clock::restart_timer(thread, interval, phase);
        }
    }

    /// Adds the CPU time since the last account. False if the thread is gone.
    pub(crate) fn account(&self, thread: &Thread) -> bool {
        let Some(now) = clock::cpu_nanoseconds(thread.tid.load(Relaxed)) else {
            return false;
        };
        let base = thread.cpu_base.swap(now, Relaxed);
        if thread.chosen.load(Relaxed) {
            thread
                .accounted
                .fetch_add(now.saturating_sub(base), Relaxed);
        }
        true
    }

    /// Forgets a thread that ended without saying so.
    pub(crate) fn bury(&mut self, thread: &'static Thread) {
        self.stop_clocks(thread);
        let ended = self.sums(thread);
        self.ended.add(&ended);
        if let Some(queue) = &self.sampler.queue {
            queue.thread_ended(thread);
        }
        threads::remove(thread);
    }

    /// Everything so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.ended;
        for thread in threads::all() {
            totals.add(&self.sums(thread));
        }
        totals
    }

    /// Of one thread.
    fn sums(&self, thread: &Thread) -> Totals {
        let cpu = thread.accounted.load(Relaxed);
        let mut sums = Totals {
            cpu,
            ..Totals::default()
        };
        let requested = cpu as f64 / self.sampler.options.interval.as_nanos() as f64;
        for at in 0..CLOCKS {
            sums.samples[at] = thread.samples[at].load(Relaxed);
            sums.coalesced[at] = thread.coalesced[at].load(Relaxed);
            sums.least[at] = (cpu >= WEIGHTY).then(|| sums.samples[at] as f64 / requested);
        }
        sums
    }

    /// Writes what only the keeper counts into its lane.
    pub(crate) fn write_counters(&self) {
        let Some(lane) = self.sampler.recorder.lane(0) else {
            return;
        };
        let options = &self.sampler.options;
        let cpu = self.totals().cpu;
        let each = cpu / (options.interval.as_nanos() as u64).max(1);
        let ticks = u128::from(cpu) * u128::from(self.sampler.recorder.tick_hz()) / 1_000_000_000;
        for (counter, value) in [
            (Counter::Requested, each * options.clocks.len() as u64),
            (Counter::Drops, self.sampler.drops.load(Relaxed)),
            (Counter::TotalTicks, ticks as u64),
        ] {
            lane.add(counter, value.saturating_sub(lane.counter(counter)));
        }
        self.sampler.recorder.alive();
    }
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.cpu += other.cpu;
        for at in 0..CLOCKS {
            self.samples[at] += other.samples[at];
            self.coalesced[at] += other.coalesced[at];
            self.least[at] = match (self.least[at], other.least[at]) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
}
