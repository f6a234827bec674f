//! A surveying run from outside: the run folder, children that come and go, the summary at the end.

use std::cell::Cell;
use std::path::PathBuf;

use jiff::Timestamp;
use walkfuzz_record::render::end_screen;
use walkfuzz_record::summary::Evidence;
use walkfuzz_record::{
    Counter, FindingVerdict, ProcessEnd, Record, RunFolder, SCHEMA, StoreError, Summary, Totals,
};
use walkfuzz_triage::{Blame, CrashLog, Death, Ended, Exit, blame, classify};

use crate::error::HarnessError;
use crate::settings::{EngineKind, Settings};
use crate::supervisor::{ChildEnd, DiedOf, RETIRED, Side, remaining_arguments, supervise};
use crate::{oom, run, start};

pub use crate::run::{create as create_run, end_process};
pub use walkfuzz_record::machine::machine;

/// The exit code of a run that was asked for what cannot be.
const USAGE: i32 = 2;
/// The exit code of a run that its surroundings have spoilt.
const ENVIRONMENT: i32 = 3;
/// libFuzzer's exit status when a unit took too long (`-timeout_exitcode`, FuzzerFlags.def).
const LIBFUZZER_TIMEOUT: i32 = 70;

/// What a process that begins a survey becomes.
pub enum Role {
    /// A child: start a session in this folder, with these arguments.
    Child {
        /// The run folder.
        run: RunFolder,
        /// libFuzzer's arguments, with what is left of time and runs.
        arguments: Vec<String>,
    },
    /// The parent after the last child: end with this exit code.
    Done(i32),
}

/// Makes the run folder and supervises children. Returns in each child, and in the parent when all is over.
///
/// # Errors
/// No JDK, no run folder, no fork.
pub fn begin(settings: &Settings, arguments: &[String]) -> Result<Role, HarnessError> {
    let options = start::jvm_options()?;
    let given = std::env::var_os("WALKFUZZ_RUN").map(PathBuf::from);
    let folder = match &given {
        Some(path) => RunFolder::open(path)?,
        None => run::create(settings, &options, arguments)?,
    };
    let book = Book::new(&folder);
    let note = |pid, end, interrupted| note_end(&book, settings.engine, pid, end, interrupted);
    let side = supervise(note).map_err(|source| HarnessError::System {
        what: "cannot fork a child",
        source,
    })?;
    match side {
        Side::Child { generation: 0, .. } => Ok(Role::Child {
            run: folder,
            arguments: arguments.to_vec(),
        }),
        Side::Child {
            elapsed,
            generation,
        } => match remaining_arguments(arguments, elapsed, inputs_done(&folder), generation) {
            Some(arguments) => Ok(Role::Child {
                run: folder,
                arguments,
            }),
            None => run::end_process(0),
        },
        Side::Parent { code, .. } => {
            let is_refused = matches!(code, USAGE | ENVIRONMENT) && given.is_none();
            if is_refused && run::remove_unused(&folder) {
                return Ok(Role::Done(code));
            }
            finish(&book);
            if given.is_none()
                && let Ok(summary) = summarise(&folder)
            {
                eprintln!("{}", end_screen(&summary));
            }
            // Lost evidence is no success.
            let lost = code == 0 && book.lost.get();
            Ok(Role::Done(if lost { ENVIRONMENT } else { code }))
        }
    }
}

/// The run folder as the parent writes it, and whether something could not be written: the disk may be full.
struct Book<'a> {
    folder: &'a RunFolder,
    lost: Cell<bool>,
    /// How often the kernel had killed for want of memory when the last child ended.
    oom_kills: Cell<u64>,
}

impl<'a> Book<'a> {
    fn new(folder: &'a RunFolder) -> Self {
        Self {
            folder,
            lost: Cell::new(false),
            oom_kills: Cell::new(oom::kills()),
        }
    }

    /// Says what could not be written.
    fn check<T>(&self, result: Result<T, StoreError>) {
        if let Err(error) = result {
            eprintln!("walkfuzz: {error}");
            self.lost.set(true);
        }
    }
}

/// Folds a run folder.
///
/// # Errors
/// It cannot be read.
pub fn summarise(folder: &RunFolder) -> Result<Summary, HarnessError> {
    let records = folder.records()?;
    let unreadable_records = records.iter().filter(|record| record.is_err()).count() as u64;
    let totals = Totals::of(records.iter().flatten());
    let (facts, findings, processes) = (folder.facts()?, folder.findings()?, folder.processes()?);
    Ok(Summary::of(Evidence {
        facts: &facts,
        totals: &totals,
        findings: &findings,
        processes: &processes,
        unreadable_records,
        folder: &folder.path().display().to_string(),
    }))
}

