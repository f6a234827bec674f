//! What became of a JVM process, from what is left of it.
//!
//! A JVM that crashes writes its crash log and aborts, so that the exit status alone tells little: SIGABRT is the end of
//! a fault, of a failed check and of running out of memory alike. The crash log and the mapped record tell them apart.

use walkfuzz_record::ProcessOutcome;

use crate::hs_err::{Cause, CrashLog};
use crate::signature::Signal;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Who ended the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ended by itself, or somebody outside ended it.
    ByItself(Exit),
    /// The driver, because no progress was seen.
    StoodStill,
    /// The driver, because its time was up.
    OutOfTime,
    /// The driver, after as many recoveries as one process may have.
    Retired,
    /// The driver, because the user asked it to stop.
    Interrupted,
}

/// What is left of a process.
#[derive(Clone, Copy, Debug)]
pub struct Death<'a> {
    /// Who ended it, and how.
    pub ended: Ended,
    /// Its crash log, if it left one.
    pub log: Option<&'a CrashLog>,
    /// Whether its mapped record shows a walk begun and not ended.
    pub open_walk: bool,
    /// From how many faults it had recovered.
    pub recoveries: u64,
    /// Whether the kernel says that it killed the process to free memory (`oom_kill` of its control group).
    pub oom_killed: bool,
}

impl Ended {
    /// In words that go behind "process": `killed by SIGKILL`, `exited with 3`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Ended::ByItself(Exit::Code(code)) => format!("exited with {code}"),
            Ended::ByItself(Exit::Signal(number)) => match Signal::from_number(number) {
                Some(signal) => format!("killed by {signal}"),
                None => format!("killed by signal {number}"),
            },
            Ended::StoodStill => "stood still".to_owned(),
            Ended::OutOfTime => "ran out of time".to_owned(),
            Ended::Retired => "retired".to_owned(),
            Ended::Interrupted => "interrupted".to_owned(),
        }
    }

    /// The signal that ended it, if one did.
    #[must_use]
    pub fn signal(self) -> Option<Signal> {
        match self {
            Ended::ByItself(Exit::Signal(number)) => Signal::from_number(number),
            _ => None,
        }
    }
}

/// What became of the process.
#[must_use]
pub fn classify(death: &Death<'_>) -> ProcessOutcome {
    let log = death.log.filter(|log| log.is_crash_log());
    let in_walk = death.open_walk || log.is_some_and(|log| log.walker().is_some());
    match log.and_then(|log| log.cause.as_ref()) {
        Some(Cause::OutOfMemory { .. }) => return ProcessOutcome::OutOfMemory,
        // Somebody sent it: the process did not crash, whatever it was doing.
        Some(Cause::Signal {
            sent_by_kill: true, ..
        }) => return ProcessOutcome::CrashElsewhere,
        Some(Cause::Internal { .. }) if in_walk => return ProcessOutcome::AbortInWalk,
        _ => {}
    }
    if log.is_some() {
        return crash(in_walk, death.recoveries);
    }
    let exit = match death.ended {
        Ended::StoodStill => return ProcessOutcome::Hang,
        Ended::OutOfTime => return ProcessOutcome::TimeOut,
        Ended::Retired => return ProcessOutcome::Retired,
        Ended::Interrupted => return ProcessOutcome::Interrupted,
        Ended::ByItself(exit) => exit,
    };
    if death.oom_killed {
        return ProcessOutcome::OutOfMemory;
    }
    match fatal_signal(exit) {
        Some(Signal::Abrt) if in_walk => ProcessOutcome::AbortInWalk,
        Some(_) => crash(in_walk, death.recoveries),
        None if exit == Exit::Code(0) => ProcessOutcome::Clean,
        None => ProcessOutcome::ExitWithoutLog,
    }
}

/// Who is to blame for an end that nobody wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody: it ended as it should.
    Nobody,
    /// A walk: a finding.
    Walk,
    /// The recoveries before: a finding, marked as tainted.
    Recovery,
    /// Nothing that walkfuzz did: an error of the environment.
    Environment,
}

/// Who is to blame for `outcome`, which [`classify`] gave for `death`.
#[must_use]
pub fn blame(outcome: ProcessOutcome, death: &Death<'_>) -> Blame {
    match outcome {
        ProcessOutcome::Clean | ProcessOutcome::Retired | ProcessOutcome::Interrupted => {
            Blame::Nobody
        }
        ProcessOutcome::AbortInWalk | ProcessOutcome::CrashInWalk => Blame::Walk,
        ProcessOutcome::CrashAfterRecovery => Blame::Recovery,
        ProcessOutcome::OutOfMemory | ProcessOutcome::CrashElsewhere => Blame::Environment,
        ProcessOutcome::Hang | ProcessOutcome::TimeOut | ProcessOutcome::ExitWithoutLog => {
            if death.open_walk {
                Blame::Walk
            } else if death.recoveries > 0 {
                Blame::Recovery
            } else {
                Blame::Environment
            }
        }
    }
}

fn crash(in_walk: bool, recoveries: u64) -> ProcessOutcome {
    if in_walk {
        ProcessOutcome::CrashInWalk
    } else if recoveries > 0 {
        ProcessOutcome::CrashAfterRecovery
    } else {
        ProcessOutcome::CrashElsewhere
    }
}

/// The signal of a crash, also where a shell in between made an exit code of it (128 + signal).
fn fatal_signal(exit: Exit) -> Option<Signal> {
    let number = match exit {
        Exit::Signal(number) => number,
        Exit::Code(code) => code.checked_sub(128)?,
    };
    Signal::from_number(number).filter(|signal| signal.is_crash())
}
