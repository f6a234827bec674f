//! One run: a JVM with the program, the profiler, and the interposer before it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use walkfuzz_harness::interrupt;
use walkfuzz_jvm::{Jdk, escaped};
use walkfuzz_record::{Counter, JvmFacts, RETURNED, RecordReader, Totals};
use walkfuzz_stress::assess::{Known, assess};
use walkfuzz_stress::launch::{self, NO_WALKER};
use walkfuzz_stress::{Cell, CellResult, Dimension, Minimum, Profile};
use walkfuzz_stress::{process, run};
use walkfuzz_triage::KnownIssues;

use crate::failure::{Failure, INTERRUPTED};
use crate::interpose::answer::Recorded;
use crate::interpose::args::{InterposeArgs, ProfilerName};
use crate::interpose::mode::Mode;
use crate::stress::workload::Workloads;

/// How long a JVM may take beside the time that its program runs: start, end, a crash log.
pub(crate) const BESIDE: Duration = Duration::from_secs(90);
/// Untouched calls in Java that a run must have to prove anything.
const ENOUGH: u64 = 20;
/// The code of a sample that JFR could not walk.
const FAILED: i32 = -1;
/// How our stress runs call the JVM's sampler.
const JFR: &str = "jfr-cputime";

/// What both runs share.
pub(crate) struct Stage<'a> {
    pub(crate) args: &'a InterposeArgs,
    pub(crate) mode: &'a Mode,
    pub(crate) jdk: &'a Jdk,
    pub(crate) profile: &'a Profile,
    pub(crate) workloads: &'a Workloads,
    pub(crate) interposer: PathBuf,
    /// The profiler's library; none for JFR.
    pub(crate) library: Option<PathBuf>,
}

/// What a run left.
pub(crate) struct Ran {
    pub(crate) result: CellResult,
    pub(crate) totals: Totals,
    /// What the profiler or the interposer complained of.
    pub(crate) complaint: Option<String>,
    pub(crate) folder: PathBuf,
}

