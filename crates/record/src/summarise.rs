//! Folding a run's evidence into a [`Summary`].
//!
//! Contract: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::codes::{Code, Generation, code_name};
use crate::facts::ProcessEnd;
use crate::finding::{Finding, FindingVerdict, SCHEMA};
use crate::interval::KOfN;
use crate::lane::Counter;
use crate::outcome::ProcessOutcome;
use crate::summary::{
    EngineCounts, EventCounts, Evidence, EvidenceCounts, FindingRow, OracleCounts, OutcomeRow,
    Quantiles, Share, Summary, Verdict,
};
use crate::totals::Totals;

/// Below this share of controls that succeed, nothing can be said about the walker.
pub const LEAST_CONTROL_SHARE: f64 = 0.5;

/// The row that comes first: did the walker walk?
const FRAMES: &str = "frames";

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
        let (bugs, robustness, synthetic) = (
            count(FindingVerdict::Bug),
            count(FindingVerdict::Robustness),
            count(FindingVerdict::Synthetic),
        );
        let processes = count_processes(processes);
        let (verdict, reason) = judge(walks, controls, &rows, &processes);
        let first = findings.findings.iter();
        let command = first
            .filter_map(|finding| finding.commands.first().map(|command| (command, finding)))
            .map(|(command, finding)| shortened(command, finding, evidence.folder))
            .next();
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
            oracle: oracle(totals),
            engine: engine(totals),
            thread_seconds: totals.thread_seconds,
            walker_seconds: totals.walker_seconds,
            depth_frames: Quantiles::of(&both.depth_histogram()),
            latency_ns: Quantiles::of(&totals.latency()),
            outcomes: outcomes(totals, &facts.code_names),
            bugs,
            robustness,
            synthetic,
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
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (bugs, robustness) = (
        count(FindingVerdict::Bug),
        count(FindingVerdict::Robustness),
    );
    // What walks of edited memory did is no verdict on the walker.
    if bugs + robustness > 0 {
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

/// The command with its artifact as the user would type it: by the run folder's own name, and the first digits of the artifact's.
fn shortened(command: &str, finding: &Finding, folder: &str) -> String {
    const DIGITS: usize = 8;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    let Some(artifact) = &finding.input.artifact else {
        return command.to_owned();
    };
    let (Some((before, _)), Some((parent, name))) =
        (command.rsplit_once(' '), artifact.rsplit_once('/'))
    else {
        return command.to_owned();
    };
    // A word in quotes would end its pattern, too.
    match name.get(..DIGITS) {
        Some(digits) if command.ends_with(artifact.as_str()) && folder.chars().all(plain) => {
            format!("{before} {folder}/{parent}/{digits}*")
        }
        _ => command.to_owned(),
    }
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
        known: finding.known.clone(),
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
        stack_writes: totals.counter(Counter::StackWrites),
        blocks_seen: totals.counter(Counter::BlocksSeen),
        blocks_planted: totals.counter(Counter::BlocksPlanted),
    }
}

fn oracle(totals: &Totals) -> OracleCounts {
    let [compared, agreed, prefixes, unproven, known] = [
        Counter::OracleCompared,
        Counter::OracleAgreed,
        Counter::OraclePrefixes,
        Counter::OracleUnproven,
        Counter::OracleKnown,
    ]
    .map(|counter| totals.counter(counter));
    OracleCounts {
        compared,
        agreed,
        prefixes,
        unproven,
        known,
        wrong: [agreed, prefixes, unproven, known]
            .into_iter()
            .fold(compared, u64::saturating_sub),
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

/// `own` is what a plug-in calls its codes.
fn outcomes(totals: &Totals, own: &BTreeMap<i32, String>) -> Vec<OutcomeRow> {
    let mut codes: BTreeMap<(Generation, Code), [u64; 2]> = BTreeMap::new();
    for (place, perturbed) in [false, true].into_iter().enumerate() {
        for (key, count) in totals.codes(perturbed) {
            if let Some(slot) = codes.entry(key).or_default().get_mut(place) {
                *slot = count;
            }
        }
    }
    let name = |generation, code: Code| {
        let own = own
            .get(&code.0)
            .filter(|_| generation == Generation::Plugin);
        own.map_or_else(|| code_name(generation, code).to_owned(), String::clone)
    };
    let coded = codes
        .into_iter()
        .map(|((generation, code), [untouched, perturbed])| OutcomeRow {
            generation: Some(generation),
            code: Some(code.0),
            name: name(generation, code),
            untouched,
            perturbed,
        });
    let (natural, edited) = (totals.outcomes(Some(false)), totals.outcomes(Some(true)));
    let shared = [
        (FRAMES, natural.frames(), edited.frames()),
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
    rows.sort_by_key(|row| (row.name != FRAMES, std::cmp::Reverse(sum(row))));
    rows
}
