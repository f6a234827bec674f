//! How bad it is, and how surely it happens again.

use walkfuzz_context::Tier;
use walkfuzz_record::{Finding, FindingVerdict};

use super::{is_capsule_alone, none};
use crate::explain::page::{Block, Section};
use crate::finding_words::{meaning, reliability, witness};

pub(super) fn verdict(finding: &Finding) -> Section {
    let mut facts = vec![
        (
            "verdict",
            format!("{}: {}", finding.verdict.name(), reason(finding)),
        ),
        (
            "tier",
            format!("{}: {}", finding.tier, meaning(&finding.tier)),
        ),
        ("witness", witness(finding)),
        ("signature", finding.signature.clone()),
        ("id", finding.id.clone()),
        (
            "seen",
            if is_capsule_alone(finding) {
                "not counted: this page is made of a capsule".to_owned()
            } else {
                format!("{} times, first {}", finding.count, finding.first_seen)
            },
        ),
    ];
    if finding.tainted {
        facts.push((
            "tainted",
            "the process had recovered from a fault before; this may be a consequence of that"
                .to_owned(),
        ));
    }
    if let Some(detail) = &finding.outcome.detail {
        facts.push(("detail", detail.clone()));
    }
    Section::new("Verdict", vec![Block::Facts(facts)])
}

/// Why the verdict is what it is.
fn reason(finding: &Finding) -> String {
    let tier = Tier::ALL.iter().find(|tier| tier.name() == finding.tier);
    match (finding.verdict, tier) {
        (FindingVerdict::Bug, Some(Tier::T0)) => {
            "nobody touched the context, so that a profiler's sample ends the same way".to_owned()
        }
        (FindingVerdict::Bug, _) => format!(
            "a thread can be in this state, and contexts of its class were observed ({} of {} untouched samples)",
            finding.witness.observed, finding.witness.of
        ),
        (FindingVerdict::Robustness, Some(Tier::T4)) => {
            "it shows how much the walker bears, for nothing shows that a thread can be in this state; \
             hardening, not a crash that a profiler is known to meet"
                .to_owned()
        }
        (FindingVerdict::Synthetic, _) => {
            "the walk's memory was edited before it, so that it says nothing of what a thread can be in".to_owned()
        }
        (FindingVerdict::Robustness, _) => {
            "a thread could be in this state by what its code does, but none of its class was observed".to_owned()
        }
    }
}

pub(super) fn how_sure(finding: &Finding) -> Section {
    Section::new(
        "How surely it happens again",
        none(&format!("{}.", reliability(finding))),
    )
}
