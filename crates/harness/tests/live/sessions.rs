//! Sessions that walk with the JVM's own walker, or with one that walks nowhere.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use walkfuzz_context::generate::{Rng, batch, tear};
use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Arch, Batch, BlobKind, Perturbation};
use walkfuzz_harness::campaign::summarise;
use walkfuzz_harness::{Mode, Session};
use walkfuzz_record::{Generation, Summary, Verdict};
use walkfuzz_walkers::{Agct, ExtensionCall, RequestStackTrace, Walker};

use crate::planted;

/// A session in survey mode, in a run folder of its own.
pub(crate) fn survey(walker: fn(Agct) -> Box<dyn Walker>) -> Session {
    Session::start_with_walker(Mode::Survey, &["live".to_owned()], None, walker).unwrap()
}

/// Ends a session and reads what it left.
pub(crate) fn finished(session: &mut Session) -> Summary {
    session.finish();
    let summary = summarise(session.run_folder()).unwrap();
    assert_eq!(summary.evidence.damaged_records, 0, "{summary:?}");
    assert_eq!(summary.evidence.unreadable_records, 0, "{summary:?}");
    assert_eq!(summary.evidence.damaged_lines, 0, "{summary:?}");
    assert_eq!(summary.events.abandoned, 0, "{summary:?}");
    summary
}

fn print_findings(summary: &Summary) {
    for finding in &summary.findings {
        println!("note: finding: {} ({} times)", finding.title, finding.count);
    }
}

/// The kinds of code that threads were held in.
fn kinds(session: &Session) -> BTreeSet<&'static str> {
    session
        .world()
        .witness
        .observed()
        .map(|(class, _)| class.kind.name())
        .collect()
}

