//! What becomes of planted faults.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use walkfuzz_capsule::{Capsule, Outcome, Puppet};
use walkfuzz_context::generate::blind;
use walkfuzz_context::{Arch, Batch, BlobKind, Pc, Perturbation};
use walkfuzz_harness::{Mode, Session};
use walkfuzz_record::{Finding, FindingVerdict, OutcomeKind};

use crate::planted::{self, CAN_PLANT, LEAST, Nudge};
use crate::runner::{aborted, again};
use crate::sessions::{finished, survey};

/// Runs inputs until the findings are as wanted; asks after every so many inputs.
pub(crate) fn hunt(
    session: &mut Session,
    inputs: &[Vec<u8>],
    limit: Duration,
    enough: impl Fn(&[Finding]) -> bool,
) -> Vec<Finding> {
    let began = Instant::now();
    let mut inputs = inputs.iter().cycle();
    loop {
        for input in inputs.by_ref().take(200) {
            session.run_input(input).unwrap();
        }
        let found = session.run_folder().findings().unwrap().findings;
        if enough(&found) || began.elapsed() > limit {
            return found;
        }
    }
}

pub(crate) fn skip() -> bool {
    if !CAN_PLANT {
        println!("note: skip: faults cannot be planted on this architecture");
    }
    !CAN_PLANT
}

/// Threads are let go and walked meanwhile: what such a walk does is of tier T3, has a witness, and is tried again with each later one.
pub(crate) fn ran_on() {
    const INPUTS: u64 = 150;
    let mut session = Session::start_around(
        Mode::Survey,
        &["live".to_owned()],
        None,
        planted::third_time,
    )
    .unwrap();
    for _ in 0..INPUTS {
        session
            .run_given(&Batch::untouched(Arch::NATIVE).to_bytes())
            .unwrap();
    }
    let summary = finished(&mut session);
    // Nothing else is perturbed; before the first input nobody was held.
    assert_eq!(summary.perturbed_walks, INPUTS - 1, "{summary:?}");
    assert!(summary.controls.k > INPUTS / 3, "{:?}", summary.controls);
    let found = session.run_folder().findings().unwrap().findings;
    let planted: Vec<&Finding> = found
        .iter()
        .filter(|finding| finding.signature.contains("read_null"))
        .collect();
    let [finding] = planted[..] else {
        panic!("{found:#?}");
    };
    let elsewhere = finding.reliability.portability.unwrap();
    println!(
        "note: {}, witness {:?}, {} of {} later walks, {} times, {:?}",
        finding.title, finding.witness, elsewhere.k, elsewhere.of, finding.count, finding.verdict
    );
    assert!(
        finding.title.contains("via third-time") && finding.title.ends_with("[T3]"),
        "{}",
        finding.title
    );
    // Now and then a thread is held twice in the same context.
    assert!(finding.count > INPUTS / 2, "{}", finding.count);
    assert_eq!(elsewhere.of, 100);
    assert!(elsewhere.k > 50, "{elsewhere:?}");
    // No copy has the moment.
    assert_eq!(finding.reliability.frozen, None);
    // Its registers are untouched ones, so that their class has been seen.
    assert_eq!(finding.registers.edited, [""; 0]);
    assert!(finding.witness.observed > 0, "{:?}", finding.witness);
    assert_eq!(finding.verdict, FindingVerdict::Bug);
}

