//! The sampler: what its clocks deliver, what a sample costs beside async-profiler's, what its handler takes.
//!
//! What is delivered is counted for each on-CPU second, and costs are shares of the CPU time that the same work takes: a machine that has other work to do
//! makes this slower, and less even, not wrong.

mod clocks;
mod costs;
mod remote;
mod running;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use walkfuzz_jvm::{Places, place_jar};

use super::Figure;
use super::parts::Bench;
use crate::failure::Failure;
use walkfuzz_stress::agents;
use walkfuzz_stress::programs;

/// The program that is sampled: the same calls in each round, 20 frames deep.
const PROGRAM: &str = "steady";
/// Between two samples.
const INTERVAL: &str = "100us";
const INTERVAL_NS: f64 = 100e3;
/// Of what is asked, in percent.
const DELIVERED: f64 = 95.0;
/// What the handler may take beside the walk, in ns.
const HANDLER_NS: f64 = 300.0;
const PART: &str = "stress";

/// What the measurements share.
struct Stage<'a> {
    java: PathBuf,
    jcmd: PathBuf,
    jar: PathBuf,
    sampler: PathBuf,
    folder: &'a Path,
    /// Of a run at the clocks' delivery, and of a window of a measurement of costs.
    seconds: u32,
    rounds: u32,
}

/// What came out, beside the figures.
#[derive(Debug, Serialize)]
pub(crate) struct Sampling {
    clocks: Vec<clocks::Delivery>,
    costs: Vec<costs::Cost>,
}

/// `RECORD.json`, as far as it is looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SideFile {
    clocks: Vec<ClockFile>,
    on_cpu_seconds: f64,
    drops: u64,
    handler: Option<HandlerFile>,
    remote: Option<RemoteFile>,
}

#[derive(Clone, Debug, Deserialize)]
struct RemoteFile {
    walks: u64,
    pairs: u64,
    different: u64,
    held: Option<SpreadFile>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct SpreadFile {
    median: QuantileFile,
    p99: QuantileFile,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct QuantileFile {
    ns: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClockFile {
    ceiling_hz: Option<f64>,
    requested: u64,
    delivered: u64,
    coalesced: u64,
    least_share: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HandlerFile {
    median_ns: f64,
    p99_ns: f64,
}

pub(crate) use remote::figures as remote_figures;

pub(crate) fn measure(bench: &Bench<'_>) -> Result<(Vec<Figure>, Sampling), Failure> {
    let stage = Stage::new(bench)?;
    let before = machine();
    let (mut figures, clocks, handler) = clocks::measure(&stage)?;
    let (more, costs) = costs::measure(&stage, handler)?;
    figures.extend(more);
    figures.extend(stolen(before, machine()).map(|share| {
        Figure::new(
            PART,
            "of the machine's busy time taken by its host",
            share,
            "%",
        )
    }));
    Ok((figures, Sampling { clocks, costs }))
}

impl<'a> Stage<'a> {
    fn new(bench: &'a Bench<'_>) -> Result<Self, Failure> {
        let jdk = bench
            .jdk
            .ok_or_else(|| Failure::environment("no JDK to measure on"))?;
        let places = Places::from_env();
        let jcmd = jdk.home.join("bin/jcmd");
        if !jcmd.is_file() {
            return Err(Failure::environment(format_args!(
                "{} has no bin/jcmd, which the profilers are loaded with; choose another --jdk",
                jdk.home.display()
            )));
        }
        Ok(Self {
            java: jdk.home.join("bin/java"),
            jcmd,
            jar: place_jar(
                &places.cache.join("workloads"),
                programs::NAME,
                programs::JAR,
            )?,
            sampler: agents::find(&agents::SAMPLER)?,
            folder: bench.runs,
            seconds: bench.args.seconds.div_ceil(4),
            rounds: bench.args.rounds,
        })
    }

    /// The JVM with the program on so many threads; options of the JVM can be put before.
    fn java(&self) -> Command {
        let mut command = walkfuzz_record::machine::command(&self.java);
        command
            .args(["-Xmx256m", "-XX:-UsePerfData"])
            .current_dir(self.folder)
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("_JAVA_OPTIONS")
            .stdin(std::process::Stdio::null());
        command
    }

    fn program(&self, command: &mut Command, threads: u32, seconds: u32) {
        command
            .arg("-cp")
            .arg(&self.jar)
            .args(["walkfuzz.programs.Main", PROGRAM])
            .args(["--threads", &threads.to_string()])
            .args(["--seconds", &seconds.to_string()]);
    }
}

/// Ticks that the machine's CPUs were busy, and those of them that its host gave to others.
fn machine() -> Option<(u64, u64)> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Of the first line: `cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, nice, system, _, _, irq, soft, steal] = numbers[..] else {
        return None;
    };
    Some((user + nice + system + irq + soft + steal, steal))
}

/// In percent. What the host takes counts as CPU time of the thread that it took it from: fewer samples come in that.
fn stolen(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<f64> {
    let ((busy_before, stolen_before), (busy, stolen)) = (before?, after?);
    let busy = busy.checked_sub(busy_before).filter(|busy| *busy > 0)?;
    Some(100.0 * stolen.saturating_sub(stolen_before) as f64 / busy as f64)
}

impl SideFile {
    fn read(record: &Path) -> Result<Self, Failure> {
        let mut path = record.as_os_str().to_owned();
        path.push(".json");
        let text = std::fs::read(&path).map_err(|error| {
            Failure::environment(format_args!(
                "the sampler left no {}: {error}",
                Path::new(&path).display()
            ))
        })?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::environment(format_args!("{}: {error}", Path::new(&path).display()))
        })
    }
}

impl Sampling {
    pub(crate) fn for_people(&self) -> String {
        clocks::for_people(&self.clocks) + &costs::for_people(&self.costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_takes_is_a_share_of_busy_time() {
        let before = ticks("cpu  100 0 0 900 5 0 0 10 0 0\ncpu0 1\n");
        let after = ticks("cpu  150 10 15 950 5 0 0 35 0 0\n");
        assert_eq!(before, Some((110, 10)));
        assert_eq!(stolen(before, after), Some(25.0));
        assert_eq!(stolen(before, before), None);
        assert_eq!(ticks("cpu  1 2 3\n"), None);
    }
}
