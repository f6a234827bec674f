//! The parts that each are one process, or a few.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use walkfuzz_jvm::Jdk;
use walkfuzz_record::{RunFolder, Summary};

use super::Figure;
use crate::child::myself;
use crate::cli::{BenchArgs, BenchPart};
use crate::failure::Failure;
use crate::in_jvm::{Measured, beyond_first_frame, recorded};

/// How often a start is timed; the median counts.
const STARTS: usize = 5;
/// The heap that a session gives its JVM unless told otherwise, in MB.
const HEAP_MB: f64 = 128.0;

pub(crate) struct Bench<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) jdk: Option<&'a Jdk>,
    /// Where run folders go; removed at the end.
    pub(crate) runs: &'a Path,
}

impl Bench<'_> {
    pub(crate) fn figures(&self, parts: &[BenchPart]) -> Result<Vec<Figure>, Failure> {
        let has = |part| parts.contains(&part);
        let mut figures = Vec::new();
        if has(BenchPart::Guard) {
            figures.extend(self.guard()?);
        }
        if has(BenchPart::Start) {
            figures.extend(self.start()?);
        }
        if has(BenchPart::Repro) {
            figures.extend(super::repro::figures(self)?);
        }
        let others = [
            BenchPart::Bare,
            BenchPart::Loop,
            BenchPart::Step,
            BenchPart::Fuzz,
            BenchPart::Snapshots,
        ];
        if !others.into_iter().any(has) {
            return Ok(figures);
        }
        let seconds = self.args.seconds.to_string();
        let bare = self.measure(&["bare", &seconds])?;
        let rate = rate(&bare);
        figures.push(Figure::new("bare", "walks", rate, "/s a core"));
        figures.push(Figure::new(
            "bare",
            "beyond the first frame",
            share(bare.beyond_first_frame, bare.walks),
            "%",
        ));
        if has(BenchPart::Loop) {
            let looped = self.measure(&["loop", &seconds])?;
            figures.extend(fuzzing("loop", &looped, rate));
        }
        if has(BenchPart::Step) {
            let step = self.measure(&["natural", &seconds])?;
            let floor = 1e9 / self.measure(&["guard"])?.step_ns;
            let walks = |what| Figure::new("step", what, self::rate(&step), "/s a core");
            figures.push(walks("natural walks").beside("bare", rate).at_least(150e3));
            figures.push(walks("natural walks").beside("kernel's bare single steps", floor));
        }
        if has(BenchPart::Fuzz) {
            let (summary, run) = self.fuzz(false, 1)?;
            let mut measured = recorded(&summary);
            measured.beyond_first_frame = beyond_first_frame(&run)?;
            let [walks, share, beyond, inputs] = fuzzing("fuzz", &measured, rate);
            figures.extend([
                walks.at_least(1.5e6),
                share.at_least(60.0),
                beyond.at_least(50.0),
                inputs,
            ]);
        }
        if has(BenchPart::Snapshots) {
            figures.extend(super::snapshots::figures(self, rate)?);
        }
        Ok(figures)
    }

    fn guard(&self) -> Result<[Figure; 4], Failure> {
        let costs = self.measure(&["guard"])?;
        let figure = |what, value| Figure::new("guard", what, value, "ns");
        Ok([
            figure("guarded call", costs.guarded_ns).beside("direct call", costs.direct_ns),
            figure("guarded minus direct", costs.guarded_ns - costs.direct_ns).at_most(5.0),
            figure("recovery", costs.recovery_ns).beside("kernel's floor", costs.floor_ns),
            figure("recovery minus floor", costs.recovery_ns - costs.floor_ns).at_most(3_000.0),
        ])
    }

    fn start(&self) -> Result<Vec<Figure>, Failure> {
        let mut times = Vec::new();
        let mut resident = Vec::new();
        let mut launcher = Vec::new();
        for _ in 0..STARTS {
            let began = Instant::now();
            let mut child = self
                .command(&["start"])?
                .stdout(Stdio::piped())
                .spawn()
                .map_err(Failure::environment)?;
            let mut line = String::new();
            if let Some(out) = child.stdout.take() {
                let _ = BufReader::new(out).read_line(&mut line);
            }
            times.push(began.elapsed().as_secs_f64());
            let mut said = String::new();
            if let Some(mut errors) = child.stderr.take() {
                let _ = errors.read_to_string(&mut said);
            }
            let _ = child.wait();
            resident.push(parse(&line, &said)?.resident_mb);
            launcher.extend(self.launcher_seconds());
        }
        let first =
            Figure::new("start", "process to first input", median(&mut times), "s").at_most(1.0);
        let first = if launcher.is_empty() {
            first
        } else {
            first.beside("java -version", median(&mut launcher))
        };
        let memory = Figure::new("start", "resident memory", median(&mut resident), "MB");
        Ok(vec![first, memory.beside("heap", HEAP_MB).at_most(350.0)])
    }

    /// How long the JDK's own launcher takes to start a JVM and end it.
    fn launcher_seconds(&self) -> Option<f64> {
        let java = self.jdk?.home.join("bin/java");
        let began = Instant::now();
        let mut command = walkfuzz_record::machine::command(java);
        command
            .args(["-Xmx128m", "-version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
            .status()
            .ok()
            .filter(|status| status.success())
            .map(|_| began.elapsed().as_secs_f64())
    }

    /// This program in a process of its own, with its environment.
    pub(crate) fn command(&self, what: &[&str]) -> Result<Command, Failure> {
        let mut command = myself()?;
        command
            .arg("in-jvm")
            .args(what)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        command
            .env("WALKFUZZ_RUNS", self.runs)
            .env_remove("WALKFUZZ_RUN");
        if let Some(jdk) = self.jdk {
            command.env("WALKFUZZ_JDK", &jdk.home);
        }
        // `loop` generates its inputs as `--blind` does.
        let engine = if what.first() == Some(&"natural") {
            "step"
        } else {
            "live"
        };
        command
            .env("WALKFUZZ_BLIND", "1")
            .env("WALKFUZZ_ENGINE", engine);
        Ok(command)
    }

    pub(crate) fn measure(&self, what: &[&str]) -> Result<Measured, Failure> {
        eprintln!("bench: {}", what.join(" "));
        let output = self.command(what)?.output().map_err(Failure::environment)?;
        parse(
            &String::from_utf8_lossy(&output.stdout),
            &String::from_utf8_lossy(&output.stderr),
        )
    }

    /// A run of the program's own `fuzz`, with an empty corpus.
    pub(crate) fn fuzz(&self, blind: bool, seed: u32) -> Result<(Summary, RunFolder), Failure> {
        let side = if blind { "blind" } else { "guided" };
        eprintln!("bench: fuzz {side}, seed {seed}, {} s", self.args.seconds);
        let runs = self.runs.join(format!("{side}-{seed}"));
        let mut command = myself()?;
        command.args([
            "fuzz",
            "walk_ucontext",
            "--json",
            "--seconds",
            &self.args.seconds.to_string(),
        ]);
        command
            .args(["--seed", &seed.to_string(), "--runs"])
            .arg(&runs);
        if let Some(jdk) = self.jdk {
            command.arg("--jdk").arg(&jdk.home);
        }
        if blind {
            command.arg("--blind");
        } else {
            command.arg("--corpus").arg(runs.join("corpus"));
        }
        let output = command.output().map_err(Failure::environment)?;
        let summary: Summary = serde_json::from_slice(&output.stdout).map_err(|_| {
            Failure::environment(format_args!(
                "fuzz failed: {}",
                last_line(&String::from_utf8_lossy(&output.stderr))
            ))
        })?;
        Ok((summary, RunFolder::latest(&runs)?))
    }
}

/// The figures that every fuzzing loop has.
fn fuzzing(part: &'static str, measured: &Measured, bare: f64) -> [Figure; 4] {
    // Of the walking threads' CPU time. Time in walkers is the wall clock's, but a walk that lost its core counts little (`PREEMPTED` in
    // the record's lane).
    let walker = 100.0 * measured.walker_seconds / measured.cpu_seconds.max(f64::MIN_POSITIVE);
    [
        Figure::new(part, "walks", rate(measured), "/s a core").beside("bare", bare),
        Figure::new(part, "walker's share of time", walker, "%").beside("bare", 100.0),
        Figure::new(
            part,
            "beyond the first frame",
            share(measured.beyond_first_frame, measured.walks),
            "%",
        ),
        Figure::new(
            part,
            "inputs",
            measured.inputs as f64 / measured.cpu_seconds.max(f64::MIN_POSITIVE),
            "/s a core",
        ),
    ]
}

fn parse(line: &str, said: &str) -> Result<Measured, Failure> {
    let last = line.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .map_err(|_| Failure::environment(format_args!("measuring failed: {}", last_line(said))))
}

pub(super) fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing")
}

fn rate(measured: &Measured) -> f64 {
    measured.walks as f64 / measured.cpu_seconds.max(f64::MIN_POSITIVE)
}

pub(super) fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
