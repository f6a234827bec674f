//! What came of a cell: one line of `cells.jsonl`.
//!
//! Contract: plain serialisable values, documented in docs/stress-schema.md; a test compares.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use walkfuzz_record::codes::code_name;
use walkfuzz_record::summary::Quantiles;
use walkfuzz_record::{
    Code, Counter, Generation, JvmFacts, KnownMatch, ProcessOutcome, Tally, Totals,
};

use crate::cell::Cell;

/// Version of the schema; a reader refuses others.
pub const SCHEMA: u32 = 1;

/// What a cell says about its walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Something happened that must not.
    Fail,
    /// It did, and is a known issue of this JDK.
    Known,
    /// Nothing can be said; the reason says why.
    Unknown,
    /// Walked enough, and nothing happened.
    Pass,
    /// Contexts were perturbed: what happens says nothing about production.
    Outside,
}

impl Verdict {
    /// Every verdict, the gravest first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Fail,
        Verdict::Unknown,
        Verdict::Known,
        Verdict::Pass,
        Verdict::Outside,
    ];

    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Fail => "fail",
            Verdict::Known => "known",
            Verdict::Unknown => "unknown",
            Verdict::Pass => "pass",
            Verdict::Outside => "outside",
        }
    }
}

/// Walks by what came of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WalkCounts {
    /// All of them.
    pub walks: u64,
    /// Frames.
    pub frames: u64,
    /// A fault from which the guard recovered.
    pub faults: u64,
    /// Ended by an alarm.
    pub hangs: u64,
    /// Frames that another witness contradicts.
    pub wrong_frames: u64,
    /// A broken contract: canary, depth, a write to the stack.
    pub breaches: u64,
}

impl WalkCounts {
    fn of(tally: &Tally) -> Self {
        Self {
            walks: tally.walks(),
            frames: tally.frames(),
            faults: tally.faults(),
            hangs: tally.hangs(),
            wrong_frames: tally.wrong_frames(),
            breaches: tally.breaches(),
        }
    }

    /// What no walk of an untouched context may do.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.faults + self.hangs + self.wrong_frames + self.breaches
    }
}

/// How often a code came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CodeCount {
    /// Whose code it is.
    pub generation: Generation,
    /// The code.
    pub code: i32,
    /// Its name in that generation.
    pub name: String,
    /// Untouched walks.
    pub untouched: u64,
    /// Perturbed walks.
    pub perturbed: u64,
}

/// Samples: asked for and got.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sampling {
    /// What the interval asks for in the time that the threads ran.
    pub requested: u64,
    /// Samples that came.
    pub delivered: u64,
    /// Samples that the kernel merged into another one.
    pub coalesced: u64,
    /// Samples that no lane had room for.
    pub dropped: u64,
    /// Samples of threads outside Java.
    pub outside_java: u64,
    /// Samples a second that the clock can give one thread here; absent if nothing limits it.
    pub ceiling: Option<f64>,
    /// Seconds that the sampled threads ran.
    pub thread_seconds: f64,
    /// Of these, seconds in the walker.
    pub walker_seconds: f64,
    /// Faults at SafeFetch, resumed by the JVM.
    pub near_misses: u64,
    /// Of JFR's samples with a stack, those that are from another place than where the thread was.
    #[serde(default)]
    pub biased: u64,
    /// Of JFR's samples, those whose thread has one of the same kind from the same nanosecond.
    #[serde(default)]
    pub repeated: u64,
    /// Of JFR's samples, those that never became events.
    #[serde(default)]
    pub lost: u64,
}

/// What the sampled program did.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WorkloadEnd {
    /// Rounds of work; absent if the program does not say.
    pub rounds: Option<u64>,
    /// Seconds that the rounds took; absent if the program does not say.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Results that it checked.
    pub checks: Option<u64>,
    /// Whether it said that it is done.
    pub done: bool,
    /// A result that was wrong.
    pub wrong: Option<String>,
    /// What each antagonist did.
    #[serde(default)]
    pub antagonists: Vec<(String, u64)>,
}

impl WorkloadEnd {
    /// Whether it said that it did anything.
    #[must_use]
    pub fn began(&self) -> bool {
        self.rounds.is_some() || self.done
    }

    /// The antagonists that did nothing.
    pub fn idle(&self) -> impl Iterator<Item = &str> {
        let idle = self.antagonists.iter().filter(|(_, did)| *did == 0);
        idle.map(|(name, _)| name.as_str())
    }
}

/// A fault, a crash or another thing that must not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellFinding {
    /// What makes two of them the same.
    pub signature: String,
    /// The signature as a sentence.
    pub title: String,
    /// How often.
    pub count: u64,
    /// Whether the context was perturbed.
    pub perturbed: bool,
    /// Known issues that look like it.
    pub known: Vec<KnownMatch>,
    /// The file that shows it: a crash log, a capsule; relative to the cell's folder.
    pub evidence: Option<String>,
    /// What the walk that crashed began from; of a perturbed context the registers that were changed, else the three that a walk begins with.
    #[serde(default)]
    pub registers: Vec<RegisterPair>,
}

/// A register of a walk that crashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RegisterPair {
    /// Its name.
    pub name: String,
    /// In the context as the kernel delivered it.
    pub before: String,
    /// As the walker got it.
    pub after: String,
}

