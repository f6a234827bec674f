//! What a user can set from the environment. Flags would not do: libFuzzer's command line belongs to its users.

use std::path::PathBuf;
use std::time::Duration;

use walkfuzz_walkers::PluginPath;

use crate::chosen::{NO_ORACLE, WalkerChoice};
use crate::error::HarnessError;

/// Settings of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where run folders are made.
    pub runs: PathBuf,
    /// Which engine holds the threads.
    pub engine: EngineKind,
    /// Abort at the first finding, whatever libFuzzer's arguments say.
    pub strict: bool,
    /// Whether a parent process restarts the JVM when it dies.
    pub supervise: bool,
    /// Recoveries after which the process is retired.
    pub retire_after: u64,
    /// A walk that takes longer has hung.
    pub hang: Duration,
    /// Seed of the workload.
    pub seed: u64,
    /// Workload threads that take turns.
    pub threads: usize,
    /// How long the workload warms up before the first input.
    pub warm_up: Duration,
    /// No feedback and no corpus: every input is generated afresh.
    pub blind: bool,
    /// Watch the basic blocks of the JVM's walk code.
    pub blocks: bool,
    /// Moments that a single file is tried at before it counts as not reproduced.
    pub attempts: u32,
    /// The code under test.
    pub walker: WalkerChoice,
    /// The walker that judges its frames.
    pub oracle: Option<WalkerChoice>,
    /// One bred batch of snapshots' walks in so many also edits memory; 0: none.
    pub memory_edits: u64,
}

/// The engines that a fuzzing session can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// A held thread serves many inputs.
    Live,
    /// A walk at each instruction.
    Step,
    /// A forked copy per input.
    Frozen,
}

impl EngineKind {
    /// What findings call the engine that walks snapshots, which a session with a JVM cannot have.
    pub const CAPSULE: &'static str = "capsule";

    /// As the environment and findings say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Live => "live",
            EngineKind::Step => "step",
            EngineKind::Frozen => "frozen",
        }
    }
}

