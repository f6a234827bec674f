//! What reproduction costs: from a fault to its capsule, replays of it, and crash logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use walkfuzz_capsule::in_process::{self, Tally};
use walkfuzz_capsule::{Capsule, Puppet};
use walkfuzz_harness::one_core::on_one_core;
use walkfuzz_record::RunFolder;
use walkfuzz_triage::KnownIssues;
use walkfuzz_triage::crash_plan::group;

use super::Figure;
use super::parts::{Bench, median};
use crate::checkout;
use crate::failure::Failure;
use crate::replay::Jdks;

/// Walks of each capsule: in fresh processes, in one process, in the fast lane.
const FRESH: u64 = 100;
const LOOPED: u64 = 20_000;
const FAST: u64 = 500_000;
const LOGS: usize = 1_000;
/// Snapshots that walks return in.
const HEALTHY: usize = 4;

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let mut figures = capsules(bench)?;
    figures.push(crash_logs()?);
    Ok(figures)
}

/// What was measured of one capsule after the other.
#[derive(Default)]
struct Costs {
    seconds: Vec<f64>,
    by_value: Vec<f64>,
    by_reference: Vec<f64>,
    fresh_ms: Vec<f64>,
    looped: Vec<f64>,
    fast: Vec<f64>,
    fault: Lane,
    healthy: Lane,
    walks: u64,
    identical: u64,
}

/// The fast lane, each time beside bare faults.
#[derive(Default)]
struct Lane {
    /// Microseconds of CPU time that a walk takes.
    walk_us: Vec<f64>,
    /// That a fault takes which nobody looks at.
    floor_us: Vec<f64>,
}

/// A survey, and the capsules that it leaves.
fn capsules(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let seconds = bench.args.seconds.to_string();
    eprintln!("bench: a survey of {seconds} s, for its capsules");
    let runs = bench.runs.join("repro");
    let mut command = bench.command(&["campaign", &seconds])?;
    command
        .env("WALKFUZZ_RUNS", &runs)
        .env("WALKFUZZ_BLIND", "0");
    let output = command.output().map_err(Failure::environment)?;
    let run = RunFolder::latest(&runs).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Failure::environment(format_args!("the survey failed: {error}; {said}"))
    })?;
    let mut costs = Costs::default();
    for finding in run.findings()?.findings {
        let Some(path) = &finding.capsule.path else {
            continue;
        };
        let path = run.path().join(path);
        eprintln!("bench: capsule of {}", finding.title);
        let seen = SystemTime::from(finding.first_seen);
        let written = fs::metadata(&path).and_then(|about| about.modified());
        let took = written.map_err(Failure::environment)?.duration_since(seen);
        costs.seconds.push(took.unwrap_or_default().as_secs_f64());
        costs.measure(&path, bench.runs)?;
    }
    if costs.walks == 0 {
        return Err(Failure::environment(
            "the survey left no capsule to measure: more --seconds bring one",
        ));
    }
    for path in healthy(bench)? {
        costs.measure_healthy(&path)?;
    }
    Ok(costs.figures())
}

impl Lane {
    fn measure(&mut self, capsule: &Capsule) -> Result<Tally, Failure> {
        let floor = in_process::floor(FAST)?;
        let fast = in_process::walk(capsule, FAST)?;
        self.floor_us.push(cpu_us(&floor));
        self.walk_us.push(cpu_us(&fast));
        Ok(fast)
    }

    /// Walks in a second of CPU time, beside as many bare faults.
    fn figure(&mut self, what: &'static str) -> Figure {
        let rate = |us: f64| 1e6 / us.max(f64::MIN_POSITIVE);
        let walks = rate(median(&mut self.walk_us));
        let faults = rate(median(&mut self.floor_us));
        Figure::new("repro", what, walks, "/s of CPU time").beside("bare faults", faults)
    }
}

fn cpu_us(tally: &Tally) -> f64 {
    seconds(tally.cpu) * 1e6 / tally.walks.max(1) as f64
}

/// Capsules of walks that return.
fn healthy(bench: &Bench<'_>) -> Result<Vec<PathBuf>, Failure> {
    eprintln!("bench: {HEALTHY} snapshots, for walks that return");
    let folder = bench.runs.join("healthy");
    let count = HEALTHY.to_string();
    let mut command = bench.command(&["snapshots", &count, "20"])?;
    command.arg(&folder).env("WALKFUZZ_ENGINE", "step");
    command.output().map_err(Failure::environment)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Failure::environment)? {
        let path = entry.map_err(Failure::environment)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wfcap")
        {
            found.push(path);
        }
    }
    Ok(found)
}

