//! The set of findings, and their grades.

use walkfuzz_context::witness::Grade;
use walkfuzz_context::{Tier, Witness};
use walkfuzz_triage::{Findings, Kind, Seen, Signal, Signature, verdict};

#[test]
fn the_first_artifact_stays() {
    let a = Signature::new(Kind::Signal(Signal::Segv), "a", "agct");
    let b = Signature::new(Kind::Hang, "a", "agct");
    let mut findings = Findings::default();
    assert!(findings.is_empty());
    assert_eq!(findings.record(&a, || 1), Seen::New);
    assert_eq!(findings.record(&b, || 2), Seen::New);
    assert_eq!(findings.record(&b, || unreachable!()), Seen::Again(2));
    assert_eq!(findings.record(&b, || unreachable!()), Seen::Again(3));
    assert_eq!((findings.len(), findings.sightings()), (2, 4));
    let entry = findings.get(&b).unwrap();
    assert_eq!((entry.artifact, entry.count, entry.first), (2, 3, 1));
    findings.get_mut(&b).unwrap().artifact = 9;
    let frequent: Vec<_> = findings
        .most_frequent()
        .iter()
        .map(|e| e.artifact)
        .collect();
    assert_eq!(frequent, [9, 1]);
    let in_order: Vec<_> = findings.entries().iter().map(|e| e.artifact).collect();
    assert_eq!(in_order, [1, 9]);
}

#[test]
fn only_natural_contexts_make_a_bug() {
    let seen = Witness {
        observed: 12,
        of: 10_000,
    };
    let unseen = Witness {
        observed: 0,
        of: 10_000,
    };
    let none = Witness { observed: 0, of: 0 };
    for (tier, witness, grade) in [
        (Tier::T0, none, Grade::Bug),
        (Tier::T1, seen, Grade::Bug),
        (Tier::T2, seen, Grade::Bug),
        (Tier::T3, seen, Grade::Bug),
        (Tier::T4, seen, Grade::Robustness),
        (Tier::T1, unseen, Grade::Robustness),
        (Tier::T3, unseen, Grade::Robustness),
        (Tier::T1, none, Grade::Robustness),
    ] {
        assert_eq!(verdict(tier, witness).grade, grade, "{tier} {witness}");
    }
    let texts: Vec<_> = [
        (Tier::T0, none),
        (Tier::T1, seen),
        (Tier::T2, unseen),
        (Tier::T3, none),
        (Tier::T4, seen),
    ]
    .map(|(tier, witness)| verdict(tier, witness).to_string())
    .into();
    insta::assert_snapshot!(texts.join("\n"), @r"
    bug: T0, untouched
    bug: T1, a state that the code passes through; its like was observed in 12 of 10,000 (0.12 %, 0.069 to 0.21 %) untouched contexts
    robustness: T2, an arbitrary fp where it is no frame pointer; never observed: 0 of 10,000 (at most 0.030 %) untouched contexts
    robustness: T3, registers of different moments of a running thread; no untouched context was counted
    robustness: T4, registers that no program has
    ");
}
