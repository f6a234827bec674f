//! Two walkers side by side, as `walkfuzz compare` has them.

use std::time::Duration;

use walkfuzz_context::Tier;
use walkfuzz_harness::compared::{Comparison, ThirdVoice};
use walkfuzz_harness::{ComparePlan, Mode, Session};
use walkfuzz_record::ContradictionKind;

use crate::findings::skip;
use crate::planted;
use crate::sessions::survey;

const PLAN: ComparePlan = ComparePlan {
    contexts: 30_000,
    time: Duration::from_secs(40),
    in_copy: 2_000,
    depth: 512,
    seed: 1,
    asked: 400,
};

fn print(compared: &Comparison) {
    for row in &compared.tiers {
        println!("note: {} {:?}", row.tier, row.agreements);
    }
    for row in compared
        .known
        .iter()
        .filter(|row| row.untouched + row.natural > 0)
    {
        println!(
            "note: {:?}: {} untouched, {} natural",
            row.known, row.untouched, row.natural
        );
    }
    println!(
        "note: {} copies, {:.0} contexts/s in them, {} examples",
        compared.copies,
        compared.per_second_in_copies.unwrap_or(0.0),
        compared.examples.len()
    );
}

/// Of threads that stand still JVMTI says what both say, but where that is a known way of AsyncGetCallTrace's.
fn jvmti_agrees(compared: &Comparison) {
    let jvmti = heard(compared);
    let [agct, reference] = &jvmti.walkers[..] else {
        panic!("{jvmti:#?}");
    };
    assert_eq!((&*agct.name, &*reference.name), ("agct", "reference"));
    assert!(agct.agreements.agree > 10, "{jvmti:#?}");
    assert!(reference.agreements.agree > 10, "{jvmti:#?}");
    assert_eq!(jvmti.contradicted(), 0, "{jvmti:#?}");
    assert_eq!(reference.known, 0, "{jvmti:#?}");
}

/// What JVMTI said, of enough threads to mean something.
fn heard(compared: &Comparison) -> &ThirdVoice {
    let jvmti = compared.jvmti.as_ref().expect("JVMTI was asked");
    println!("note: {jvmti:?}");
    let parts = jvmti.stood_still + jvmti.moved + jvmti.carriers + jvmti.missed;
    assert_eq!(parts, jvmti.asked, "{jvmti:#?}");
    assert!(jvmti.asked > 50 && jvmti.stood_still > 20, "{jvmti:#?}");
    assert!(jvmti.stacks > 2, "{jvmti:#?}");
    for row in &jvmti.walkers {
        assert_eq!(row.agreements.contexts, jvmti.stood_still, "{jvmti:#?}");
    }
    jvmti
}

/// AsyncGetCallTrace and the reference agree on untouched contexts, or for a known reason not.
pub(crate) fn compared() {
    let mut session = Session::start(Mode::Merge, &["live".to_owned()], None).unwrap();
    let mut asked = 0;
    let compared = session
        .compare(&PLAN, |_| {
            asked += 1;
            true
        })
        .unwrap();
    print(&compared);
    assert!(asked > 0);
    assert_eq!(compared.walkers[0].name, "agct");
    assert_eq!(compared.walkers[1].name, "reference");
    let contexts: u64 = compared
        .tiers
        .iter()
        .map(|row| row.agreements.contexts)
        .sum();
    assert!(contexts >= PLAN.contexts, "{compared:?}");
    for row in &compared.tiers {
        let it = &row.agreements;
        let columns = it.both() + it.only_first + it.only_second + it.neither;
        assert_eq!(columns, it.contexts, "{row:?}");
    }
    let agreement = compared.untouched_agreement();
    assert!(agreement.of > 200, "{agreement:?}");
    assert!(agreement.k * 1000 >= agreement.of * 999, "{compared:#?}");
    let perturbed = compared.tier(Tier::T4);
    assert!(
        perturbed.agree > 1000 && perturbed.neither > 100,
        "{perturbed:?}"
    );
    assert!(compared.copies > 0 && compared.lost == 0, "{compared:?}");
    assert!(!compared.walkers[0].codes.is_empty());
    jvmti_agrees(&compared);
}

/// A liar differs from the oracle in every walk, and the examples say in what.
pub(crate) fn compared_liar() {
    if skip() {
        return;
    }
    let mut session = survey(planted::always_lying);
    let plan = ComparePlan {
        contexts: 20_000,
        ..PLAN
    };
    let compared = session.compare(&plan, |_| true).unwrap();
    print(&compared);
    let untouched = compared.tier(Tier::T0);
    assert_eq!(untouched.agree, 0);
    assert!(untouched.differ > 50, "{untouched:?}");
    assert!(
        compared.unexplained() * 10 >= untouched.differ * 8,
        "{compared:?}"
    );
    let of_bci = |kind| {
        let mut examples = compared.examples.iter();
        examples.find(|example| example.contradiction.kind == kind)
    };
    let example = of_bci(ContradictionKind::OtherBci).expect("an example");
    let said = &example.contradiction;
    assert_eq!(said.frame, 0);
    assert_eq!(said.given[0].bci, said.expected[0].bci + 1, "{example:?}");
    // JVMTI contradicts the liar, and not the other one.
    let jvmti = heard(&compared);
    let [liar, other] = &jvmti.walkers[..] else {
        panic!("{jvmti:#?}");
    };
    assert_eq!(liar.name, "liar");
    assert!(liar.agreements.differ > 20, "{jvmti:#?}");
    assert!(
        liar.contradicted() * 10 >= liar.agreements.differ * 8,
        "{jvmti:#?}"
    );
    assert!(
        liar.agreements.agree * 20 < liar.agreements.differ,
        "{jvmti:#?}"
    );
    let mut kinds = liar.examples.iter().map(|example| example.kind);
    assert!(
        kinds.any(|kind| kind == ContradictionKind::OtherBci),
        "{jvmti:#?}"
    );
    assert!(
        liar.examples
            .iter()
            .all(|example| example.oracle == "jvmti")
    );
    assert_eq!(other.contradicted(), 0, "{jvmti:#?}");
}