/// Torn contexts of held threads, which another thread walks.
pub(crate) fn from_outside() {
    const INPUTS: u64 = 400;
    let mut session = Session::start(Mode::Survey, &["live".to_owned()], None).unwrap();
    let mut dice = Rng::new(3);
    for _ in 0..INPUTS {
        let mut torn = batch(&mut dice, Arch::NATIVE);
        tear(&mut torn, &mut dice);
        session.run_input(&torn.to_bytes()).unwrap();
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    let hands = names.filter(|name| name.as_ref().is_ok_and(|name| name == "walkfuzz-hand\n"));
    assert_eq!(hands.count(), 1);
    let summary = finished(&mut session);
    // A share would tell of the moments: those of one stub that cannot be walked from come in clumps.
    assert!(summary.controls.k >= 40, "controls {:?}", summary.controls);
    assert!(summary.perturbed_walks > 4 * INPUTS, "{summary:?}");
    for finding in &summary.findings {
        assert!(
            finding.title.contains("via agct-remote-running"),
            "{}",
            finding.title
        );
    }
    println!(
        "note: {} walks from outside, {} perturbed",
        summary.walks, summary.perturbed_walks
    );
    print_findings(&summary);
}

/// Contexts of held threads, which another thread walks while they wait: nothing is torn.
pub(crate) fn by_another_thread() {
    const INPUTS: u64 = 400;
    let mut session = Session::start(Mode::Survey, &["live".to_owned()], None).unwrap();
    let mut dice = Rng::new(3);
    for _ in 0..INPUTS {
        let mut torn = batch(&mut dice, Arch::NATIVE);
        tear(&mut torn, &mut dice);
        session.run_input(&torn.to_bytes()).unwrap();
    }
    let summary = finished(&mut session);
    // As above.
    assert!(summary.controls.k >= 40, "controls {:?}", summary.controls);
    assert!(summary.perturbed_walks > 2 * INPUTS, "{summary:?}");
    let findings = session.run_folder().findings().unwrap().findings;
    let name = std::env::var("WALKFUZZ_WALKER").unwrap();
    for finding in &findings {
        assert!(
            finding.title.contains(&format!("via {name}")),
            "{}",
            finding.title
        );
        assert_ne!(finding.tier, "T3", "{finding:#?}");
    }
    println!("note: {} walks, {} findings", summary.walks, findings.len());
}

/// How often the extension function was called, and what with: thread or no context.
static ASKED: AtomicU64 = AtomicU64::new(0);
static ASKED_WRONGLY: AtomicU64 = AtomicU64::new(0);

/// An extension function in the place of a JVM's: takes six of seven requests.
unsafe extern "C" fn extension(
    environment: *mut c_void,
    thread: *mut c_void,
    context: *mut c_void,
    _: i64,
) -> i32 {
    let right = environment as usize == 0x1110 && thread.is_null() && !context.is_null();
    ASKED_WRONGLY.fetch_add(u64::from(!right), Ordering::Relaxed);
    match ASKED.fetch_add(1, Ordering::Relaxed) % 7 {
        3 => 98,
        _ => 0,
    }
}

/// A session asks with RequestStackTrace, at untouched contexts and perturbed ones.
pub(crate) fn requests() {
    const INPUTS: u64 = 300;
    let mut session = survey(|_| {
        type Fixed = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, i64) -> i32;
        // SAFETY: its arguments go where those of a variadic function go, in this calling convention.
        let function = unsafe { std::mem::transmute::<Fixed, ExtensionCall>(extension) };
        // SAFETY: the function above looks at no environment.
        Box::new(unsafe { RequestStackTrace::new(function, 0x1110 as *mut c_void) })
    });
    for _ in 0..INPUTS {
        session.run_input(&[]).unwrap();
    }
    let asked = ASKED.load(Ordering::Relaxed);
    let summary = finished(&mut session);
    assert!(summary.walks <= asked && asked < 2 * summary.walks);
    assert_eq!(ASKED_WRONGLY.load(Ordering::Relaxed), 0);
    // A request that is taken is all that can be seen of one: a control, too.
    assert!(summary.controls.k >= INPUTS / 2, "{:?}", summary.controls);
    assert!(summary.controls.k < summary.controls.of);
    let of_code = |code: i32| -> u64 {
        let rows = summary.outcomes.iter();
        rows.filter(|row| {
            row.code == Some(code) && row.generation == Some(Generation::RequestStackTrace)
        })
        .map(|row| row.untouched + row.perturbed)
        .sum()
    };
    println!(
        "note: {asked} requests: {} taken, {} not",
        of_code(0),
        of_code(-1)
    );
    assert_eq!(of_code(0) + of_code(-1), summary.walks, "{summary:?}");
    assert!(of_code(0) > of_code(-1) && of_code(-1) > 0);
    assert_eq!(summary.findings.len(), 0, "{:?}", summary.findings);
}

/// No JVM of today offers it.
pub(crate) fn no_requests() {
    let refused = Session::start(Mode::Survey, &["live".to_owned()], None);
    let error = refused.err().expect("a JVM that offers RequestStackTrace");
    assert_eq!(
        error.to_string(),
        "this JVM offers no RequestStackTrace: the walker request-stack-trace has nothing to ask"
    );
    assert_eq!(error.exit_code(), 3);
    let runs = std::fs::read_dir(std::env::var("WALKFUZZ_RUNS").unwrap()).unwrap();
    assert_eq!(runs.count(), 0, "a folder of a run that never was");
    println!("note: {error}");
}

