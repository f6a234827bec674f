//! An oracle beside the walker: liars are found and named, honest walkers are not accused.

use std::time::Duration;

use walkfuzz_capsule::{Capsule, Outcome, Puppet};
use walkfuzz_context::generate::blind;
use walkfuzz_context::{Arch, Batch, Perturbation, Tier};
use walkfuzz_harness::compare_file::compare_capsule;
use walkfuzz_harness::minimise_file::{minimise_capsule, registers};
use walkfuzz_harness::opinion::CapsuleOpinion;
use walkfuzz_harness::{Mode, Session};
use walkfuzz_record::{ContradictionKind, Finding, FindingVerdict, OutcomeKind, Summary};

use crate::findings::{hunt, skip};
use crate::planted::{self, LEAST};
use crate::sessions::{finished, survey};

fn input(walks: &[&str]) -> Vec<u8> {
    let parse = |text: &&str| Perturbation::parse(Arch::NATIVE, text).unwrap();
    let walks: Vec<Perturbation> = walks.iter().map(parse).collect();
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.set_walks(&walks);
    batch.to_bytes()
}

/// Wrong frames that are no known difference between AsyncGetCallTrace and the reference.
fn lies(found: &[Finding]) -> Vec<&Finding> {
    let is_lie = |finding: &&Finding| {
        let said = finding.outcome.contradiction.as_ref();
        finding.outcome.kind == OutcomeKind::WrongFrames
            && said.is_some_and(|said| said.known.is_none())
    };
    found.iter().filter(is_lie).collect()
}

fn print(found: &[Finding]) {
    for finding in found {
        println!(
            "note: {} ({}), {} times, {:?}",
            finding.title,
            finding.input.perturbation,
            finding.count,
            finding.outcome.detail.as_deref().unwrap_or_default(),
        );
    }
}

fn print_oracle(summary: &Summary) {
    let oracle = summary.oracle;
    println!(
        "note: {} walks compared: {} agree, {} are cut short, {} unproven, {} wrong",
        oracle.compared, oracle.agreed, oracle.prefixes, oracle.unproven, oracle.wrong
    );
}

/// Its capsule.
fn capsule(session: &Session, finding: &Finding) -> Capsule {
    let path = finding.capsule.path.as_ref();
    let path = path.unwrap_or_else(|| panic!("{:?}", finding.capsule));
    Capsule::read(&session.run_folder().path().join(path)).unwrap()
}

/// Whether the capsule's walk gives the same wrong frames whenever it is walked again.
fn is_kept(capsule: &Capsule) -> bool {
    let Outcome::Frames(frames) = capsule.facts.expected else {
        return false;
    };
    let mut puppet = Puppet::new(capsule).unwrap();
    (0..20).all(|_| {
        let ended = puppet.walk().unwrap();
        frames.frames > 0 && capsule.facts.expected.differences(&ended).is_empty()
    })
}

/// In the capsule the reference gives the frames that it gave at the held moment, and contradicts the walker in the same way.
fn is_contradicted(capsule: &Capsule, finding: &Finding) {
    let said = finding.outcome.contradiction.as_ref().unwrap();
    let compared = compare_capsule(capsule).unwrap();
    assert_eq!(compared.differences, Vec::<String>::new());
    let [example] = &compared.comparison.examples[..] else {
        panic!("{:?}", compared.comparison);
    };
    assert_eq!(&example.contradiction, said);
    assert!(
        !said.expected.is_empty() && !said.given.is_empty(),
        "{said:?}"
    );
    assert_eq!(example.tier, finding.tier);
    assert_eq!(compared.comparison.tier(Tier::T4).differ, 1);
    let opinion = capsule.opinion.as_ref().unwrap();
    assert!(opinion.facts.frames > 0, "{:?}", opinion.facts);
    let mut without = capsule.clone();
    without.opinion = None;
    let bytes = |capsule: &Capsule| capsule.to_bytes().unwrap().len();
    println!(
        "note: capsule of {} bytes, {} without what the reference reads: {} words for {} frames",
        bytes(capsule),
        bytes(&without),
        opinion.words.len(),
        opinion.facts.frames
    );
    let error = compare_capsule(&without).unwrap_err().to_string();
    assert!(error.contains("WALKFUZZ_ORACLE=reference"), "{error}");
    // The first word of the stack that it read.
    let (_, registers) = registers(capsule).unwrap();
    let (first, _) = opinion.words.range(registers.sp().0..).next().unwrap();
    let mut holed = capsule.clone();
    holed.opinion.as_mut().unwrap().words.remove(first);
    let error = compare_capsule(&holed).unwrap_err().to_string();
    assert!(error.contains("the reference walker reads"), "{error}");
}