/// A walker that trusts the sp of a thread that has gone on: the finding is of tier T3, and is brought back as others are.
pub(crate) fn torn() {
    if skip() {
        return;
    }
    // Others' stack pointers lie in other stacks.
    // SAFETY: no thread has been started in this process.
    unsafe { std::env::set_var("WALKFUZZ_THREADS", "1") };
    let mut session = Session::start_around(
        Mode::Survey,
        &["live".to_owned()],
        None,
        planted::raised_sp_around,
    )
    .unwrap();
    // An sp that the thread had at another moment, at the pc that it has now.
    let inputs = (0..64).map(|moment| {
        let walk = format!("sp=natural-sp[{moment}]");
        let mut batch = Batch::untouched(Arch::NATIVE);
        batch.set_walks(&[Perturbation::parse(Arch::NATIVE, &walk).unwrap()]);
        batch.to_bytes()
    });
    let inputs: Vec<Vec<u8>> = inputs.collect();
    let done = |found: &[Finding]| {
        let tried = |finding: &Finding| {
            let tried = finding.reliability.portability;
            tried.is_some_and(|tried| tried.of >= 100)
        };
        found
            .iter()
            .any(|finding| finding.signature.contains("read_null") && tried(finding))
    };
    hunt(&mut session, &inputs, Duration::from_secs(60), done);
    let summary = finished(&mut session);
    assert!(summary.controls.k > 0, "{:?}", summary.controls);
    let found = session.run_folder().findings().unwrap().findings;
    // What AsyncGetCallTrace itself does there is not this test's.
    let planted: Vec<&Finding> = found
        .iter()
        .filter(|finding| finding.signature.contains("read_null"))
        .collect();
    let [finding] = planted[..] else {
        panic!("{found:#?}");
    };
    println!(
        "note: {}, {:?}, witness {:?}, {:?}, {} times, {:?}",
        finding.title,
        finding.input.perturbation,
        finding.witness,
        finding.reliability,
        finding.count,
        finding.verdict
    );
    assert!(
        finding.title.contains("via raised-sp") && finding.title.ends_with("[T3]"),
        "{}",
        finding.title
    );
    assert_eq!(finding.tier, "T3");
    // Another way to an sp that the thread had may be smaller.
    assert!(finding.input.perturbation.starts_with("sp"));
    assert_eq!(finding.registers.edited, ["rsp"]);
    assert!(finding.witness.of > 0, "{:?}", finding.witness);
    // A witness makes it a bug; without one it is not observed, and no more than robustness.
    let verdict = match finding.witness.observed {
        0 => FindingVerdict::Robustness,
        _ => FindingVerdict::Bug,
    };
    assert_eq!(finding.verdict, verdict);
    let frozen = finding.reliability.frozen.unwrap();
    assert_eq!((frozen.k, frozen.of), (3, 3));
    assert!(finding.reliability.portability.unwrap().of > 0);
}