/// Generated inputs on held threads.
pub(crate) fn live_park() {
    const INPUTS: u64 = 3_000;
    let mut session = survey(planted::nothing);
    for _ in 0..INPUTS {
        session.run_input(&[]).unwrap();
    }
    let summary = finished(&mut session);
    let controls = summary.controls.k as f64 / summary.controls.of as f64;
    assert!(controls >= 0.5, "controls {:?}", summary.controls);
    assert_eq!(summary.engine.inputs, INPUTS);
    assert_eq!(summary.controls.of, INPUTS);
    assert!(summary.perturbed_walks >= INPUTS, "{summary:?}");
    assert!(summary.walks > 2 * INPUTS, "{summary:?}");
    let count = |named: fn(&str) -> bool| -> u64 {
        let rows = summary.outcomes.iter();
        rows.filter(|row| named(&row.name))
            .map(|row| row.untouched + row.perturbed)
            .sum()
    };
    let frames = count(|name| name == "frames");
    let codes: u64 = summary
        .outcomes
        .iter()
        .filter(|row| row.code.is_some())
        .map(|row| row.untouched + row.perturbed)
        .sum();
    assert!(
        frames > INPUTS / 2 && codes > INPUTS / 2,
        "{frames} with frames, {codes} codes"
    );
    let recovered = count(|name| name == "fault" || name == "hang");
    assert_eq!(recovered, summary.events.recoveries, "{summary:?}");
    assert!(summary.engine.parks > 1, "{summary:?}");
    assert!(
        summary.untouched_faults.k == 0,
        "{:?}",
        summary.untouched_faults
    );
    // Parks are long where walks are fast: until each thread has been held.
    let mut more = 0;
    while (planted::threads_walked() < 3 || kinds(&session).len() < 3) && more < 2_000_000 {
        session.run_input(&[]).unwrap();
        more += 1;
    }
    let kinds = kinds(&session);
    assert!(planted::threads_walked() >= 3, "{more} inputs more");
    assert!(kinds.len() >= 3, "{kinds:?}");
    assert!(
        kinds.contains(BlobKind::Interpreter.name()) || kinds.contains(BlobKind::Nmethod.name()),
        "{kinds:?}"
    );
    println!(
        "note: {:.1} % of {} controls, {} walks, {} threads, {kinds:?}, {} faults",
        controls * 100.0,
        summary.controls.of,
        summary.walks,
        planted::threads_walked(),
        summary.perturbed_faults.k
    );
    print_findings(&summary);
}

/// Breakpoints in the walk code: each is met once, whoever meets it, and nobody notices.
pub(crate) fn blocks() {
    /// Inputs between two looks.
    const ROUND: usize = 1_500;
    let mut session = survey(planted::nothing);
    let counts = |session: &Session| {
        let blocks = session.blocks().unwrap();
        (blocks.planted(), blocks.seen())
    };
    if !cfg!(target_arch = "x86_64") {
        assert!(session.blocks().is_none());
        println!("skip: breakpoints are planted on x86_64 alone");
        return;
    }
    let (planted, _) = counts(&session);
    assert!(planted > 3_000, "{planted} blocks");
    // Long enough for collections and compilations.
    let began = Instant::now();
    let mut seen = vec![0];
    let enough = |seen: &[usize]| seen.last().is_some_and(|&seen| seen > 300);
    while began.elapsed() < Duration::from_secs(if enough(&seen) { 6 } else { 30 }) {
        for _ in 0..ROUND {
            session.run_input(&[]).unwrap();
        }
        seen.push(counts(&session).1);
    }
    let blocks = session.blocks().unwrap();
    println!(
        "note: {planted} blocks of {} functions ({} left out) planted in {:.1} ms, {} met elsewhere alone; seen after each of {} rounds: {:?} ...",
        blocks.functions(),
        blocks.left_out(),
        blocks.planting_time().as_secs_f64() * 1e3,
        blocks.met_elsewhere(),
        seen.len() - 1,
        seen.iter()
            .step_by((seen.len() / 12).max(1))
            .collect::<Vec<_>>()
    );
    let summary = finished(&mut session);
    let last = *seen.last().unwrap();
    assert!(last > 300, "{seen:?}");
    assert!(last < planted, "{seen:?}");
    assert!(seen.is_sorted(), "{seen:?}");
    // Most blocks come early: less in the second half than in the first.
    let half = seen[seen.len() / 2];
    assert!(last - half < half, "{seen:?}");
    assert_eq!(summary.events.blocks_planted, planted as u64);
    assert!(summary.events.blocks_seen >= last as u64);
    assert!(
        summary.controls.k as f64 >= summary.controls.of as f64 * 0.8,
        "{:?}",
        summary.controls
    );
    print_findings(&summary);
}