/// What was put to its perturbation goes again, and what is left is wrong in the same way.
fn is_minimised(capsule: &Capsule, finding: &Finding) {
    let mut grown = capsule.clone();
    grown.facts.perturbation.push_str(" rcx+=8 r9~bit40");
    let minimised = minimise_capsule(&grown).unwrap();
    assert!(minimised.walks > 2, "{}", minimised.walks);
    let smaller = &minimised.capsule;
    let edits = |capsule: &Capsule| capsule.facts.perturbation.split(' ').count();
    assert_eq!((edits(&grown), edits(smaller)), (3, 1));
    assert_eq!(smaller.facts.signature, finding.signature);
    let compared = compare_capsule(smaller).unwrap();
    assert_eq!(compared.differences, Vec::<String>::new());
    let found = &compared.comparison.examples[0].contradiction;
    let said = finding.outcome.contradiction.as_ref().unwrap();
    assert_eq!(found, said);
    let mut puppet = Puppet::new(smaller).unwrap();
    puppet.walk().unwrap();
    let given = puppet.frames().unwrap();
    let opinion = CapsuleOpinion::of(smaller).unwrap();
    assert_eq!(opinion.confirms(&given), Ok(()));
    // Frames that are right, or wrong in another way, are no confirmation.
    let mut other = given;
    other[0].bci -= 1;
    opinion.confirms(&other).unwrap_err();
}

fn is_tried(finding: &Finding) -> bool {
    let tried = finding.reliability.portability;
    tried.is_some_and(|tried| tried.of >= 100)
}

/// The lies about perturbed contexts. What AsyncGetCallTrace, which the liar asks, has wrong by itself, it has wrong about untouched ones.
fn planted_lies(found: &[Finding]) -> Vec<&Finding> {
    let lies = lies(found).into_iter();
    lies.filter(|finding| finding.tier == "T4").collect()
}

/// Each lie has a finding that says what is wrong, and is minimised to its cause.
pub(crate) fn wrong_frames() {
    if skip() {
        return;
    }
    let mut session = survey(planted::lying);
    let inputs = [
        input(&["rax+=4000 r10~bit3", "rax+=8", "rcx+=900"]),
        input(&["rbx+=777", "rbx+=8", "rcx+=64 rdx+=5"]),
    ];
    let done = |found: &[Finding]| {
        let lies = planted_lies(found);
        lies.len() >= 2 && lies.iter().all(|finding| is_tried(finding))
    };
    let found = hunt(&mut session, &inputs, Duration::from_secs(50), done);
    let summary = finished(&mut session);
    print(&found);
    print_oracle(&summary);
    let lies = planted_lies(&found);
    let one = |kind: ContradictionKind| {
        let same = |finding: &&&Finding| {
            let said = finding.outcome.contradiction.as_ref();
            said.is_some_and(|said| said.kind == kind)
        };
        let matching: Vec<&&Finding> = lies.iter().filter(same).collect();
        assert_eq!(matching.len(), 1, "{kind:?}: {found:#?}");
        let finding: &Finding = matching[0];
        let frozen = finding.reliability.frozen.unwrap();
        assert_eq!((frozen.k, frozen.of), (3, 3), "{}", finding.title);
        let elsewhere = finding.reliability.portability.unwrap();
        assert!(elsewhere.k >= 40, "{} of {}", elsewhere.k, elsewhere.of);
        assert_eq!(finding.verdict, FindingVerdict::Robustness);
        finding
    };
    let moved = one(ContradictionKind::OtherBci);
    assert_eq!(
        moved.title,
        "wrong frames of liar: other bci at frame 0, reference disagrees [T4]"
    );
    assert_eq!(moved.input.perturbation, format!("rax+={LEAST}"));
    let said = moved.outcome.contradiction.as_ref().unwrap();
    assert_eq!((said.frame, &*said.oracle), (0, "reference"));
    assert_eq!(said.given[0].method, said.expected[0].method);
    assert_eq!(said.given[0].bci, said.expected[0].bci + 1);
    assert!(said.given[0].method.contains('('), "{said:?}");
    let missing = one(ContradictionKind::MissingFrame);
    assert_eq!(
        missing.title,
        "wrong frames of liar: missing frame at a later frame, reference disagrees [T4]"
    );
    assert_eq!(missing.input.perturbation, format!("rbx+={LEAST}"));
    let said = missing.outcome.contradiction.as_ref().unwrap();
    assert_eq!(said.frame, 1);
    assert_eq!(said.given.first(), said.expected.get(1));
    assert_eq!(lies.len(), 2, "{found:#?}");
    let row = summary
        .outcomes
        .iter()
        .find(|row| row.name == "wrong frames");
    assert!(row.is_some_and(|row| row.perturbed > 1), "{summary:?}");
    assert!(summary.oracle.agreed > 100, "{:?}", summary.oracle);
    for finding in [moved, missing] {
        let capsule = capsule(&session, finding);
        assert!(is_kept(&capsule), "{:?}", finding.capsule);
        is_contradicted(&capsule, finding);
        is_minimised(&capsule, finding);
        assert!(
            finding
                .commands
                .iter()
                .any(|command| command.contains("WALKFUZZ_ORACLE=reference")),
            "{:?}",
            finding.commands
        );
    }
}