/// A fault with one cause is brought back to that cause, in frozen copies, and happens again at every other moment.
pub(crate) fn minimised() {
    if skip() {
        return;
    }
    let mut session = survey(planted::raised_sp);
    let inputs = [vec![777], vec![5000, 9], vec![64 * 1024, 16]].map(|raised| {
        let mut bytes = vec![0, 8, LEAST - 1];
        bytes.extend(raised);
        let mut batch = Batch::decode(&planted::input(&bytes));
        (batch.thread, batch.steps) = (5, 3);
        batch.to_bytes()
    });
    let done = |found: &[Finding]| {
        let tried = |finding: &Finding| {
            finding
                .reliability
                .portability
                .is_some_and(|tried| tried.of >= 100)
        };
        found.first().is_some_and(tried)
    };
    hunt(&mut session, &inputs, Duration::from_secs(40), done);
    let summary = finished(&mut session);
    let found = session.run_folder().findings().unwrap().findings;
    let planted: Vec<&Finding> = found
        .iter()
        .filter(|finding| finding.signature.contains("read_null"))
        .collect();
    let [finding] = planted[..] else {
        panic!("{found:#?}");
    };
    println!(
        "note: {}, {:?}, {} of {} moments, {} times",
        finding.title,
        finding.input.perturbation,
        finding.reliability.portability.map_or(0, |tried| tried.k),
        finding.reliability.portability.map_or(0, |tried| tried.of),
        finding.count
    );
    assert_eq!(finding.outcome.kind, OutcomeKind::Fault);
    assert_eq!(finding.outcome.signal.as_deref(), Some("SIGSEGV"));
    assert_eq!(finding.outcome.address.as_deref(), Some("0x0"));
    assert_eq!(finding.input.perturbation, format!("sp+={LEAST}"));
    assert_eq!(finding.registers.edited, ["rsp"]);
    assert_eq!(finding.tier, "T4");
    assert_eq!(finding.verdict, FindingVerdict::Robustness);
    let frozen = finding.reliability.frozen.unwrap();
    assert_eq!((frozen.k, frozen.of), (3, 3));
    let elsewhere = finding.reliability.portability.unwrap();
    assert_eq!((elsewhere.k, elsewhere.of), (100, 100));
    let site = finding.site.as_ref().unwrap();
    assert!(
        site.instruction
            .as_deref()
            .is_some_and(|text| text.starts_with("mov")),
        "{site:?}"
    );
    let frames: Vec<&str> = site.backtrace.iter().map(String::as_str).collect();
    assert!(
        matches!(&frames[..], [fault, walker, ..]
            if fault.contains("planted::read_null") && walker.contains("planted::fault_where_raised")),
        "{frames:#?}"
    );
    assert_eq!(frames.len(), 2, "the guard is no part of it: {frames:#?}");
    assert_eq!(finding.engine, "live");
    // The reference walker says what the stack's words are for.
    let moment = finding.moment.as_ref().unwrap();
    let words = &moment.words;
    let of_frames = |end: &str| {
        words
            .iter()
            .filter(|word| word.place.contains("frame ") && word.place.ends_with(end))
            .collect::<Vec<_>>()
    };
    // The interpreter and stubs were perhaps just making their frame, which is then no more than a guess.
    let may_guess = moment.code.kind != "nmethod";
    assert!(may_guess || !of_frames("").is_empty(), "{words:#?}");
    for word in of_frames(" return address") {
        // Into a caller; a deoptimised one returns to its handler.
        let meaning = word.meaning.as_deref().unwrap_or_default();
        let is_data = [
            "Java heap",
            "this thread's stack",
            "the number",
            "null",
            "Method*",
        ]
        .iter()
        .any(|data| meaning.starts_with(data));
        assert!(!meaning.is_empty() && !is_data, "{word:?}");
    }
    assert_eq!(finding.walker.name, "raised-sp");
    assert_eq!(finding.signature.split('|').nth(2), Some("raised-sp"));
    let facts = session.run_folder().facts().unwrap();
    assert_eq!(facts.walkers, std::slice::from_ref(&finding.walker));
    assert!(finding.known.is_empty(), "{:?}", finding.known);
    // The smallest batch is held as the first one was.
    let artifact = finding.input.artifact.as_ref().unwrap();
    let bytes = std::fs::read(session.run_folder().path().join(artifact)).unwrap();
    let batch = Batch::decode(&bytes);
    assert_eq!((batch.thread, batch.steps), (5, 3));
    assert_eq!(batch.walks().len(), 1);
    let jdk = std::env::var("WALKFUZZ_JDK").unwrap();
    let expected = format!(
        "WALKFUZZ_JDK={jdk} WALKFUZZ_WARM_UP_MS=200 cargo fuzz run -s none walk_ucontext '{}'",
        session.run_folder().path().join(artifact).display()
    );
    assert_eq!(finding.commands.last(), Some(&expected));
    if cfg!(target_arch = "x86_64") {
        let path = finding
            .capsule
            .path
            .as_ref()
            .unwrap_or_else(|| panic!("{:?}", finding.capsule));
        let path = session.run_folder().path().join(path);
        assert_eq!(
            finding.commands[0],
            format!("walkfuzz replay '{}'", path.display())
        );
        let capsule = Capsule::read(&path).unwrap();
        assert_eq!(capsule.facts.perturbation, finding.input.perturbation);
        assert_eq!(capsule.facts.signature, finding.signature);
        let ended = Puppet::new(&capsule).unwrap().walk().unwrap();
        assert_eq!(
            capsule.facts.expected.differences(&ended),
            Vec::<String>::new()
        );
    }
    // Each input has one walk that faults; those that were made elsewhere are no sightings.
    assert_eq!(finding.count, summary.engine.inputs);
    assert_eq!(summary.events.recoveries, finding.count + elsewhere.of);
    assert_eq!(summary.untouched_faults.k, 0);
}