/// A walk at each instruction.
pub(crate) fn natural_steps() {
    const WALKS: u64 = 50_000;
    let mut session = survey(planted::nothing);
    let costs = session.walk_naturally(WALKS, || true).unwrap();
    let summary = finished(&mut session);
    assert_eq!(costs.walks, WALKS);
    assert_eq!(summary.untouched_walks, WALKS, "{summary:?}");
    assert_eq!(summary.perturbed_walks, 0, "{summary:?}");
    assert_eq!(summary.controls.of, WALKS);
    assert!(
        summary.controls.k > WALKS / 10,
        "controls {:?}",
        summary.controls
    );
    assert!(summary.engine.steps > WALKS / 2, "{:?}", summary.engine);
    let witness = &session.world().witness;
    assert_eq!(witness.total(), WALKS);
    let seen: BTreeSet<_> = witness.observed().map(|(class, _)| class.offset).collect();
    for wanted in [
        OffsetClass::Entry,
        OffsetClass::Prologue,
        OffsetClass::Body,
        OffsetClass::Epilogue,
    ] {
        assert!(seen.contains(&wanted), "no {wanted:?}, only {seen:?}");
    }
    println!(
        "note: {} steps, {:.1} % controls, {:?}",
        summary.engine.steps,
        summary.controls.k as f64 * 100.0 / WALKS as f64,
        kinds(&session)
    );
    // The JVM's own business: a finding, and no failure of this suite.
    print_findings(&summary);
}

/// Interpreter frames whose method is no method: HotSpot looks whether it can read there, through SafeFetch.
pub(crate) fn near_misses() {
    let mut session = survey(planted::nothing);
    // fp at each of the walked stack's slots in turn: some have a word below them that is no pointer.
    let inputs: Vec<Vec<u8>> = (0..16)
        .map(|first| {
            let mut batch = Batch::untouched(Arch::NATIVE);
            let walks: Vec<Perturbation> = (first * 16..first * 16 + 16)
                .map(|slot| format!("pc=codelet[{}] fp=stack-slot[{}]", slot * 7, slot / 2))
                .map(|text| Perturbation::parse(Arch::NATIVE, &text).unwrap())
                .collect();
            batch.set_walks(&walks);
            batch.to_bytes()
        })
        .collect();
    // It takes a moment with such a word.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        for input in inputs.iter().cycle().take(4_000) {
            session.run_input(input).unwrap();
        }
        if summarise(session.run_folder()).unwrap().events.near_misses > 0 {
            break;
        }
    }
    let summary = finished(&mut session);
    println!(
        "note: {} near misses in {} walks, {} faults",
        summary.events.near_misses, summary.perturbed_walks, summary.perturbed_faults.k
    );
    print_findings(&summary);
    assert!(summary.events.near_misses > 0, "{summary:?}");
    assert!(
        !summary
            .findings
            .iter()
            .any(|finding| finding.title.contains("SafeFetch")),
        "{:?}",
        summary.findings
    );
}

/// A walker that walks nowhere proves nothing, and its process does not count as sane. Ends as a retired child does.
pub(crate) fn vacuous() {
    let mut session = survey(planted::refusing);
    for _ in 0..1_000 {
        session.run_input(&[]).unwrap();
    }
    let summary = finished(&mut session);
    assert_eq!(summary.verdict, Verdict::Unknown, "{}", summary.reason);
    assert!(summary.reason.starts_with("vacuous"), "{}", summary.reason);
    assert_eq!(summary.controls.k, 0);
    for _ in 0..200_000 {
        session.run_input(&[]).unwrap();
    }
    panic!("the session never retired");
}

/// Whatever bytes come.
pub(crate) fn bad_input() {
    let mut session = survey(planted::nothing);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |length: usize| -> Vec<u8> {
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        words.flatten().take(length).collect()
    };
    let mut inputs = vec![Vec::new(), vec![0; 1], vec![0xff; 4096], random(10 << 20)];
    inputs.extend((0..2_000).map(&mut random));
    let count = inputs.len() as u64;
    for input in &inputs {
        session.run_input(input).unwrap();
        let _ = Session::describe(input.get(..input.len().min(4096)).unwrap());
    }
    let summary = finished(&mut session);
    assert_eq!(summary.engine.inputs, count);
    assert_eq!(summary.controls.of, count);
    print_findings(&summary);
}