/// How the JVM ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProcessResult {
    /// What became of it.
    pub outcome: ProcessOutcome,
    /// In words: `exited with 0`, `killed by SIGSEGV`.
    pub words: String,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Signal, also one that only the crash log names.
    pub signal: Option<String>,
    /// File and line of a failed check, `forte.cpp:352`.
    pub internal_error: Option<String>,
    /// The crash log, relative to the cell's folder.
    pub crash_log: Option<String>,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// [`Cell::id`], the name of its folder under `cells/`.
    pub id: String,
    /// The cell.
    pub cell: Cell,
    /// The JVM.
    pub jvm: JvmFacts,
    /// When it began.
    pub started: Timestamp,
    /// How long it took, start and end of the JVM included.
    pub seconds: f64,
    /// What is said about the walker.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// What a reader should know: a clock that cannot do what was asked, a cut-off record.
    pub warnings: Vec<String>,
    /// Walks of contexts as the kernel delivered them.
    pub untouched: WalkCounts,
    /// Walks of perturbed ones.
    pub perturbed: WalkCounts,
    /// Error codes, the most frequent first.
    pub codes: Vec<CodeCount>,
    /// Frames per walk that gave frames.
    pub depth: Quantiles,
    /// Nanoseconds per walk that gave frames or a code.
    pub latency: Quantiles,
    /// Depths and how many walks had them, in about a dozen steps: (up to, walks).
    pub depth_curve: Vec<(u64, u64)>,
    /// Nanoseconds and how many walks took them, by powers of two: (up to, walks).
    pub latency_curve: Vec<(u64, u64)>,
    /// Samples.
    pub sampling: Sampling,
    /// The sampled program.
    pub workload: WorkloadEnd,
    /// The process.
    pub process: ProcessResult,
    /// What happened that must not.
    pub findings: Vec<CellFinding>,
    /// The command that runs this cell alone.
    pub command: String,
}

/// The numbers that a cell's records hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// See [`CellResult::untouched`].
    pub untouched: WalkCounts,
    /// See [`CellResult::perturbed`].
    pub perturbed: WalkCounts,
    /// See [`CellResult::codes`].
    pub codes: Vec<CodeCount>,
    /// See [`CellResult::depth`].
    pub depth: Quantiles,
    /// See [`CellResult::latency`].
    pub latency: Quantiles,
    /// See [`CellResult::depth_curve`].
    pub depth_curve: Vec<(u64, u64)>,
    /// See [`CellResult::latency_curve`].
    pub latency_curve: Vec<(u64, u64)>,
    /// See [`CellResult::sampling`].
    pub sampling: Sampling,
}

impl Numbers {
    /// From the sum of the records.
    #[must_use]
    pub fn of(totals: &Totals) -> Self {
        let outcomes = totals.outcomes(None);
        let depth = outcomes.depth_histogram();
        let latency = totals.latency();
        let mut codes: Vec<CodeCount> = Vec::new();
        for perturbed in [false, true] {
            for ((generation, code), count) in totals.codes(perturbed) {
                let row = row(&mut codes, generation, code);
                let place = if perturbed {
                    &mut row.perturbed
                } else {
                    &mut row.untouched
                };
                *place += count;
            }
        }
        codes.sort_by_key(|row| std::cmp::Reverse((row.untouched, row.perturbed)));
        let counter = |counter| totals.counter(counter);
        Self {
            untouched: WalkCounts::of(&totals.outcomes(Some(false))),
            perturbed: WalkCounts::of(&totals.outcomes(Some(true))),
            codes,
            depth: Quantiles::of(&depth),
            latency: Quantiles::of(&latency),
            depth_curve: curve(&depth),
            latency_curve: curve(&latency),
            sampling: Sampling {
                requested: counter(Counter::Requested),
                delivered: counter(Counter::Samples),
                coalesced: counter(Counter::Coalesced),
                dropped: counter(Counter::Drops),
                outside_java: counter(Counter::OutsideJava),
                ceiling: None,
                thread_seconds: totals.thread_seconds,
                walker_seconds: totals.walker_seconds,
                near_misses: counter(Counter::NearMisses),
                biased: 0,
                repeated: 0,
                lost: 0,
            },
        }
    }
}

impl Numbers {
    /// Gives the codes of a library's walker the names that it has for them.
    pub(crate) fn name_codes(&mut self, names: &BTreeMap<i32, String>) {
        for row in &mut self.codes {
            if let Some(name) = names.get(&row.code)
                && row.generation == Generation::Plugin
            {
                row.name.clone_from(name);
            }
        }
    }
}

fn row(codes: &mut Vec<CodeCount>, generation: Generation, code: Code) -> &mut CodeCount {
    let same = |row: &CodeCount| row.generation == generation && row.code == code.0;
    let at = codes.iter().position(same).unwrap_or_else(|| {
        codes.push(CodeCount {
            generation,
            code: code.0,
            name: code_name(generation, code).to_owned(),
            untouched: 0,
            perturbed: 0,
        });
        codes.len() - 1
    });
    &mut codes[at]
}

/// By powers of two, without empty ends.
fn curve(histogram: &hdrhistogram::Histogram<u64>) -> Vec<(u64, u64)> {
    let mut steps = Vec::new();
    let (mut low, mut left) = (0, histogram.len());
    for power in 0..63 {
        if left == 0 {
            break;
        }
        let high = 1_u64 << power;
        let count = histogram.count_between(low, high);
        if count > 0 || !steps.is_empty() {
            steps.push((high, count));
        }
        left = left.saturating_sub(count);
        low = high + 1;
    }
    steps
}
