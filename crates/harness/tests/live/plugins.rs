//! Walkers from libraries: the examples walk, and each mutant is found and rightly named within a stated number of walks.
//!
//! `plugins/mutants/mutants.c` says what each mutant does wrong.

use std::path::{Path, PathBuf};

use walkfuzz_context::generate::blind;
use walkfuzz_context::{Arch, Batch};
use walkfuzz_harness::{Mode, Session};
use walkfuzz_record::{ContradictionKind, Finding, OutcomeKind, Summary};

use crate::compile;
use crate::sessions::finished;

/// Inputs of at most 16 walks and a control; what is not found within them is not found.
const INPUTS: u64 = 1_500;

/// Compiles a library in the case's own folder.
fn library(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = PathBuf::from(std::env::var("WALKFUZZ_RUNS").unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    compile::library(&folder, name, source, flags)
}

/// A session that walks with a library, as users start one.
fn session(library: &Path) -> Session {
    // SAFETY: no thread has been started in this process.
    unsafe { std::env::set_var("WALKFUZZ_WALKER", library) };
    Session::start(Mode::Survey, &["live".to_owned()], None).unwrap()
}

fn findings(session: &Session) -> Vec<Finding> {
    session.run_folder().findings().unwrap().findings
}

/// What a finding must say.
#[derive(Clone, Copy)]
enum Named {
    /// Its kind, and a part of its signature.
    As(OutcomeKind, &'static str),
    /// Wrong frames.
    Wrong(ContradictionKind),
}

impl Named {
    fn is(self, finding: &Finding) -> bool {
        match self {
            Named::As(kind, signature) => {
                finding.outcome.kind == kind && finding.signature.contains(signature)
            }
            Named::Wrong(kind) => {
                let said = finding.outcome.contradiction.as_ref();
                finding.outcome.kind == OutcomeKind::WrongFrames
                    && said.is_some_and(|said| said.kind == kind)
            }
        }
    }
}

/// Walks `inputs` until a finding is as wanted: the finding, and after how many walks.
fn hunt(
    session: &mut Session,
    inputs: impl Iterator<Item = Batch>,
    right: impl Fn(&Finding) -> bool,
) -> (Finding, usize) {
    let mut walks = 0;
    for batch in inputs {
        session.run_given(&batch.to_bytes()).unwrap();
        walks += batch.walks().len() + 1;
        if let Some(finding) = findings(session).into_iter().find(&right) {
            return (finding, walks);
        }
    }
    panic!("not found in {walks} walks: {:#?}", findings(session));
}

/// Runs a mutant until it is found, and says after how many walks. Those of AsyncGetCallTrace walk untouched contexts alone, because it has faults of its
/// own at others.
fn mutant(mutant: &str, named: Named) {
    let define = format!("-DMUTANT_{mutant}");
    let mut session = session(&library("mutant", "mutants/mutants.c", &[&define]));
    let (found, walks) = match named {
        Named::As(..) => hunt(&mut session, (0..INPUTS).map(blind), |f| named.is(f)),
        Named::Wrong(_) => hunt(&mut session, untouched(), |f| named.is(f)),
    };
    report(mutant, &found, walks);
    let summary = finished(&mut session);
    assert!(summary.walks > 0 && summary.controls.of > 0, "{summary:?}");
    let found = findings(&session);
    for finding in &found {
        println!("note: {}, {} times", finding.title, finding.count);
    }
    // A mutant has one mistake; one around AsyncGetCallTrace has its mistakes as well.
    for finding in &found {
        assert!(named.is(finding) || is_agcts(finding), "{finding:#?}");
    }
}

/// Whether it is AsyncGetCallTrace's own mistake: where the reference judges, its known mistakes about untouched contexts are wrong frames, of any kind.
/// They have no names where a library makes them. How often says little: a moment is walked hundreds of times.
fn is_agcts(finding: &Finding) -> bool {
    std::env::var("WALKFUZZ_ORACLE").is_ok_and(|oracle| oracle == "reference")
        && finding.outcome.kind == OutcomeKind::WrongFrames
        && finding.tier == "T0"
}

fn report(mutant: &str, found: &Finding, walks: usize) {
    println!(
        "note: {mutant}: found within {walks} walks: {}",
        found.title
    );
    assert_eq!(found.walker.name, "mutant");
    assert_eq!(found.signature.split('|').nth(2), Some("mutant"));
}

fn untouched() -> impl Iterator<Item = Batch> {
    (0..INPUTS * 40).map(|_| Batch::untouched(Arch::NATIVE))
}

macro_rules! mutants {
    ($($function:ident: $mutant:literal => $named:expr;)*) => {
        $(pub(crate) fn $function() {
            mutant($mutant, $named);
        })*
    };
}

mutants! {
    unchecked_fp: "UNCHECKED_FP" => Named::As(OutcomeKind::Fault, "|read_unchecked_fp|");
    beyond_stack: "BEYOND_STACK" => Named::As(OutcomeKind::Fault, "|scan_beyond_stack|");
    stale_sp: "STALE_SP" => Named::As(OutcomeKind::Fault, "|read_stale_sp|");
    cycle: "CYCLE" => Named::As(OutcomeKind::Hang, "hang|");
    more_than_depth: "MORE_THAN_DEPTH" => Named::As(OutcomeKind::Breach, "breach|depth|");
    behind_frames: "BEHIND_FRAMES" => Named::As(OutcomeKind::Breach, "breach|canary|");
    allocates: "ALLOCATES" => Named::As(OutcomeKind::Breach, "breach|allocation|");
    leaves_lock: "LEAVES_LOCK" => Named::As(OutcomeKind::Breach, "breach|lockheld|");
    wrong_bci: "WRONG_BCI" => Named::Wrong(ContradictionKind::OtherBci);
    off_by_one_inlined: "OFF_BY_ONE_INLINED" => Named::Wrong(ContradictionKind::MissingFrame);
    skips_at_stub: "SKIPS_AT_STUB" => Named::Wrong(ContradictionKind::MissingFrame);
}

/// Right until a walk faults, and wrong ever after.
pub(crate) fn after_recovery() {
    let define = "-DMUTANT_AFTER_RECOVERY";
    let mut session = session(&library("mutant", "mutants/mutants.c", &[define]));
    for batch in untouched().take(300) {
        session.run_given(&batch.to_bytes()).unwrap();
    }
    let before = findings(&session);
    for finding in &before {
        assert!(is_agcts(finding), "{finding:#?}");
    }
    let inputs = (0..INPUTS)
        .map(blind)
        .flat_map(|batch| [batch, Batch::untouched(Arch::NATIVE)]);
    let wrong = Named::Wrong(ContradictionKind::OtherBci);
    let (found, walks) = hunt(&mut session, inputs, |finding| wrong.is(finding));
    report("AFTER_RECOVERY", &found, walks);
    let summary = finished(&mut session);
    assert!(summary.events.recoveries > 0, "{summary:?}");
    // It says itself that something came before; unless AsyncGetCallTrace made the same mistake earlier.
    let is_its_own = before.iter().any(|own| own.signature == found.signature);
    assert!(found.tainted || is_its_own, "{found:#?}");
}

/// What is no mutant around AsyncGetCallTrace is not found, either.
pub(crate) fn no_mutant_of_agct() {
    let mut session = session(&library("mutant", "mutants/mutants.c", &["-DAROUND_AGCT"]));
    for batch in untouched().take(INPUTS as usize * 10) {
        session.run_given(&batch.to_bytes()).unwrap();
    }
    let summary = finished(&mut session);
    let found = findings(&session);
    let times: u64 = found.iter().map(|finding| finding.count).sum();
    println!(
        "note: {times} wrong in {} walks of {} moments, oracle {:?}",
        summary.walks, summary.engine.parks, summary.oracle
    );
    assert!(summary.oracle.agreed > INPUTS, "{:?}", summary.oracle);
    assert!(times * 4 < summary.oracle.compared, "{:?}", summary.oracle);
    // Whoever asks AsyncGetCallTrace itself finds none; the reference finds AsyncGetCallTrace's own mistakes (docs/reference-walker.md).
    for finding in &found {
        assert!(is_agcts(finding), "{finding:#?}");
    }
}

/// Walks as many contexts as a mutant gets.
fn unspoiled(session: &mut Session) -> Summary {
    for seed in 0..INPUTS {
        session.run_given(&blind(seed).to_bytes()).unwrap();
    }
    finished(session)
}

/// What is no mutant is not found.
pub(crate) fn no_mutant() {
    let mut session = session(&library("mutant", "mutants/mutants.c", &[]));
    let summary = unspoiled(&mut session);
    println!(
        "note: {} walks, {} of {} controls, {} findings",
        summary.walks,
        summary.controls.k,
        summary.controls.of,
        findings(&session).len()
    );
    assert!(summary.walks > INPUTS * 8, "{summary:?}");
    assert!(summary.controls.k * 2 > summary.controls.of, "{summary:?}");
    assert!(findings(&session).is_empty(), "{:#?}", findings(&session));
}

/// The example in C gives frames of every held context, and its codes have its names.
pub(crate) fn example_in_c() {
    let source = "c-frame-pointers/frame_pointers.c";
    let mut session = session(&library("frame_pointers", source, &[]));
    let summary = unspoiled(&mut session);
    example(&session, &summary, "c-frame-pointers");
    let named = |name: &str| summary.outcomes.iter().any(|row| row.name == name);
    assert!(named("outside the code cache"), "{:?}", summary.outcomes);
}

/// The same from sp, fp and pc, which are all that it takes from a context.
pub(crate) fn example_from_frame() {
    let source = "c-frame-pointers/frame_pointers.c";
    let library = library("frame_pointers", source, &[]);
    let mut session = session(Path::new(&format!("frame:{}", library.display())));
    let summary = unspoiled(&mut session);
    example(&session, &summary, "c-frame-pointers-frame");
}

/// From another thread, while the walked one waits: frames of every held context.
pub(crate) fn example_by_another_thread() {
    let (session, summary) = from_another_thread("plugin-remote:");
    example(&session, &summary, "c-frame-pointers-remote");
}

/// From another thread, while the walked one runs on, too.
pub(crate) fn example_from_outside() {
    let (session, summary) = from_another_thread("plugin-remote-running:");
    let facts = session.run_folder().facts().unwrap();
    assert_eq!(facts.walkers[0].name, "c-frame-pointers-remote-running");
    println!(
        "note: {} walks, {:?}, {} findings",
        summary.walks,
        summary.controls,
        findings(&session).len()
    );
    assert!(summary.controls.k >= 40, "{summary:?}");
    assert!(findings(&session).is_empty(), "{:#?}", findings(&session));
}

fn from_another_thread(prefix: &str) -> (Session, Summary) {
    const INPUTS: u64 = 300;
    let source = "c-frame-pointers/frame_pointers.c";
    let library = library("frame_pointers", source, &[]);
    let mut session = session(Path::new(&format!("{prefix}{}", library.display())));
    for seed in 0..INPUTS {
        session.run_input(&blind(seed).to_bytes()).unwrap();
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    let hands = names.filter(|name| name.as_ref().is_ok_and(|name| name == "walkfuzz-hand\n"));
    assert_eq!(hands.count(), 1);
    let summary = finished(&mut session);
    assert!(summary.perturbed_walks > 2 * INPUTS, "{summary:?}");
    (session, summary)
}

/// A library is refused before there is a run, where it cannot walk as it shall.
pub(crate) fn refused_before() {
    for (prefix, lacks) in [
        ("frame:", "walk_from_frame"),
        ("plugin-remote:", "walk_remote"),
    ] {
        let library = library("mutant", "mutants/mutants.c", &[]);
        let folder = library.parent().unwrap();
        let before = std::fs::read_dir(folder).unwrap().count();
        // SAFETY: no thread has been started in this process.
        unsafe { std::env::set_var("WALKFUZZ_WALKER", format!("{prefix}{}", library.display())) };
        let refused = Session::start(Mode::Survey, &["live".to_owned()], None);
        let error = refused.err().expect("a walker that cannot walk so");
        assert!(
            error.to_string().contains(&format!("has no {lacks}")),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
        let after = std::fs::read_dir(folder).unwrap().count();
        assert!(before > 0 && after == before, "{before} and {after} files");
        println!("note: {error}");
    }
}

/// Framehop, which cargo builds beside this test.
pub(crate) fn example_in_rust() {
    // Named here, so that it is built.
    assert!(!walkfuzz_framehop::walkfuzz_walker().is_null());
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_framehop.so");
    let mut session = session(&library);
    let summary = unspoiled(&mut session);
    example(&session, &summary, "framehop");
    assert!(summary.depth_frames.p50 > 1, "{:?}", summary.depth_frames);
}

fn example(session: &Session, summary: &Summary, name: &str) {
    let depth = &summary.depth_frames;
    println!(
        "note: {name}: {} walks, {} of {} controls gave frames, depth {depth:?}, {} findings",
        summary.walks,
        summary.controls.k,
        summary.controls.of,
        findings(session).len()
    );
    let facts = session.run_folder().facts().unwrap();
    assert_eq!(facts.walkers[0].name, name);
    assert!(!facts.walkers[0].version.is_empty());
    assert_eq!(summary.controls.k, summary.controls.of, "{summary:?}");
    assert!(findings(session).is_empty(), "{:#?}", findings(session));
}