/// A walker that is wrong about untouched contexts has a bug.
pub(crate) fn wrong_controls() {
    let mut session = survey(planted::always_lying);
    let inputs = [input(&["rcx+=64"])];
    let done = |found: &[Finding]| {
        let lies = lies(found);
        lies.iter()
            .any(|finding| finding.reliability.frozen.is_some())
    };
    let found = hunt(&mut session, &inputs, Duration::from_secs(30), done);
    let summary = finished(&mut session);
    print(&found);
    print_oracle(&summary);
    let title = "wrong frames of liar: other bci at frame 0, reference disagrees [T0]";
    let finding = found.iter().find(|finding| finding.title == title);
    let finding = finding.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(finding.verdict, FindingVerdict::Bug);
    assert_eq!(finding.registers.edited, Vec::<String>::new());
    assert!(summary.bugs >= 1);
}

/// AsyncGetCallTrace says what the reference says, or something else for a reason that is known.
pub(crate) fn honest() {
    const INPUTS: u64 = 2_000;
    let mut session = survey(planted::nothing);
    for seed in 0..INPUTS {
        session.run_input(&blind(seed).to_bytes()).unwrap();
    }
    let summary = finished(&mut session);
    let found = session.run_folder().findings().unwrap().findings;
    print(&found);
    print_oracle(&summary);
    let oracle = summary.oracle;
    assert!(oracle.compared > INPUTS, "{oracle:?}");
    assert!(oracle.agreed * 2 > oracle.compared, "{oracle:?}");
    assert_eq!(
        oracle.compared,
        oracle.agreed + oracle.prefixes + oracle.unproven + oracle.known + oracle.wrong
    );
    let accused: Vec<_> = lies(&found)
        .into_iter()
        .filter(|finding| finding.verdict == FindingVerdict::Bug)
        .map(|finding| (&finding.title, &finding.outcome.detail))
        .collect();
    assert!(accused.is_empty(), "{accused:#?}");
}

/// AsyncGetCallTrace's known mistakes about untouched contexts convict nobody who contradicts it.
pub(crate) fn judged_by_agct() {
    const WALKS: u64 = 30_000;
    for (name, value) in [
        ("WALKFUZZ_WALKER", "reference"),
        ("WALKFUZZ_ENGINE", "step"),
    ] {
        // SAFETY: no thread has been started in this process.
        unsafe { std::env::set_var(name, value) };
    }
    let mut session = Session::start(Mode::Survey, &["live".to_owned()], None).unwrap();
    let costs = session.walk_naturally(WALKS, || true).unwrap();
    let summary = finished(&mut session);
    assert_eq!(costs.walks, WALKS);
    let found = session.run_folder().findings().unwrap().findings;
    print(&found);
    print_oracle(&summary);
    let oracle = summary.oracle;
    println!(
        "note: {} known mistakes of the oracle's own, {} moments",
        oracle.known, summary.engine.parks
    );
    assert!(oracle.compared > WALKS / 10, "{oracle:?}");
    assert!(oracle.agreed * 2 > oracle.compared, "{oracle:?}");
    assert_eq!(
        oracle.compared,
        oracle.agreed + oracle.prefixes + oracle.unproven + oracle.known + oracle.wrong
    );
    assert!(found.is_empty(), "{found:#?}");
}

/// The reference walks by itself, and nothing makes it fault.
pub(crate) fn reference() {
    own_walker(2_000);
}

/// ASGST's walks from frames: a context is three words to them, and they come back from all of them as well.
pub(crate) fn from_frame() {
    own_walker(500);
}

fn own_walker(inputs: u64) {
    let name = std::env::var("WALKFUZZ_WALKER").unwrap();
    let mut session = Session::start(Mode::Survey, &["live".to_owned()], None).unwrap();
    for seed in 0..inputs {
        session.run_input(&blind(seed).to_bytes()).unwrap();
    }
    let summary = finished(&mut session);
    let facts = session.run_folder().facts().unwrap();
    assert_eq!(facts.walkers[0].name, name);
    let controls = summary.controls.k as f64 / summary.controls.of as f64;
    println!(
        "note: {:.1} % of {} controls, {} walks, {} findings",
        controls * 100.0,
        summary.controls.of,
        summary.walks,
        summary.findings.len()
    );
    assert!(controls >= 0.5, "{:?}", summary.controls);
    assert!(summary.perturbed_walks > inputs);
    assert_eq!(summary.events.recoveries, 0, "{summary:?}");
    assert!(summary.findings.is_empty(), "{:?}", summary.findings);
}
