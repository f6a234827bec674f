//! The sampler: what its clocks deliver, what a sample costs beside async-profiler's, what its handler takes.
//!
//! What is delivered is counted for each on-CPU second, and costs are shares of the CPU time that the same work takes: a machine that has other work to do
//! makes this slower, and less even, not wrong.

mod clocks;
mod costs;
mod running;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use walkfuzz_jvm::{Places, place_jar};

use super::Figure;
use super::parts::Bench;
use crate::checkout;
use crate::failure::Failure;
use crate::stress::sampler;
use crate::stress::workload::PROGRAMS_JAR;

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

pub(crate) fn measure(bench: &Bench<'_>) -> Result<(Vec<Figure>, Sampling), Failure> {
    let stage = Stage::new(bench)?;
    let (mut figures, clocks, handler) = clocks::measure(&stage)?;
    let (more, costs) = costs::measure(&stage, handler)?;
    figures.extend(more);
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
            jar: place_jar(&places.cache.join("workloads"), "programs", PROGRAMS_JAR)?,
            sampler: sampler::find()?,
            folder: bench.runs,
            seconds: bench.args.seconds.div_ceil(4),
            rounds: bench.args.rounds,
        })
    }

    /// The JVM with the program on so many threads; options of the JVM can be put before.
    fn java(&self) -> Command {
        let mut command = Command::new(&self.java);
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

/// async-profiler's library, or why there is none.
fn async_profiler() -> Result<PathBuf, String> {
    let root = checkout::root()
        .map_err(|_| "scripts/get-async-profiler brings it, in a checkout".to_owned())?;
    let output = Command::new(root.join("scripts/get-async-profiler"))
        .output()
        .map_err(|error| format!("scripts/get-async-profiler: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

impl Sampling {
    pub(crate) fn for_people(&self) -> String {
        clocks::for_people(&self.clocks) + &costs::for_people(&self.costs)
    }
}
