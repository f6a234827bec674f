//! What walks of snapshots cost, feedback and pool included, and whether they end the same each time.

use std::path::Path;

use walkfuzz_harness::snapshots::Taken;

use super::Figure;
use super::parts::{Bench, median};
use crate::child::{myself, output};
use crate::failure::Failure;
use crate::snapshots::Walked;

/// Snapshots that are walked.
const COUNT: u32 = 6;
/// Seconds that taking them may take.
const TAKING: u32 = 120;
/// Walks of each process: each snapshot has its turns.
const WALKS: u64 = 2_000_000;
/// Processes.
const TIMES: usize = 3;

/// `bare` is the plain guarded loop's rate in a JVM.
pub(crate) fn figures(bench: &Bench<'_>, bare: f64) -> Result<Vec<Figure>, Failure> {
    let folder = bench.runs.join("snapshots");
    eprintln!("bench: taking {COUNT} snapshots");
    let mut command = bench.command(&["snapshots", &COUNT.to_string(), &TAKING.to_string()])?;
    command.arg(&folder).env("WALKFUZZ_ENGINE", "step");
    let taken = output(command)?;
    let said = String::from_utf8_lossy(&taken.stdout);
    let taken = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Taken>(line).ok());
    let taken = taken.count();
    if taken == 0 {
        return Err(Failure::environment("no snapshots could be taken"));
    }
    let mut all = Vec::new();
    for _ in 0..TIMES {
        eprintln!("bench: {WALKS} walks of snapshots");
        all.push(walk(bench, &folder)?);
    }
    let rate = |walked: &Walked| walked.effort.walks as f64 / walked.effort.cpu_seconds.max(1e-9);
    let mut rates: Vec<f64> = all.iter().map(rate).collect();
    let judging = |walked: &Walked| {
        100.0 * walked.effort.judging_seconds / walked.effort.cpu_seconds.max(1e-9)
    };
    let mut judged: Vec<f64> = all.iter().map(judging).collect();
    let first = all.first().map(|walked| walked.effort.chain);
    let same = all
        .iter()
        .filter(|walked| Some(walked.effort.chain) == first)
        .count();
    let mut resident: Vec<f64> = all.iter().map(|walked| walked.resident_mb).collect();
    let figure = |what, value, unit| Figure::new("snapshots", what, value, unit);
    Ok(vec![
        figure("snapshots", taken as f64, ""),
        figure(
            "walks with feedback, median",
            median(&mut rates),
            "/s a core",
        )
        .beside("bare", bare)
        .at_least(400e3),
        figure("of that, judging hits", median(&mut judged), "%"),
        figure("processes with the first one's chain", same as f64, "").at_least(TIMES as f64),
        figure("resident", median(&mut resident), "MB"),
    ])
}

fn walk(bench: &Bench<'_>, folder: &Path) -> Result<Walked, Failure> {
    let mut command = myself()?;
    command
        .args(["in-jvm", "walk-snapshots", &WALKS.to_string(), "1"])
        .arg(folder)
        .env("WALKFUZZ_RUNS", bench.runs)
        .env_remove("WALKFUZZ_MEMORY_EDITS");
    let ended = output(command)?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let walked = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    walked.ok_or_else(|| {
        Failure::environment(format_args!(
            "the snapshots could not be walked ({}); its last words stand above",
            ended.status
        ))
    })
}
