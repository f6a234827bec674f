//! Runs that outlive their processes.

use walkfuzz_harness::campaign::{Role, begin, end_process, summarise};
use walkfuzz_harness::{Mode, Session, Settings};
use walkfuzz_record::{
    Finding, FindingVerdict, OutcomeKind, ProcessOutcome, RunFolder, Summary, Verdict,
};

use crate::planted::{self, CAN_PLANT, Nudge};

/// Which of a run's processes this is, from 0.
fn generation(run: &RunFolder) -> usize {
    run.records().unwrap().len()
}

/// Supervises: `child` in each child process, with its generation; the run folder in the parent, after the last of them.
fn supervised(runs: u64, child: impl FnOnce(&mut Session, usize, u64)) -> RunFolder {
    let arguments = ["live".to_owned(), format!("-runs={runs}")];
    let settings = Settings::from_environment().unwrap();
    match begin(&settings, &arguments).unwrap() {
        Role::Child { run, arguments } => {
            let generation = generation(&run);
            let left = arguments[1].strip_prefix("-runs=").unwrap();
            let left = left.parse().unwrap();
            let mut session = Session::start_with_walker(
                Mode::Survey,
                &arguments,
                Some(run),
                planted::misbehaving,
            )
            .unwrap();
            child(&mut session, generation, left);
            session.finish();
            end_process(0)
        }
        Role::Done(code) => {
            assert_eq!(code, 0);
            RunFolder::latest(&settings.runs).unwrap()
        }
    }
}

fn skip() -> bool {
    if !CAN_PLANT {
        println!("note: skip: faults cannot be planted on this architecture");
    }
    !CAN_PLANT
}

fn ends(folder: &RunFolder) -> Vec<ProcessOutcome> {
    let ends = folder.processes().unwrap();
    ends.iter().map(|end| end.outcome).collect()
}

fn read(folder: &RunFolder) -> (Summary, Vec<Finding>) {
    let summary = summarise(folder).unwrap();
    assert_eq!(summary.evidence.damaged_records, 0, "{summary:?}");
    assert_eq!(summary.evidence.unreadable_records, 0, "{summary:?}");
    (summary, folder.findings().unwrap().findings)
}

/// Enough recoveries retire a process; the run goes on where it was.
pub(crate) fn retired() {
    if skip() {
        return;
    }
    const RUNS: u64 = 30_000;
    let folder = supervised(RUNS, |session, generation, left| {
        let (good, bad) = (planted::input(&[0]), planted::input(&[Nudge::Null as i64]));
        for number in 0..left {
            // The third process has nothing to recover from.
            let input = if number % 25 == 0 && generation < 2 {
                &bad
            } else {
                &good
            };
            session.run_input(input).unwrap();
        }
    });
    let (summary, found) = read(&folder);
    let ends = ends(&folder);
    println!("note: {ends:?}, {} inputs", summary.engine.inputs);
    assert_eq!(
        ends,
        [
            ProcessOutcome::Retired,
            ProcessOutcome::Retired,
            ProcessOutcome::Clean
        ]
    );
    assert_eq!(summary.evidence.records, 3);
    assert_eq!(summary.engine.inputs, RUNS);
    assert_eq!(summary.controls.of, RUNS);
    let records: Vec<_> = folder.records().unwrap().into_iter().flatten().collect();
    let tainted = records
        .iter()
        .filter(|record| record.tainted_after.is_some());
    assert_eq!(tainted.count(), 2);
    let walks: u64 = records
        .iter()
        .flat_map(|record| &record.lanes)
        .map(|lane| lane.walks)
        .sum();
    assert_eq!(walks, summary.walks);
    // Those that were tried at other moments are no sightings.
    let [finding] = &found[..] else {
        panic!("{found:#?}");
    };
    assert!(finding.count >= 2 && finding.count <= summary.events.recoveries);
    assert!(summary.finished);
}

/// An abort inside a walk is a finding with the walk's registers, and the run goes on.
pub(crate) fn aborts() {
    if skip() {
        return;
    }
    const RUNS: u64 = 400;
    let folder = supervised(RUNS, |session, generation, left| {
        for number in 0..left {
            let fatal = generation == 0 && number == 99;
            let raised = if fatal { Nudge::Abort as i64 } else { 8 };
            session.run_input(&planted::input(&[raised])).unwrap();
        }
    });
    let (summary, found) = read(&folder);
    assert_eq!(
        ends(&folder),
        [ProcessOutcome::AbortInWalk, ProcessOutcome::Clean]
    );
    assert_eq!(summary.engine.inputs, RUNS);
    assert_eq!(summary.verdict, Verdict::Findings, "{}", summary.reason);
    let deaths: Vec<_> = found
        .iter()
        .filter(|finding| finding.outcome.kind == OutcomeKind::ProcessDeath)
        .collect();
    let [death] = deaths[..] else {
        panic!("{found:#?}");
    };
    println!("note: {}", death.title);
    assert_eq!(
        death.title,
        "process killed by SIGABRT while walking via misbehaving [T4]"
    );
    assert_eq!(death.outcome.signal.as_deref(), Some("SIGABRT"));
    assert_eq!(death.engine, "live");
    assert_eq!(
        death.input.perturbation,
        format!("sp+={}", Nudge::Abort as i64)
    );
    assert_eq!(death.registers.edited, ["rsp"]);
    assert!(!death.tainted);
    let end = &folder.processes().unwrap()[0];
    assert_eq!(end.signal, Some(libc::SIGABRT));
    assert_eq!(end.in_flight.len(), 1, "{end:?}");
    assert!(end.in_flight[0].contains("edited rsp"), "{end:?}");
}

