//! Process outcomes, with real crash logs.

use walkfuzz_record::ProcessOutcome::{self, *};
use walkfuzz_triage::{Blame, CrashLog, Death, Ended, Exit, blame, classify};

use crate::hs_err::golden;

const ABORTED: Ended = Ended::ByItself(Exit::Signal(6));

fn check(
    ended: Ended,
    log: Option<&str>,
    open_walk: bool,
    recoveries: u64,
    outcome: ProcessOutcome,
    who: Blame,
) {
    let log = log.map(|name| CrashLog::parse(&golden(name)));
    let death = Death {
        ended,
        log: log.as_ref(),
        open_walk,
        recoveries,
        oom_killed: false,
    };
    assert_eq!(classify(&death), outcome, "{death:?}");
    assert_eq!(blame(outcome, &death), who, "{death:?}");
}

#[test]
fn crash_logs_decide() {
    // The log's stack shows the walk, even where no record does.
    check(
        ABORTED,
        Some("agct-17.0.9"),
        false,
        0,
        CrashInWalk,
        Blame::Walk,
    );
    check(
        ABORTED,
        Some("agct-25.0.2"),
        true,
        5,
        CrashInWalk,
        Blame::Walk,
    );
    check(
        ABORTED,
        Some("guarantee-21.0.8"),
        true,
        0,
        AbortInWalk,
        Blame::Walk,
    );
    check(
        ABORTED,
        Some("guarantee-21.0.8"),
        false,
        3,
        CrashAfterRecovery,
        Blame::Recovery,
    );
    check(
        ABORTED,
        Some("guarantee-21.0.8"),
        false,
        0,
        CrashElsewhere,
        Blame::Environment,
    );
    check(
        ABORTED,
        Some("compiled-25.0.2"),
        false,
        7,
        CrashAfterRecovery,
        Blame::Recovery,
    );
    check(
        ABORTED,
        Some("compiled-25.0.2"),
        false,
        0,
        CrashElsewhere,
        Blame::Environment,
    );
    check(
        ABORTED,
        Some("compiled-25.0.2"),
        true,
        0,
        CrashInWalk,
        Blame::Walk,
    );
    // Somebody sent a signal: no crash of ours, whatever was going on.
    check(
        ABORTED,
        Some("kill-25.0.2"),
        true,
        9,
        CrashElsewhere,
        Blame::Environment,
    );
    check(
        ABORTED,
        Some("java-oom-11.0.13"),
        true,
        9,
        OutOfMemory,
        Blame::Environment,
    );
    check(
        ABORTED,
        Some("java-oom-21.0.8"),
        false,
        0,
        OutOfMemory,
        Blame::Environment,
    );
    check(
        Ended::ByItself(Exit::Code(1)),
        Some("native-oom-17.0.9"),
        false,
        0,
        OutOfMemory,
        Blame::Environment,
    );
    // A JVM that hangs while it writes its log is killed for standing still, and is a crash all the same.
    check(
        Ended::StoodStill,
        Some("agct-11.0.13"),
        true,
        0,
        CrashInWalk,
        Blame::Walk,
    );
}

#[test]
fn without_a_log_the_status_decides() {
    check(
        Ended::ByItself(Exit::Code(0)),
        None,
        false,
        0,
        Clean,
        Blame::Nobody,
    );
    check(
        Ended::ByItself(Exit::Code(3)),
        None,
        false,
        0,
        ExitWithoutLog,
        Blame::Environment,
    );
    check(
        Ended::ByItself(Exit::Code(3)),
        None,
        true,
        0,
        ExitWithoutLog,
        Blame::Walk,
    );
    check(
        Ended::ByItself(Exit::Code(134)),
        None,
        true,
        0,
        AbortInWalk,
        Blame::Walk,
    );
    check(
        Ended::ByItself(Exit::Code(139)),
        None,
        false,
        2,
        CrashAfterRecovery,
        Blame::Recovery,
    );
    check(
        Ended::ByItself(Exit::Code(255)),
        None,
        false,
        0,
        ExitWithoutLog,
        Blame::Environment,
    );
    check(ABORTED, None, true, 0, AbortInWalk, Blame::Walk);
    check(ABORTED, None, false, 0, CrashElsewhere, Blame::Environment);
    check(
        Ended::ByItself(Exit::Signal(11)),
        None,
        true,
        0,
        CrashInWalk,
        Blame::Walk,
    );
    check(
        Ended::ByItself(Exit::Signal(11)),
        None,
        false,
        4,
        CrashAfterRecovery,
        Blame::Recovery,
    );
    check(
        Ended::ByItself(Exit::Signal(9)),
        None,
        false,
        0,
        ExitWithoutLog,
        Blame::Environment,
    );
    check(Ended::StoodStill, None, true, 0, Hang, Blame::Walk);
    check(Ended::StoodStill, None, false, 1, Hang, Blame::Recovery);
    check(Ended::StoodStill, None, false, 0, Hang, Blame::Environment);
    check(
        Ended::OutOfTime,
        None,
        false,
        0,
        TimeOut,
        Blame::Environment,
    );
    check(Ended::Retired, None, false, 900, Retired, Blame::Nobody);
    check(
        Ended::Interrupted,
        None,
        true,
        0,
        Interrupted,
        Blame::Nobody,
    );
}

#[test]
fn the_kernel_out_of_memory() {
    let death = Death {
        ended: Ended::ByItself(Exit::Signal(9)),
        log: None,
        open_walk: true,
        recoveries: 0,
        oom_killed: true,
    };
    assert_eq!(classify(&death), OutOfMemory);
}