fn finish(book: &Book<'_>) {
    let folder = book.folder;
    let Ok(mut facts) = folder.facts() else {
        return;
    };
    facts.finished = Some(Timestamp::now());
    book.check(folder.write_facts(&facts));
    if let Ok(records) = folder.records() {
        book.check(folder.export_histograms(&Totals::of(records.iter().flatten()), facts.started));
    }
}

fn inputs_done(folder: &RunFolder) -> u64 {
    folder.records().map_or(0, |records| {
        records
            .iter()
            .flatten()
            .map(|record| Totals::of([record]).counter(Counter::Inputs))
            .sum()
    })
}

/// Writes down what became of a child; a death that a walk is to blame for is a finding.
fn note_end(
    book: &Book<'_>,
    engine: EngineKind,
    pid: i32,
    end: ChildEnd,
    interrupted: bool,
) -> DiedOf {
    let folder = book.folder;
    let record = folder.records().ok().and_then(|records| {
        records
            .into_iter()
            .flatten()
            .find(|record| record.pid == u64::from(pid.unsigned_abs()))
    });
    let in_flight = record.as_ref().map(Record::in_flight).unwrap_or_default();
    let path = folder.path().join(format!("hs_err_pid{pid}.log"));
    let log = std::fs::read(&path)
        .ok()
        .map(|bytes| CrashLog::parse(&bytes));
    let (exit_code, signal) = match end {
        ChildEnd::Exited(code) => (Some(code), None),
        ChildEnd::Killed(signal) => (None, Some(signal)),
    };
    let ended = match end {
        _ if interrupted => Ended::Interrupted,
        ChildEnd::Exited(RETIRED) => Ended::Retired,
        // Told by the session or by libFuzzer on purpose: an error that was named, or a survey that was told to stop.
        ChildEnd::Exited(0..=4) if log.is_none() => Ended::ByItself(Exit::Code(0)),
        ChildEnd::Exited(LIBFUZZER_TIMEOUT) => Ended::StoodStill,
        ChildEnd::Exited(code) => Ended::ByItself(Exit::Code(code)),
        ChildEnd::Killed(signal) => Ended::ByItself(Exit::Signal(signal)),
    };
    let oom_kills = oom::kills();
    let death = Death {
        ended,
        log: log.as_ref(),
        open_walk: !in_flight.is_empty(),
        recoveries: record.as_ref().map_or(0, |record| {
            Totals::of([record]).counter(Counter::Recoveries)
        }),
        // Another process may have been the kernel's victim meanwhile: only who died of SIGKILL was it.
        oom_killed: book.oom_kills.replace(oom_kills) < oom_kills
            && end == ChildEnd::Killed(libc::SIGKILL),
    };
    let outcome = classify(&death);
    let process = ProcessEnd {
        schema: SCHEMA,
        pid: pid.unsigned_abs(),
        at: Timestamp::now(),
        outcome,
        exit_code,
        signal,
        in_flight: in_flight.clone(),
        crash_log: log.is_some().then(|| path.display().to_string()),
    };
    book.check(folder.append_process(&process));
    if outcome.is_orderly() {
        return DiedOf::Nothing;
    }
    // A user or the kernel (memory) sent it, and it hits a walk as often as the process walks: a suspicion, never a bug.
    let killed = end == ChildEnd::Killed(libc::SIGKILL);
    let tainted = match blame(outcome, &death) {
        Blame::Walk => false,
        Blame::Recovery => true,
        Blame::Nobody | Blame::Environment => {
            eprintln!(
                "walkfuzz: process {pid} {}, no walk open, no recovery to blame ({}): not counted as a finding",
                ended.describe(),
                outcome.name()
            );
            return if log.is_some() {
                DiedOf::Crash
            } else {
                DiedOf::Nothing
            };
        }
    };
    if let (Ok(facts), Some(record)) = (folder.facts(), record) {
        let mut finding = crate::assemble::death(&crate::assemble::Remains {
            run: folder,
            facts: &facts,
            engine,
            record: &record,
            outcome,
            ended,
            log: log.as_ref(),
            tainted,
        });
        if killed {
            finding.tainted = true;
            finding.verdict = FindingVerdict::Robustness;
        }
        eprintln!("walkfuzz: process {pid} died: {}", finding.title);
        book.check(folder.append_finding(&finding));
    }
    if killed {
        DiedOf::Nothing
    } else {
        DiedOf::Walk
    }
}