/// A fault outside walks is the JVM's to report, whoever handled such signals before it started.
pub(crate) fn crash_log() {
    if skip() {
        return;
    }
    const RUNS: u64 = 400;
    let folder = supervised(RUNS, |session, generation, left| {
        for number in 0..left {
            if generation == 0 && number == 100 {
                // The kernel would kill a process whose handler comes back to the fault; what is left of it then is no log.
                fault_in_a_thread();
            }
            session.run_input(&planted::input(&[8])).unwrap();
        }
    });
    let end = &folder.processes().unwrap()[0];
    println!("note: {end:?}");
    let log = end.crash_log.as_ref().expect("a crash log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("SIGSEGV") && log.contains("read_null"),
        "{log}"
    );
    // HotSpot's way to end where it may not dump core.
    assert_eq!((end.exit_code, end.signal), (Some(1), None));
    assert_eq!(
        ends(&folder),
        [ProcessOutcome::CrashElsewhere, ProcessOutcome::Clean]
    );
}

/// Faults in a thread as C makes them. One of Rust's has a signal stack of a few pages, on which no JVM can write a crash log.
fn fault_in_a_thread() {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: none. It ends this process.
        unsafe { planted::read_null() };
        std::ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: `run` needs nothing; the thread is waited for.
    unsafe {
        assert_eq!(
            libc::pthread_create(&raw mut thread, std::ptr::null(), run, std::ptr::null_mut()),
            0
        );
        libc::pthread_join(thread, std::ptr::null_mut());
    }
}

/// Nothing of the record is lost when the kernel ends the process inside a walk.
pub(crate) fn killed_in_walk() {
    if skip() {
        return;
    }
    const RUNS: u64 = 400;
    let folder = supervised(RUNS, |session, generation, left| {
        for number in 0..left {
            let fatal = generation == 0 && number == 123;
            let raised = if fatal { Nudge::Kill as i64 } else { 8 };
            session.run_input(&planted::input(&[raised])).unwrap();
        }
    });
    let (summary, found) = read(&folder);
    let ends = ends(&folder);
    println!(
        "note: {ends:?}, {:?}",
        found.iter().map(|f| &f.title).collect::<Vec<_>>()
    );
    assert_eq!(summary.evidence.records, 2);
    assert_eq!(summary.engine.inputs, RUNS);
    let records = folder.records().unwrap();
    let first = records
        .into_iter()
        .flatten()
        .find(|record| record.ended.is_none() && !record.in_flight().is_empty())
        .expect("a record with an open walk");
    let lane = &first.lanes[0];
    let open = lane.open.as_ref().unwrap();
    assert_eq!(open.edited_names(), ["rsp"]);
    let raised = open.registers.sp().0.wrapping_sub(open.untouched.sp().0);
    assert_eq!(raised, Nudge::Kill as u64);
    let input = lane.input.as_ref().unwrap();
    assert!(input.intact);
    assert_eq!(input.number, 124);
    assert_eq!(input.bytes, planted::input(&[Nudge::Kill as i64]));
    assert_eq!(
        found[0].title,
        "process killed by SIGKILL while walking via misbehaving [T4]"
    );
    // 123 inputs with a control and a walk each, and the control of the last.
    assert_eq!(lane.walks, 123 * 2 + 1);
    let last = lane.recent.last().unwrap();
    assert_eq!((last.number, last.outcome), (lane.walks + 1, None));
    let without = lane.recent.iter().filter(|walk| walk.outcome.is_none());
    assert_eq!(without.count(), 1);
    assert_eq!(
        found[0].input.perturbation,
        format!("sp+={}", Nudge::Kill as i64)
    );
    // Anybody may have sent that signal.
    assert!(found[0].tainted);
    assert_eq!(found[0].verdict, FindingVerdict::Robustness);
}

/// A death that no walk is to blame for is no finding, and the run does not count as passed.
pub(crate) fn killed_between_walks() {
    const RUNS: u64 = 400;
    let folder = supervised(RUNS, |session, generation, left| {
        for number in 0..left {
            if generation == 0 && number == 200 {
                // SAFETY: ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            session.run_input(&planted::input(&[8])).unwrap();
        }
    });
    let (summary, found) = read(&folder);
    assert_eq!(summary.evidence.records, 2);
    assert_eq!(summary.engine.inputs, RUNS);
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(summary.verdict, Verdict::Unknown, "{}", summary.reason);
    println!("note: {:?}: {}", ends(&folder), summary.reason);
}