impl Costs {
    fn measure(&mut self, path: &Path, runs: &Path) -> Result<(), Failure> {
        let capsule = Capsule::read(path).map_err(Failure::environment)?;
        self.by_value.push(size(path)?);
        let mut small = capsule.clone();
        let mut jdks = Jdks::default();
        small.refer(|file| jdks.find(file));
        let referring = runs.join("referring.wfcap");
        small.write(&referring).map_err(Failure::environment)?;
        self.by_reference.push(size(&referring)?);
        on_one_core(|| self.judge(&capsule))?;
        let fast = self.fault.measure(&capsule)?;
        self.identical += fast.identical;
        self.fast.push(fast.walks as f64 / seconds(fast.took));
        self.walks += FRESH + LOOPED + fast.walks;
        Ok(())
    }

    /// In the puppet: in fresh processes, and in one.
    fn judge(&mut self, capsule: &Capsule) -> Result<(), Failure> {
        for _ in 0..FRESH {
            let began = Instant::now();
            let ended = Puppet::new(capsule)?.walk()?;
            self.fresh_ms.push(began.elapsed().as_secs_f64() * 1e3);
            self.identical += u64::from(capsule.facts.expected.is(&ended));
        }
        let mut puppet = Puppet::new(capsule)?;
        let began = Instant::now();
        for _ in 0..LOOPED {
            self.identical += u64::from(capsule.facts.expected.is(&puppet.walk()?));
        }
        self.looped.push(LOOPED as f64 / seconds(began.elapsed()));
        Ok(())
    }

    /// A walk that returns, in the fast lane alone.
    fn measure_healthy(&mut self, path: &Path) -> Result<(), Failure> {
        let mut capsule = Capsule::read(path).map_err(Failure::environment)?;
        let mut jdks = Jdks::default();
        capsule.resolve(|file| jdks.find(file))?;
        let fast = self.healthy.measure(&capsule)?;
        self.identical += fast.identical;
        self.walks += fast.walks;
        Ok(())
    }

    fn figures(mut self) -> Vec<Figure> {
        let figure = |what, value, unit| Figure::new("repro", what, value, unit);
        let share = 100.0 * self.identical as f64 / self.walks as f64;
        vec![
            figure(
                "capsules, each a new signature",
                self.by_value.len() as f64,
                "",
            ),
            figure(
                "first seen to capsule, median",
                median(&mut self.seconds),
                "s",
            )
            .at_most(5.0),
            figure("capsule by value, median", median(&mut self.by_value), "KB"),
            figure(
                "capsule by reference, median",
                median(&mut self.by_reference),
                "KB",
            )
            .at_most(8.0),
            figure("replays that were identical", share, "%").at_least(100.0),
            figure(
                "replay in a fresh process, median",
                median(&mut self.fresh_ms),
                "ms",
            )
            .at_most(15.0),
            figure(
                "replays in one process, median",
                median(&mut self.looped),
                "/s",
            )
            .at_least(20e3),
            figure(
                "replays in the fast lane, median",
                median(&mut self.fast),
                "/s",
            )
            .at_least(500e3),
            self.fault
                .figure("replays in the fast lane, of walks that fault")
                .at_least(500e3),
            self.healthy
                .figure("replays in the fast lane, of walks that return")
                .at_least(500e3),
        ]
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// In KB.
fn size(path: &Path) -> Result<f64, Failure> {
    let about = fs::metadata(path).map_err(Failure::environment)?;
    Ok(about.len() as f64 / 1024.0)
}

/// The logs of the corpus, again and again; unpacking them is not counted.
fn crash_logs() -> Result<Figure, Failure> {
    eprintln!("bench: {LOGS} crash logs");
    let folder = checkout::root()?.join("corpus/hs_err");
    let mut corpus = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Failure::environment)? {
        let path = entry.map_err(Failure::environment)?.path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            let packed = fs::File::open(&path).map_err(Failure::environment)?;
            corpus.push(zstd::decode_all(packed).map_err(Failure::environment)?);
        }
    }
    let logs = corpus.iter().cycle().take(LOGS).map(Vec::as_slice);
    let began = Instant::now();
    let groups = group(logs, KnownIssues::built_in());
    let took = began.elapsed().as_secs_f64();
    let figure = Figure::new(
        "repro",
        "1,000 crash logs read, planned for and grouped",
        took,
        "s",
    );
    Ok(figure.beside("groups", groups.len() as f64).at_most(2.0))
}