/// Every variable that is read, with its default and meaning, as documentation shows it.
pub const VARIABLES: [(&str, &str, &str); 17] = [
    (
        "WALKFUZZ_RUNS",
        "walkfuzz-runs",
        "folder that run folders are made in",
    ),
    ("WALKFUZZ_ENGINE", "live", "live, step or frozen"),
    (
        "WALKFUZZ_WALKER",
        "agct",
        "the code under test: agct (AsyncGetCallTrace), reference (walkfuzz's own walker), agct-remote-env, agct-remote-tid, agct-remote-running (AsyncGetCallTrace from another thread), request-stack-trace (where a JVM offers it), asgst-iterator-frame, asgst-minimal-frame (ASGST from sp, fp and pc), or the path of a library with a walker, with frame: before it for its walks from frames, or plugin-remote: or plugin-remote-running: for those from another thread",
    ),
    (
        "WALKFUZZ_ORACLE",
        "none",
        "a second walker that judges the frames of the first: none, agct, reference or the path of a library",
    ),
    (
        "WALKFUZZ_QUEUE",
        "own",
        "the queue of queue_elements: own (walkfuzz's, or the JVM's where it exports ASGST) or jfr (JFR's, JDK 25)",
    ),
    ("WALKFUZZ_STRICT", "0", "1: abort at the first finding"),
    (
        "WALKFUZZ_SUPERVISE",
        "1",
        "0: do not restart the JVM when it dies",
    ),
    (
        "WALKFUZZ_RETIRE_AFTER",
        "5000000",
        "recoveries after which the process is retired",
    ),
    (
        "WALKFUZZ_HANG_MS",
        "500",
        "a walk that takes longer has hung",
    ),
    ("WALKFUZZ_SEED", "1", "seed of the Java workload"),
    (
        "WALKFUZZ_THREADS",
        "4",
        "Java threads that take turns (1 to 16)",
    ),
    (
        "WALKFUZZ_WARM_UP_MS",
        "300",
        "how long the workload runs before the first input",
    ),
    (
        "WALKFUZZ_BLIND",
        "0",
        "1: generate every input afresh, without corpus and feedback",
    ),
    (
        "WALKFUZZ_BLOCKS",
        "0",
        "1: count which basic blocks of the JVM's walk code are reached, as feedback, too (x86_64 only; slower)",
    ),
    (
        "WALKFUZZ_ATTEMPTS",
        "400",
        "moments that a single file is tried at",
    ),
    (
        "WALKFUZZ_SNAPSHOTS",
        "walkfuzz-runs/snapshots",
        "folder of the snapshots that walk_capsule walks",
    ),
    (
        "WALKFUZZ_MEMORY_EDITS",
        "0",
        "walks of snapshots: one bred batch in so many also edits words of memory, a class of its own; 0: none",
    ),
];

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// A variable whose value means nothing, by name.
    pub fn from_environment() -> Result<Self, HarnessError> {
        let value = |name: &'static str| -> String {
            let default = VARIABLES
                .iter()
                .find(|(known, ..)| *known == name)
                .map_or("", |(_, default, _)| default);
            std::env::var(name)
                .ok()
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| default.to_owned())
        };
        let number = |name: &'static str,
                      allowed: std::ops::RangeInclusive<u64>|
         -> Result<u64, HarnessError> {
            let text = value(name);
            text.parse()
                .ok()
                .filter(|number| allowed.contains(number))
                .ok_or(HarnessError::Variable {
                    name,
                    value: text,
                    wanted: format!("a number from {} to {}", allowed.start(), allowed.end()),
                })
        };
        let engine = match value("WALKFUZZ_ENGINE").as_str() {
            "live" => EngineKind::Live,
            "step" => EngineKind::Step,
            "frozen" => EngineKind::Frozen,
            other => {
                return Err(HarnessError::Variable {
                    name: "WALKFUZZ_ENGINE",
                    value: other.to_owned(),
                    wanted: "live, step or frozen".to_owned(),
                });
            }
        };
        let walker = |name: &'static str, text: &str, wanted: String| {
            // What stands behind a path may be no pin, which has a sentence of its own.
            text.parse::<PluginPath>()?;
            WalkerChoice::from_name(text).ok_or(HarnessError::Variable {
                name,
                value: text.to_owned(),
                wanted,
            })
        };
        let names = WalkerChoice::names();
        let under_test = walker("WALKFUZZ_WALKER", &value("WALKFUZZ_WALKER"), names.clone())?;
        let oracle = match value("WALKFUZZ_ORACLE").as_str() {
            NO_ORACLE => None,
            name if WalkerChoice::from_name(name)
                .is_some_and(|named| named.is_same(under_test)) =>
            {
                return Err(HarnessError::Variable {
                    name: "WALKFUZZ_ORACLE",
                    value: name.to_owned(),
                    wanted: "another walker than the one under test".to_owned(),
                });
            }
            name => Some(walker(
                "WALKFUZZ_ORACLE",
                name,
                format!("none, {}", WalkerChoice::judges()),
            )?),
        };
        Ok(Self {
            runs: PathBuf::from(value("WALKFUZZ_RUNS")),
            engine,
            strict: number("WALKFUZZ_STRICT", 0..=1)? == 1,
            supervise: number("WALKFUZZ_SUPERVISE", 0..=1)? == 1,
            retire_after: number("WALKFUZZ_RETIRE_AFTER", 1..=u64::MAX)?,
            hang: Duration::from_millis(number("WALKFUZZ_HANG_MS", 10..=600_000)?),
            seed: number("WALKFUZZ_SEED", 0..=u64::MAX)?,
            threads: number("WALKFUZZ_THREADS", 1..=16)? as usize,
            warm_up: Duration::from_millis(number("WALKFUZZ_WARM_UP_MS", 0..=600_000)?),
            blind: number("WALKFUZZ_BLIND", 0..=1)? == 1,
            blocks: number("WALKFUZZ_BLOCKS", 0..=1)? == 1,
            attempts: number("WALKFUZZ_ATTEMPTS", 1..=1_000_000)? as u32,
            walker: under_test,
            oracle,
            memory_edits: number("WALKFUZZ_MEMORY_EDITS", 0..=1_000_000)?,
        })
    }
}
