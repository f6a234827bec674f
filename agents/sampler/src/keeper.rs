//! The agent's own threads: the keeper, which looks after clocks and accounts, and the ticker, which is a clock.
//!
//! Both have all signals blocked and are unknown to the JVM, so that no sample and no safepoint concerns them.
//!
//! Contract: not for handlers.

use std::sync::atomic::Ordering::*;
use std::thread;
use std::time::{Duration, Instant};

use walkfuzz_context::generate::{Dice, Rng};
use walkfuzz_guard::with_signals_blocked;
use walkfuzz_jvm::HostJvm;

use crate::clock::{self, Clock, SIGNALS};
use crate::control::{self, Running};
use crate::options::Choice;
use crate::sampler::Sampler;
use crate::signals;
use crate::threads::{self, Thread};

/// How often waiting threads are looked at, at most.
const SWEEP: Duration = Duration::from_millis(1);
/// A sweep may cost one part in so many of a core.
const SWEEP_SHARE: u32 = 50;
/// A thread that has used so much since it was found waiting is at work again, in ns.
const AWAKE: u64 = 20_000;
/// How often accounts are written.
const ACCOUNT: Duration = Duration::from_millis(100);
/// How long a random choice of threads holds.
const ROUND: Duration = Duration::from_millis(10);
/// How often code cache and landscape are looked at, at most.
const SURVEY: Duration = Duration::from_secs(1);
/// A survey may cost one part in so many of a core.
const SURVEY_SHARE: u32 = 100;

/// Starts the agent's threads for a sampling; they end with it.
pub(crate) fn start(sampler: &'static Sampler, vm: HostJvm) -> std::io::Result<()> {
    with_signals_blocked(|| {
        thread::Builder::new()
            .name("walkfuzz-keeper".to_owned())
            .spawn(move || keep(sampler, &vm))?;
        if sampler.options.clocks.contains(&Clock::Tick) {
            thread::Builder::new()
                .name("walkfuzz-ticker".to_owned())
                .spawn(move || tick(sampler))?;
        }
        Ok(())
    })
}

/// Whether some handler holds a lane.
pub(crate) fn handlers_at_work(sampler: &Sampler) -> bool {
    (1..sampler.recorder.lanes())
        .filter_map(|index| sampler.recorder.lane(index))
        .any(|lane| lane.owner().is_some())
}

/// Something to be done again and again.
struct Due {
    every: Duration,
    next: Instant,
}

impl Due {
    fn new(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now() + every,
        }
    }

    fn is_now(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + self.every;
        true
    }
}

fn keep(sampler: &'static Sampler, vm: &HostJvm) {
    let options = &sampler.options;
    thread::sleep(options.delay);
    survey(sampler, vm);
    if with(sampler, |running| running.set_ticking(true)).is_none() {
        return;
    }
    let (mut account, mut round) = (Due::new(ACCOUNT), Due::new(ROUND));
    let mut look = Due::new(SURVEY);
    let mut churn = options.churn.map(Due::new);
    let mut sweep = SWEEP;
    loop {
        let next = churn.as_ref().map(|churn| churn.next);
        let now = Instant::now();
        let wait = next.map_or(sweep, |next| sweep.min(next.saturating_duration_since(now)));
        thread::sleep(wait);
        let now = Instant::now();
        let alive = with(sampler, |running| {
            for thread in threads::all().filter(|thread| thread.idle.load(Acquire)) {
                let used = clock::cpu_nanoseconds(thread.tid.load(Relaxed)).unwrap_or(0);
                if used.saturating_sub(thread.cpu_seen.load(Relaxed)) > AWAKE {
                    running.wake(thread);
                }
            }
            if options.choice != Choice::All && round.is_now(now) {
                running.choose();
            }
            if account.is_now(now) {
                look_after(running);
            }
            if churn.as_mut().is_some_and(|churn| churn.is_now(now)) {
                running.set_ticking(false);
                running.set_ticking(true);
            }
        });
        if alive.is_none() {
            return;
        }
        sweep = SWEEP.max(now.elapsed() * SWEEP_SHARE);
        if look.is_now(now) {
            let began = Instant::now();
            survey(sampler, vm);
            look.every = SURVEY.max(began.elapsed() * SURVEY_SHARE);
            look.next = Instant::now() + look.every;
        }
    }
}

/// Does something to the sampling, as long as it is this one.
fn with(sampler: &'static Sampler, body: impl FnOnce(&mut Running)) -> Option<()> {
    let mut control = control::lock();
    let running = control
        .as_mut()
        .filter(|running| std::ptr::eq(running.sampler, sampler))?;
    body(running);
    Some(())
}

fn look_after(running: &mut Running) {
    // A burial moves the last thread to another position.
    let gone: Vec<&'static Thread> = threads::all()
        .filter(|thread| !running.account(thread))
        .collect();
    for thread in gone {
        running.bury(thread);
    }
    if !signals::are_ours(&running.sampler.options.clocks) {
        running.sampler.handlers_kept.store(false, Relaxed);
    }
    running.write_counters();
}

/// Reads the code cache anew, and the landscape where it is needed.
fn survey(sampler: &'static Sampler, vm: &HostJvm) {
    if let Some(map) = vm.code_map() {
        let old = sampler.code.swap(Box::into_raw(map), AcqRel);
        // Handlers use a map only while they hold a lane.
        for lane in (1..sampler.recorder.lanes()).filter_map(|i| sampler.recorder.lane(i)) {
            while lane.owner().is_some() {
                thread::sleep(Duration::from_micros(100));
            }
        }
        // SAFETY: made by Box::into_raw, replaced, and every lane was free since.
        drop(unsafe { Box::from_raw(old) });
    }
    if let Some(perturber) = &sampler.perturber {
        perturber.survey(&vm.hotspot, &vm.maps);
    }
}

/// Sends signals at every interval.
fn tick(sampler: &'static Sampler) {
    let options = &sampler.options;
    let signal = SIGNALS[Clock::Tick as usize].load(Acquire);
    let mut rng = Rng::new(options.seed ^ 0x7469_636b);
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    let interval = options.interval.as_nanos() as i64;
    let mut next = monotonic();
    while Sampler::is_current(sampler) {
        next += interval;
        let now = monotonic();
        if next <= now {
            // Ticks that were missed because this thread did not run are merged into the next one.
            next += (now - next) / interval * interval;
        }
        sleep_until(next);
        // Threads are chosen by the keeper; here all chosen ones that do not wait get their signal.
        for thread in threads::all() {
            if !thread.chosen.load(Relaxed) || thread.idle.load(Relaxed) {
                continue;
            }
            if thread.pending.swap(true, Relaxed) {
                let merged = &thread.coalesced[Clock::Tick as usize];
                merged.store(merged.load(Relaxed) + 1, Relaxed);
                continue;
            }
            // SAFETY: sends a signal to a thread of this process, or to none.
            let sent = unsafe {
                libc::syscall(libc::SYS_tgkill, process, thread.tid.load(Relaxed), signal)
            };
            if sent != 0 {
                thread.pending.store(false, Relaxed);
            }
        }
        // Every thousandth tick or so out of step, lest a program's own period hides something.
        if rng.chance(1, 1024) {
            next += i64::from(rng.below(u32::try_from(interval).unwrap_or(u32::MAX)));
        }
    }
}

fn monotonic() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the local only.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn sleep_until(nanoseconds: i64) {
    let when = libc::timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    // SAFETY: plain data. Signals are blocked here, so that it does not end early.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const when,
            std::ptr::null_mut(),
        )
    };
}
