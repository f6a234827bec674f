//! The side file `RECORD.json`: what was asked of each clock, what it can give, what it gave. Written when sampling ends in good order, so
//! that it is missing after a crash.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::*;

use serde::Serialize;

use crate::clock::{self, Clock, SIGNALS};
use crate::control::Running;
use crate::queue::{QueueSampling, QueueSummary};
use crate::remote::{RemoteSampling, RemoteSummary};
use crate::timing::TimingSummary;

/// The version of the file's fields.
pub const SCHEMA: u32 = 1;

/// One clock.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ClockSummary {
    name: &'static str,
    signal: i32,
    interval_ns: u64,
    /// Samples a second that a running thread gets at most; null if only the machine limits it.
    ceiling_hz: Option<f64>,
    /// Samples that were asked for: on-CPU time of the chosen threads by the interval.
    requested: u64,
    /// Samples that came.
    delivered: u64,
    /// Samples that were merged into others, where it can be told.
    coalesced: u64,
    /// The least share of what was requested that a thread got, of those that used half a second of CPU time; null without any.
    least_share: Option<f64>,
}

/// The file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Summary {
    schema: u32,
    pid: u32,
    clocks: Vec<ClockSummary>,
    /// CPU time of chosen threads while clocks ran, in seconds.
    on_cpu_seconds: f64,
    /// Threads that were sampled at some time.
    threads: u64,
    /// Threads for which the table had no room.
    turned_away: u64,
    /// Clocks that the kernel refused to a thread.
    clocks_refused: u64,
    /// How often all clocks were stopped and made anew.
    churns: u64,
    /// Signals that hit threads which are not sampled.
    strays: u64,
    /// Samples without a free lane or a place in the guard.
    drops: u64,
    /// False if somebody replaced a handler of ours: what is counted from then on is too little.
    handlers_kept: bool,
    /// Handlers without their walks; null unless `timing=on`.
    handler: Option<TimingSummary>,
    /// Walks from outside; null unless the walker makes such.
    remote: Option<RemoteSummary>,
    /// Samples in safepoint queues; null unless the walker uses them.
    queue: Option<QueueSummary>,
    /// CONFIG_HZ.
    kernel_tick_hz: Option<f64>,
    guard: bool,
    steps: u32,
    depth: i32,
    perturb: u32,
    seed: u64,
}

impl Summary {
    pub(crate) fn of(running: &Running, ended: bool) -> Self {
        let sampler = running.sampler;
        let options = &sampler.options;
        let totals = running.totals();
        let interval_ns = options.interval.as_nanos() as u64;
        let clock = |&clock: &Clock| ClockSummary {
            name: clock.name(),
            signal: SIGNALS[clock as usize].load(Relaxed),
            interval_ns,
            ceiling_hz: clock.ceiling(),
            requested: totals.cpu / interval_ns.max(1),
            delivered: totals.samples[clock as usize],
            coalesced: totals.coalesced[clock as usize],
            least_share: totals.least[clock as usize],
        };
        Self {
            schema: SCHEMA,
            pid: std::process::id(),
            clocks: options.clocks.iter().map(clock).collect(),
            on_cpu_seconds: totals.cpu as f64 / 1e9,
            threads: totals.threads,
            turned_away: sampler.turned_away.load(Relaxed),
            clocks_refused: totals.refused,
            // The last stop is the end.
            churns: totals.churns.saturating_sub(u64::from(ended)),
            strays: sampler.strays.load(Relaxed),
            drops: sampler.drops.load(Relaxed),
            handlers_kept: sampler.handlers_kept.load(Relaxed),
            handler: sampler
                .timing
                .as_ref()
                .and_then(|timing| timing.summary(walkfuzz_walkers::tick_hz())),
            remote: sampler.remote.as_ref().map(RemoteSampling::summary),
            queue: sampler
                .queue
                .as_ref()
                .map(|queue: &QueueSampling| queue.summary(walkfuzz_walkers::tick_hz())),
            kernel_tick_hz: clock::kernel_tick_hz(),
            guard: options.guard,
            steps: options.steps,
            depth: options.depth,
            perturb: options.perturb,
            seed: options.seed,
        }
    }

    /// Where the file of a record lies.
    pub(crate) fn path(record: &Path) -> PathBuf {
        let mut name = record.as_os_str().to_owned();
        name.push(".json");
        PathBuf::from(name)
    }

    pub(crate) fn write(&self, record: &Path) {
        let path = Self::path(record);
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&path, text));
        if let Err(error) = written {
            eprintln!("walkfuzz: cannot write {}: {error}", path.display());
        }
    }
}
