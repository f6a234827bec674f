//! What a run amounts to, in numbers with their denominators.
//!
//! Contract: plain values. `summarise` makes them, `render` prints them; JSON is the same [`Summary`].

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::codes::Generation;
use crate::facts::{JvmFacts, MachineFacts, ProcessEnd, RunFacts};
use crate::finding::{FindingVerdict, KnownMatch, WitnessCount};
use crate::fold::Folded;
use crate::interval::{Interval, KOfN};
use crate::outcome::ProcessOutcome;
use crate::recorder::WalkerInfo;
use crate::totals::Totals;

/// What a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Walked enough, found nothing.
    Pass,
    /// There are findings.
    Findings,
    /// Nothing can be said: see the reason.
    Unknown,
}

/// A count with its denominator and the 95 % interval of the share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// How often.
    pub k: u64,
    /// Of how many.
    pub of: u64,
    /// 95 % interval of `k / of`.
    pub interval: Interval,
}

impl Share {
    /// `k` of `of`, with its interval.
    #[must_use]
    pub fn new(k: u64, of: u64) -> Self {
        let interval = KOfN::new(k, of).interval();
        Self { k, of, interval }
    }
}

/// Quantiles of a distribution, with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest value, to the histogram's resolution.
    pub max: u64,
    /// How many values.
    pub of: u64,
}

impl Quantiles {
    /// Of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
            of: histogram.len(),
        }
    }
}

/// A row of the table of outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeRow {
    /// Whose code it is; absent for outcomes that every walker shares.
    pub generation: Option<Generation>,
    /// The code; absent for everything else than an error code.
    pub code: Option<i32>,
    /// `frames`, the code's name, `fault`, `hang`, `wrong frames`, `breach`, `other code`.
    pub name: String,
    /// Of the untouched walks.
    pub untouched: u64,
    /// Of the perturbed walks.
    pub perturbed: u64,
}

/// A finding in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingRow {
    /// [`crate::Finding::id`].
    pub id: String,
    /// [`crate::Finding::title`].
    pub title: String,
    /// [`crate::Finding::verdict`].
    pub verdict: FindingVerdict,
    /// [`crate::Finding::tier`].
    pub tier: String,
    /// [`crate::Finding::witness`].
    pub witness: WitnessCount,
    /// [`crate::Finding::count`], all processes together.
    pub count: u64,
    /// [`crate::Finding::tainted`].
    pub tainted: bool,
    /// Seconds from the run's start to its first sighting.
    pub after_seconds: f64,
    /// The first of [`crate::Finding::commands`].
    pub command: Option<String>,
    /// [`crate::Finding::known`].
    #[serde(default)]
    pub known: Vec<KnownMatch>,
}

/// What the walks came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineCounts {
    /// Inputs begun.
    pub inputs: u64,
    /// Samples asked for; 0 where an engine does not ask by rate.
    pub requested: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Samples that the kernel merged.
    pub coalesced: u64,
    /// Samples of threads outside Java.
    pub outside_java: u64,
    /// Parks.
    pub parks: u64,
    /// Single steps.
    pub steps: u64,
}

/// What happened beside outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventCounts {
    /// Faults at SafeFetch, resumed by the JVM.
    pub near_misses: u64,
    /// Walks that the guard ended.
    pub recoveries: u64,
    /// Walks that an alarm ended.
    pub hangs: u64,
    /// Samples or walks given up before they began.
    pub drops: u64,
    /// Values from a stale landscape.
    pub stale_hits: u64,
    /// Values that nothing resolved to.
    pub unresolved_values: u64,
    /// Walks still open when the next one began.
    pub abandoned: u64,
    /// Walks that wrote to the stack of the walked thread.
    #[serde(default)]
    pub stack_writes: u64,
    /// Basic blocks of the walk code that walks reached, in the process that reached most.
    #[serde(default)]
    pub blocks_seen: u64,
    /// Basic blocks of the walk code that were watched; 0: none were.
    #[serde(default)]
    pub blocks_planted: u64,
}

/// What an oracle said of the walks' frames; all zero without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OracleCounts {
    /// Walks in which both gave frames: the sum of the following.
    pub compared: u64,
    /// The same frames.
    pub agreed: u64,
    /// The same as far as the shorter walk went.
    pub prefixes: u64,
    /// Other frames, at contexts of which nobody can say what is right.
    pub unproven: u64,
    /// Other frames, where the oracle is wrong in a known way.
    #[serde(default)]
    pub known: u64,
    /// Wrong frames.
    pub wrong: u64,
}

/// What is missing from the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EvidenceCounts {
    /// Records that were read.
    pub records: u64,
    /// Of these, how many were damaged.
    pub damaged_records: u64,
    /// Records that could not be read at all.
    pub unreadable_records: u64,
    /// Lines of `findings.jsonl` that could not be read.
    pub damaged_lines: u64,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// [`RunFacts::driver`].
    pub driver: String,
    /// The walkers.
    pub walkers: Vec<WalkerInfo>,
    /// The JVM.
    pub jvm: JvmFacts,
    /// The machine.
    pub machine: MachineFacts,
    /// What the run says.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// From the start to the end, or to the last sign of life.
    pub seconds: f64,
    /// Whether the run ended in good order.
    pub finished: bool,
    /// All walks.
    pub walks: u64,
    /// Walks a second; absent if no time passed.
    pub walks_per_second: Option<f64>,
    /// Walks of untouched contexts.
    pub untouched_walks: u64,
    /// Walks of perturbed ones.
    pub perturbed_walks: u64,
    /// Controls that succeeded.
    pub controls: Share,
    /// Faults of untouched walks: what a verdict on the walker rests on.
    pub untouched_faults: Share,
    /// Faults of perturbed walks.
    pub perturbed_faults: Share,
    /// What happened beside outcomes.
    pub events: EventCounts,
    /// What an oracle said.
    #[serde(default)]
    pub oracle: OracleCounts,
    /// What the walks came from.
    pub engine: EngineCounts,
    /// Seconds of the fuzzing or sampled threads; 0 if nobody measured.
    pub thread_seconds: f64,
    /// Of these, seconds in the walker.
    pub walker_seconds: f64,
    /// Frames per walk that gave frames.
    pub depth_frames: Quantiles,
    /// Nanoseconds per walk that gave frames or a code.
    pub latency_ns: Quantiles,
    /// Outcomes, `frames` first, then the most frequent; `untouched` adds up to `untouched_walks`, `perturbed` to `perturbed_walks`.
    pub outcomes: Vec<OutcomeRow>,
    /// How many findings are bugs.
    pub bugs: u64,
    /// How many are not.
    pub robustness: u64,
    /// How many came of edited memory: neither of the above.
    #[serde(default)]
    pub synthetic: u64,
    /// All findings in short: bugs first, then by tier and count.
    pub findings: Vec<FindingRow>,
    /// What became of the JVM processes.
    pub processes: Vec<(ProcessOutcome, u64)>,
    /// What is missing.
    pub evidence: EvidenceCounts,
    /// The one command to paste: the first finding's, else a report.
    pub command: String,
}

/// What a summary is made from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// `run.json`.
    pub facts: &'a RunFacts,
    /// All records.
    pub totals: &'a Totals,
    /// All findings.
    pub findings: &'a Folded,
    /// All ends of processes.
    pub processes: &'a [ProcessEnd],
    /// Records that could not be read.
    pub unreadable_records: u64,
    /// The run folder as the user would type it.
    pub folder: &'a str,
}