impl Stage<'_> {
    /// The cell that a run would be in the stress matrix.
    pub(crate) fn cell(&self, walker: &str, perturbed: bool) -> Cell {
        Cell::of(|dimension| {
            match dimension {
                Dimension::Jdk => return self.jdk.version.to_string(),
                Dimension::Collector => self.args.subject.gc.as_deref().unwrap_or("default"),
                Dimension::Flags => "default",
                Dimension::Walker => walker,
                Dimension::Mode if perturbed => "perturbed",
                Dimension::Mode => "bare",
                Dimension::Workload => &self.args.workload,
                Dimension::Antagonists => "none",
                Dimension::Clock => "timer",
                Dimension::Interval => self.mode.interval(),
            }
            .to_owned()
        })
    }

    /// What the launcher of stress runs is told: it knows JFR, and no other shipped profiler.
    pub(crate) fn launched(&self) -> Cell {
        match self.args.profiler {
            ProfilerName::Jfr => self.cell(JFR, false),
            ProfilerName::AsyncProfiler => self.cell(NO_WALKER, false),
        }
    }

    /// Runs the program with so many perturbed calls at each signal.
    pub(crate) fn run(&self, folder: PathBuf, perturb: u32) -> Result<Ran, Failure> {
        std::fs::create_dir_all(&folder).map_err(|error| {
            Failure::environment(format_args!("cannot make {}: {error}", folder.display()))
        })?;
        let seed = u64::from(self.args.subject.seed);
        let launched = self.launched();
        let mut program = self
            .workloads
            .program(&launched, self.args.time, seed)
            .map_err(Failure::environment)?;
        program.options.push(self.agent(&folder, perturb));
        // Signals go on while a crash log is written, which may take for ever then.
        program.options.push("-XX:ErrorLogTimeout=20".to_owned());
        let words = launch::java(
            &launched,
            self.jdk,
            self.profile,
            &self.interposer,
            &program,
            &folder,
            seed,
        )
        .map_err(Failure::environment)?;
        let (java, arguments) = words
            .split_first()
            .ok_or_else(|| Failure::environment("no java"))?;
        let mut command = walkfuzz_record::machine::command(java);
        // What a JVM leaves when it dies (JFR's emergency dump) goes with the run.
        command
            .args(arguments)
            .current_dir(&folder)
            .env_remove("JAVA_TOOL_OPTIONS");
        let limits = &self.profile.limits;
        let output = folder.join("output.txt");
        let known_as = self.cell(self.args.profiler.name(), perturb != 0);
        let mark = walkfuzz_stress::mark::mark(&known_as.id(), std::process::id());
        let started = Timestamp::now();
        let finished = process::run(
            command,
            &mark,
            limits,
            program.tells,
            &output,
            interrupt::seen,
        )
        .map_err(|error| Failure::environment(format_args!("cannot run {java}: {error}")))?;
        if interrupt::seen() {
            return Err(Failure {
                code: INTERRUPTED,
                message: "interrupted".to_owned(),
            });
        }
        let jvm = JvmFacts {
            version: known_as.jdk.clone(),
            vendor: self.jdk.implementor.clone().unwrap_or_default(),
            build_id: self.jdk.identity.clone(),
            collector: known_as.collector.clone(),
            options: Vec::new(),
        };
        let known = Known {
            cell: &known_as,
            jvm: &jvm,
            started,
            tells: program.tells,
            asked: launch::asked(&launched),
            ceiling: None,
            minimum: Minimum {
                walks: ENOUGH,
                frames: 0.0,
            },
            command: &self.args.again(self.jdk),
            issues: KnownIssues::built_in(),
            recorded: None,
        };
        let result = assess(&known, &folder, &finished);
        let record = folder.join(format!("record-{}.map", finished.pid));
        // A JVM that did not begin leaves none.
        let totals = RecordReader::open(&record).map(|record| Totals::of([&record]));
        let said = std::fs::read(&output).unwrap_or_default();
        Ok(Ran {
            result,
            totals: totals.unwrap_or_default(),
            complaint: complaint(&String::from_utf8_lossy(&said)),
            folder,
        })
    }

    /// What the flight recording of a run holds.
    pub(crate) fn recorded(&self, folder: &Path) -> Option<Recorded> {
        let reader = self.workloads.reader();
        let (numbers, _) =
            run::read_recordings(&reader, folder, &self.profile.limits, &interrupt::seen)?;
        let lost = numbers.sampling.lost;
        Some(Recorded {
            samples: numbers.untouched.walks.saturating_sub(lost),
            frames: numbers.untouched.frames,
            biased: numbers.sampling.biased,
            failed: numbers
                .codes
                .iter()
                .find(|row| row.code == FAILED)
                .map_or(0, |row| row.untouched),
            repeated: numbers.sampling.repeated,
            lost,
        })
    }

    fn agent(&self, folder: &Path, perturb: u32) -> String {
        let path = |path: &Path| escaped(&path.display().to_string());
        let library = self
            .library
            .as_deref()
            .map_or_else(|| "jfr".to_owned(), path);
        let what = match &self.args.queue {
            Some(edits) if perturb != 0 => format!("perturb=0,queue={}", escaped(edits)),
            _ => format!("perturb={perturb}"),
        };
        let mut text = format!(
            "-agentpath:{}=record={}/record-%p.map,{what},seed={},profiler={library}",
            self.interposer.display(),
            path(folder),
            self.args.subject.seed,
        );
        if self.library.is_some() {
            let told = self.mode.for_async_profiler(&folder.join("stacks.txt"));
            text = format!("{text},options={told}");
        }
        text
    }
}

impl Ran {
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.totals.counter(counter)
    }

    /// Untouched calls that came back and had asked AsyncGetCallTrace: their outcome is its answer.
    pub(crate) fn asked_agct(&self) -> u64 {
        let outcomes = self.totals.outcomes(Some(false));
        let ended = outcomes.faults()
            + outcomes.hangs()
            + outcomes.codes().get(&RETURNED).copied().unwrap_or(0);
        outcomes.walks().saturating_sub(ended)
    }

    /// Untouched calls of threads in Java that came back: without them nothing was tried.
    pub(crate) fn proves_something(&self) -> bool {
        let succeeded = self.counter(Counter::ControlsSucceeded);
        succeeded.saturating_sub(self.counter(Counter::OutsideJava)) >= ENOUGH
    }
}

/// What a profiler says when it does not begin.
fn complaint(said: &str) -> Option<String> {
    let errors = ["[ERROR] ", "walkfuzz-interposer: "];
    said.lines().find_map(|line| {
        let words = errors.iter().find_map(|begin| line.strip_prefix(begin))?;
        Some(words.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn the_first_complaint_counts() {
        let said = "x\n[ERROR] No events\nwalkfuzz-interposer: the profiler never\n";
        assert_eq!(complaint(said).as_deref(), Some("No events"));
        assert_eq!(complaint("[INFO] fine\n"), None);
    }
}
