//! What a run amounts to: records and findings folded into numbers, each with its denominator.
//!
//! Contract: pure. Rendering is `render`'s; what is printed and what is exported as JSON are the same [`Summary`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::codes::{Code, Generation, code_name};
use crate::facts::{JvmFacts, MachineFacts, ProcessEnd, RunFacts};
use crate::finding::{Finding, FindingVerdict, SCHEMA, WitnessCount};
use crate::fold::Folded;
use crate::interval::{Interval, KOfN};
use crate::lane::Counter;
use crate::outcome::ProcessOutcome;
use crate::recorder::WalkerInfo;
use crate::totals::Totals;

/// Below this share of controls that succeed, nothing can be said about the walker.
pub const LEAST_CONTROL_SHARE: f64 = 0.5;

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
    fn new(k: u64, of: u64) -> Self {
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
    fn of(histogram: &Histogram<u64>) -> Self {
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
    /// [`Finding::id`].
    pub id: String,
    /// [`Finding::title`].
    pub title: String,
    /// [`Finding::verdict`].
    pub verdict: FindingVerdict,
    /// [`Finding::tier`].
    pub tier: String,
    /// [`Finding::witness`].
    pub witness: WitnessCount,
    /// [`Finding::count`], all processes together.
    pub count: u64,
    /// [`Finding::tainted`].
    pub tainted: bool,
    /// Seconds from the run's start to its first sighting.
    pub after_seconds: f64,
    /// The first of [`Finding::commands`].
    pub command: Option<String>,
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
    /// [`SCHEMA`].
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
    /// Outcomes, the most frequent first; `untouched` adds up to `untouched_walks`, `perturbed` to `perturbed_walks`.
    pub outcomes: Vec<OutcomeRow>,
    /// How many findings are bugs.
    pub bugs: u64,
    /// How many are not.
    pub robustness: u64,
    /// All findings in short: bugs first, then by tier and count.
    pub findings: Vec<FindingRow>,
    /// What became of the JVM processes.
    pub processes: Vec<(ProcessOutcome, u64)>,
    /// What is missing.
    pub evidence: EvidenceCounts,
    /// The one command to paste.
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

impl Summary {
    /// Of a run.
    #[must_use]
    pub fn of(evidence: Evidence<'_>) -> Self {
        let Evidence {
            facts,
            totals,
            findings,
            processes,
            ..
        } = evidence;
        let untouched = totals.outcomes(Some(false));
        let perturbed = totals.outcomes(Some(true));
        let both = totals.outcomes(None);
        let seconds = seconds_between(facts.started, end(evidence));
        let walks = both.walks();
        let controls = Share::new(
            totals.counter(Counter::ControlsSucceeded),
            totals.counter(Counter::ControlsTried),
        );
        let rows: Vec<_> = findings
            .findings
            .iter()
            .map(|finding| row(finding, facts.started))
            .collect();
        let count = |verdict| findings.of(verdict).count() as u64;
        let (bugs, robustness) = (
            count(FindingVerdict::Bug),
            count(FindingVerdict::Robustness),
        );
        let processes = count_processes(processes);
        let (verdict, reason) = judge(walks, controls, &rows, &processes);
        let command = rows.iter().find_map(|row| row.command.clone());
        Self {
            schema: SCHEMA,
            driver: facts.driver.clone(),
            walkers: facts.walkers.clone(),
            jvm: facts.jvm.clone(),
            machine: facts.machine.clone(),
            verdict,
            reason,
            seconds,
            finished: facts.finished.is_some(),
            walks,
            walks_per_second: (seconds > 0.0).then(|| walks as f64 / seconds),
            untouched_walks: untouched.walks(),
            perturbed_walks: perturbed.walks(),
            controls,
            untouched_faults: Share::new(untouched.faults(), untouched.walks()),
            perturbed_faults: Share::new(perturbed.faults(), perturbed.walks()),
            events: events(totals),
            engine: engine(totals),
            thread_seconds: totals.thread_seconds,
            walker_seconds: totals.walker_seconds,
            depth_frames: Quantiles::of(&both.depth_histogram()),
            latency_ns: Quantiles::of(&totals.latency()),
            outcomes: outcomes(totals),
            bugs,
            robustness,
            findings: rows,
            processes,
            evidence: EvidenceCounts {
                records: totals.records,
                damaged_records: totals.damaged,
                unreadable_records: evidence.unreadable_records,
                damaged_lines: findings.damaged_lines,
            },
            command: command.unwrap_or_else(|| format!("walkfuzz report {}", evidence.folder)),
        }
    }
}

/// Unknown beats pass, findings in untouched walks beat unknown; what perturbed walks found in a run that walked badly proves nothing.
fn judge(
    walks: u64,
    controls: Share,
    findings: &[FindingRow],
    processes: &[(ProcessOutcome, u64)],
) -> (Verdict, String) {
    let natural = findings.iter().any(|f| f.tier == "T0" && !f.tainted);
    let doubt = doubt(walks, controls);
    if let Some(doubt) = doubt.filter(|_| !natural) {
        return (Verdict::Unknown, doubt);
    }
    if !findings.is_empty() {
        let bugs = findings
            .iter()
            .filter(|f| f.verdict == FindingVerdict::Bug)
            .count();
        let robustness = findings.len() - bugs;
        let plural = if bugs == 1 { "" } else { "s" };
        return (
            Verdict::Findings,
            format!("{bugs} bug{plural}, {robustness} of robustness"),
        );
    }
    let disorderly = processes
        .iter()
        .filter(|(outcome, _)| !outcome.is_orderly());
    match disorderly.map(|(_, count)| count).sum() {
        0_u64 => (Verdict::Pass, "nothing found".to_owned()),
        died => (
            Verdict::Unknown,
            format!("{died} JVM processes ended badly and no finding explains it"),
        ),
    }
}

fn doubt(walks: u64, controls: Share) -> Option<String> {
    if walks == 0 {
        return Some("vacuous: nothing was walked".to_owned());
    }
    match KOfN::new(controls.k, controls.of).share() {
        None => Some("vacuous: no control walk was made".to_owned()),
        Some(share) if share < LEAST_CONTROL_SHARE => Some(format!(
            "vacuous: {} of {} control walks succeeded",
            controls.k, controls.of
        )),
        Some(_) => None,
    }
}

/// The end of the run, or its last sign of life.
fn end(evidence: Evidence<'_>) -> Timestamp {
    let facts = evidence.facts;
    let signs = [
        evidence.totals.last_alive,
        evidence.processes.iter().map(|end| end.at).max(),
    ];
    let last = signs.into_iter().flatten().max().unwrap_or(facts.started);
    facts.finished.unwrap_or(last)
}

fn seconds_between(start: Timestamp, end: Timestamp) -> f64 {
    end.duration_since(start).as_secs_f64().max(0.0)
}

fn row(finding: &Finding, started: Timestamp) -> FindingRow {
    FindingRow {
        id: finding.id.clone(),
        title: finding.title.clone(),
        verdict: finding.verdict,
        tier: finding.tier.clone(),
        witness: finding.witness,
        count: finding.count,
        tainted: finding.tainted,
        after_seconds: seconds_between(started, finding.first_seen),
        command: finding.commands.first().cloned(),
    }
}

fn count_processes(processes: &[ProcessEnd]) -> Vec<(ProcessOutcome, u64)> {
    let mut counts: Vec<(ProcessOutcome, u64)> = Vec::new();
    for end in processes {
        match counts
            .iter_mut()
            .find(|(outcome, _)| *outcome == end.outcome)
        {
            Some((_, count)) => *count += 1,
            None => counts.push((end.outcome, 1)),
        }
    }
    counts
}

fn events(totals: &Totals) -> EventCounts {
    EventCounts {
        near_misses: totals.counter(Counter::NearMisses),
        recoveries: totals.counter(Counter::Recoveries),
        hangs: totals.counter(Counter::Hangs),
        drops: totals.counter(Counter::Drops),
        stale_hits: totals.counter(Counter::StaleHits),
        unresolved_values: totals.counter(Counter::UnresolvedValues),
        abandoned: totals.counter(Counter::Abandoned),
    }
}

fn engine(totals: &Totals) -> EngineCounts {
    EngineCounts {
        inputs: totals.counter(Counter::Inputs),
        requested: totals.counter(Counter::Requested),
        samples: totals.counter(Counter::Samples),
        coalesced: totals.counter(Counter::Coalesced),
        outside_java: totals.counter(Counter::OutsideJava),
        parks: totals.counter(Counter::Parks),
        steps: totals.counter(Counter::Steps),
    }
}

fn outcomes(totals: &Totals) -> Vec<OutcomeRow> {
    let mut codes: BTreeMap<(Generation, Code), [u64; 2]> = BTreeMap::new();
    for (place, perturbed) in [false, true].into_iter().enumerate() {
        for (key, count) in totals.codes(perturbed) {
            if let Some(slot) = codes.entry(key).or_default().get_mut(place) {
                *slot = count;
            }
        }
    }
    let coded = codes
        .into_iter()
        .map(|((generation, code), [untouched, perturbed])| OutcomeRow {
            generation: Some(generation),
            code: Some(code.0),
            name: code_name(generation, code).to_owned(),
            untouched,
            perturbed,
        });
    let (natural, edited) = (totals.outcomes(Some(false)), totals.outcomes(Some(true)));
    let shared = [
        ("frames", natural.frames(), edited.frames()),
        ("other code", natural.other_codes(), edited.other_codes()),
        ("fault", natural.faults(), edited.faults()),
        ("hang", natural.hangs(), edited.hangs()),
        (
            "wrong frames",
            natural.wrong_frames(),
            edited.wrong_frames(),
        ),
        ("breach", natural.breaches(), edited.breaches()),
    ];
    let shared = shared.map(|(name, untouched, perturbed)| OutcomeRow {
        generation: None,
        code: None,
        name: name.to_owned(),
        untouched,
        perturbed,
    });
    let sum = |row: &OutcomeRow| row.untouched.saturating_add(row.perturbed);
    let mut rows: Vec<_> = shared
        .into_iter()
        .chain(coded)
        .filter(|row| sum(row) != 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(sum(row)));
    rows
}
