//! What a finding's numbers and names mean, in words: the same wherever a finding is shown.

use walkfuzz_context::Tier;
use walkfuzz_record::finding::{LiveTry, Portability};
use walkfuzz_record::{CellState, Finding, KOfN, KnownMatch};

/// What a tier means, in words.
pub(crate) fn meaning(tier: &str) -> &'static str {
    match Tier::ALL.iter().find(|known| known.name() == tier) {
        Some(Tier::T0) => "untouched: the kernel delivered this context",
        Some(Tier::T1) => "a state that the code at this pc really passes through",
        Some(Tier::T2) => "an arbitrary fp where fp is no frame pointer",
        Some(Tier::T3) => "pc, sp and fp from different moments of the thread",
        Some(Tier::T4) => "not shown to be a state that a thread can be in",
        None => "unknown",
    }
}

/// An issue that a finding looks like.
pub(crate) fn looks_like(known: &KnownMatch) -> String {
    let versions = match known.versions.as_str() {
        "affected" => "this version is affected",
        "not-affected" => "this version is not listed as affected",
        _ => "its versions are not known",
    };
    format!("looks like {}: {} ({versions})", known.id, known.title)
}

/// How often its like was observed.
pub(crate) fn witness(finding: &Finding) -> String {
    let witness = finding.witness;
    match (finding.tier.as_str(), witness.observed) {
        ("T0", _) => "the context itself is one".to_owned(),
        (_, 0) if witness.of == 0 => "not counted: no natural context is on record".to_owned(),
        (_, 0) => format!("never observed among {} natural contexts", witness.of),
        (_, observed) => format!(
            "{observed} of {} natural contexts were in its class",
            witness.of
        ),
    }
}

/// What came of it in a running JVM.
pub(crate) fn live(live: &LiveTry) -> String {
    let engine = &live.engine;
    let reason = live.reason.as_deref();
    let Portability { k, of, interval } = live.again;
    let mut text = match (live.state, k) {
        (CellState::Tried, 0) => format!(
            "not seen live in {of} moments (under {:.2} %, engine {engine})",
            100.0 * interval.high
        ),
        (CellState::Tried, _) => format!(
            "happened live at {k} of {of} moments ({:.0} to {:.0} %, engine {engine})",
            100.0 * interval.low,
            100.0 * interval.high
        ),
        (CellState::NotMet, _) => format!(
            "not tried live: none of {} moments had its kind of code (engine {engine})",
            live.others
        ),
        (CellState::CouldNotRun | CellState::NotRun, _) => {
            format!("not tried live: {}", reason.unwrap_or("unknown"))
        }
    };
    if live.deaths > 0 {
        text.push_str(&format!(", {} JVMs died of it", live.deaths));
    }
    text
}

/// How surely it happens again.
pub(crate) fn reliability(finding: &Finding) -> String {
    let frozen = finding
        .reliability
        .frozen
        .map(|KOfN { k, of }| format!("{k} of {of} at the same moment"));
    let elsewhere = finding.reliability.portability.map(|portability| {
        let (low, high) = (
            100.0 * portability.interval.low,
            100.0 * portability.interval.high,
        );
        format!(
            "{} of {} at other moments ({low:.0} to {high:.0} %)",
            portability.k, portability.of
        )
    });
    let live = finding.live.iter().map(live);
    let parts: Vec<String> = [frozen, elsewhere]
        .into_iter()
        .flatten()
        .chain(live)
        .collect();
    if parts.is_empty() {
        "not examined".to_owned()
    } else {
        parts.join(", ")
    }
}