/// Faults in the JVM's own walker are traced back to its entry, their code is named, and what is known of them is said.
pub(crate) fn traced() {
    let mut session = survey(planted::nothing);
    let inputs: Vec<Vec<u8>> = (0..20_000).map(|seed| blind(seed).to_bytes()).collect();
    let examined = |found: &[Finding]| {
        let traced = |finding: &&Finding| {
            let site = finding.site.as_ref();
            site.is_some_and(|site| site.backtrace.len() > 1)
        };
        let deep = |finding: &Finding| {
            let site = finding.site.as_ref();
            site.is_some_and(|site| site.backtrace.len() > 2)
        };
        found.iter().filter(traced).count() >= 2 && found.iter().any(deep)
    };
    // Not every JDK shows as many.
    hunt(&mut session, &inputs, Duration::from_secs(12), examined);
    let summary = finished(&mut session);
    let found = session.run_folder().findings().unwrap().findings;
    let faults: Vec<&Finding> = found
        .iter()
        .filter(|finding| finding.reliability.frozen.is_some() && finding.site.is_some())
        // The walk that writes goes on, so there is no stack to trace.
        .filter(|finding| !finding.title.starts_with("write to the walked stack"))
        .collect();
    assert!(!faults.is_empty(), "{summary:#?}");
    for finding in &faults {
        let site = finding.site.as_ref().unwrap();
        println!(
            "note: {} in {} {}: {}; known {:?}",
            finding.title,
            finding.blob.kind,
            finding.blob.name.as_deref().unwrap_or("-"),
            site.backtrace.join(" < "),
            finding
                .known
                .iter()
                .map(|k| (&k.id, &k.versions))
                .collect::<Vec<_>>()
        );
        let function = site.function.as_deref().unwrap_or("no function");
        assert!(
            site.backtrace
                .first()
                .is_some_and(|first| first.starts_with(function)),
            "{site:#?}"
        );
        assert!(
            site.backtrace
                .last()
                .is_some_and(|last| last.starts_with("AsyncGetCallTrace+")),
            "{site:#?}"
        );
    }
    if cfg!(target_arch = "x86_64") {
        capsules(&session, &faults);
    }
    println!("note: {} stale values", summary.events.stale_hits);
    let named = |name: Option<(String, Option<u64>)>| {
        name.is_some_and(|(name, _)| {
            name.contains("(level ") && name.contains('.') && name.contains(", id ")
        })
    };
    let world = session.world();
    let compiled: Vec<_> = world
        .code
        .cache()
        .blobs
        .iter()
        .filter(|blob| {
            blob.kind == BlobKind::Nmethod && blob.nmethod.is_some_and(|n| n.method.0 != 0)
        })
        .collect();
    let good = compiled
        .iter()
        .filter(|blob| named(world.describe_code(Pc(blob.code.start.0))))
        .count();
    println!("note: {good} of {} nmethods have a name", compiled.len());
    assert!(
        good * 10 >= compiled.len() * 9,
        "{good} of {}",
        compiled.len()
    );
    let ours = compiled
        .iter()
        .filter_map(|blob| world.describe_code(Pc(blob.code.start.0)));
    let ours: Vec<String> = ours
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("walkfuzz.frames."))
        .collect();
    assert!(!ours.is_empty());
    println!("note: {}", ours[0]);
}

/// Every examined fault is in a capsule, which ends as the finding says, a thousand times.
fn capsules(session: &Session, faults: &[&Finding]) {
    for finding in faults {
        let path = finding.capsule.path.as_ref();
        let path = path.unwrap_or_else(|| panic!("{}: {:?}", finding.title, finding.capsule));
        let path = session.run_folder().path().join(path);
        let capsule = Capsule::read(&path).unwrap();
        let Outcome::Fault(fault) = capsule.facts.expected else {
            panic!("{}", capsule.facts.expected);
        };
        let site = finding.site.as_ref().unwrap();
        assert_eq!(site.pc, fault.registers.pc().to_string());
        assert_eq!(finding.outcome.address, Some(fault.address.to_string()));
        let mut puppet = Puppet::new(&capsule).unwrap();
        for _ in 0..1000 {
            let ended = puppet.walk().unwrap();
            assert_eq!(
                capsule.facts.expected.differences(&ended),
                Vec::<String>::new()
            );
        }
        let mut small = capsule.clone();
        let dropped = small.refer(|file| Some((&file.path).into()));
        let bytes = small.to_bytes().unwrap().len();
        println!(
            "note: {} in {} bytes, {bytes} with {dropped} of {} pages by reference",
            finding.title,
            std::fs::metadata(&path).unwrap().len(),
            capsule.pages.len()
        );
        assert!(dropped >= 5 && bytes < 12 << 10);
    }
}

/// Untouched walks are kept as well, whole and minimised.
pub(crate) fn healthy() {
    let mut session = survey(planted::nothing);
    let folder = session.run_folder().path().to_owned();
    let mut depths = std::collections::BTreeSet::new();
    for number in 0..8 {
        let path = folder.join(format!("{number}.wfcap"));
        // A moment in a state that no walker walks is said to be one.
        let Ok(outcome) = session.capture_healthy(512, number % 2 == 0, &path) else {
            continue;
        };
        let capsule = Capsule::read(&path).unwrap();
        let mut puppet = Puppet::new(&capsule).unwrap();
        for _ in 0..100 {
            let ended = puppet.walk().unwrap();
            assert_eq!(outcome.differences(&ended), Vec::<String>::new());
        }
        println!(
            "note: {outcome}, {} pages, {} bytes",
            capsule.pages.len(),
            std::fs::metadata(&path).unwrap().len()
        );
        depths.insert(path);
    }
    assert!(depths.len() >= 4, "{depths:?}");
    session.finish();
}

/// Each way to break the contract of a walk has an outcome and becomes a finding.
pub(crate) fn misbehaviour() {
    if skip() {
        return;
    }
    let mut session = survey(planted::misbehaving);
    let nudges = [Nudge::Null, Nudge::Canary, Nudge::Depth, Nudge::Write].map(|nudge| nudge as i64);
    let mut inputs = vec![planted::input(&nudges); 199];
    inputs.push(planted::input(&[Nudge::Hang as i64]));
    let examined = |found: &[Finding]| {
        let frozen = |finding: &&Finding| finding.reliability.frozen.is_some();
        found.iter().filter(frozen).count() >= 5
    };
    let began = Instant::now();
    hunt(&mut session, &inputs, Duration::from_secs(25), examined);
    println!(
        "note: examined after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let summary = finished(&mut session);
    let found = session.run_folder().findings().unwrap().findings;
    let one = |kind: OutcomeKind, detail: Option<&str>| {
        let same = |finding: &&Finding| {
            finding.outcome.kind == kind && finding.outcome.detail.as_deref() == detail
        };
        let matching: Vec<&Finding> = found.iter().filter(same).collect();
        assert_eq!(matching.len(), 1, "{kind:?} {detail:?}: {found:#?}");
        let finding = matching[0];
        let frozen = finding
            .reliability
            .frozen
            .unwrap_or_else(|| panic!("not examined: {finding:#?}"));
        assert_eq!((frozen.k, frozen.of), (3, 3), "{}", finding.title);
        finding
    };
    let perturbation = |nudge: Nudge| format!("sp+={}", nudge as i64);
    let null = one(OutcomeKind::Fault, None);
    assert_eq!(null.outcome.address.as_deref(), Some("0x0"));
    assert_eq!(null.input.perturbation, perturbation(Nudge::Null));
    let canary = one(OutcomeKind::Breach, Some("Canary"));
    assert_eq!(canary.input.perturbation, perturbation(Nudge::Canary));
    let depth = one(OutcomeKind::Breach, Some("Depth"));
    assert_eq!(depth.input.perturbation, perturbation(Nudge::Depth));
    let hang = one(OutcomeKind::Hang, None);
    assert_eq!(hang.input.perturbation, perturbation(Nudge::Hang));
    let write = one(OutcomeKind::Wrote, None);
    assert_eq!(write.input.perturbation, perturbation(Nudge::Write));
    assert!(
        write.signature.contains("write_to_stack"),
        "{}",
        write.signature
    );
    assert_eq!(found.len(), 5, "{found:#?}");

    let row = |name: &str| {
        let row = summary.outcomes.iter().find(|row| row.name == name);
        row.map_or(0, |row| row.perturbed)
    };
    for name in ["frames", "fault", "hang", "breach"] {
        println!("note: {} {name}", row(name));
    }
    assert_eq!(row("hang"), summary.events.hangs);
    assert!(row("hang") > 0 && row("breach") > 1 && row("fault") > 0);
    assert!(summary.events.stack_writes > 0);
    assert_eq!(row("hang") + row("fault"), summary.events.recoveries);
}

/// What a survey kept happens again in a strict run, which aborts; what does nothing is said to do nothing.
pub(crate) fn strict() {
    if skip() {
        return;
    }
    let runs = std::env::var("WALKFUZZ_RUNS").unwrap();
    let survey = again("strict_survey").status().unwrap();
    assert!(survey.success());
    let folder = walkfuzz_record::RunFolder::latest(Path::new(&runs)).unwrap();
    let found = folder.findings().unwrap().findings;
    let finding = found.first().unwrap();
    let artifact = folder.path().join(finding.input.artifact.as_ref().unwrap());
    let output = again("strict_again")
        .env("WALKFUZZ_TEST_INPUT", &artifact)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(aborted(output.status), "{}: {said}", output.status);
    let token = said
        .lines()
        .find_map(|line| line.strip_prefix("DEDUP_TOKEN: "));
    assert_eq!(token, Some(finding.signature.as_str()), "{said}");
    assert!(said.contains(&format!("sp+={LEAST}")), "{said}");

    let output = again("strict_nothing").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(
        said.contains("walkfuzz: not reproduced at 20 moments"),
        "{said}"
    );
    assert!(!said.contains("DEDUP_TOKEN"), "{said}");
}

/// A strict session that must abort.
pub(crate) fn strict_again() {
    let input = std::fs::read(std::env::var_os("WALKFUZZ_TEST_INPUT").unwrap()).unwrap();
    let arguments = ["live".to_owned()];
    let mut session =
        Session::start_with_walker(Mode::Strict, &arguments, None, planted::raised_sp).unwrap();
    session.run_input(&input).unwrap();
}

/// A strict session without anything to find.
pub(crate) fn strict_nothing() {
    let arguments = ["live".to_owned()];
    let mut session =
        Session::start_with_walker(Mode::Strict, &arguments, None, planted::raised_sp).unwrap();
    session.run_input(&planted::input(&[0])).unwrap();
}
