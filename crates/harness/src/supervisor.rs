//! The parent of a surveying process: restarts it when the JVM dies or is retired, and says what became of it.
//!
//! A survey must outlive its JVM: an abort inside a walk, or a crash after a recovery, is a finding and not the end. The parent
//! forks before any thread exists, so that each child starts from the same clean state and runs libFuzzer as if it were
//! alone; the corpus on disk carries what was learned from one child to the next.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// The exit status of a child that wants to be replaced: enough recoveries, or a failed control.
pub const RETIRED: i32 = 91;
/// libFuzzer's exit status after SIGINT (`-interrupted_exitcode`, FuzzerOptions.h).
pub const LIBFUZZER_INTERRUPTED: i32 = 72;
/// Children that die this young, this often in a row, are not worth another try.
const YOUNG: Duration = Duration::from_secs(5);
const YOUNG_DEATHS: u32 = 3;
/// The same for deaths that a walk is to blame for: those are findings, and what a run is for. Only a subject that does nothing
/// but die ends it.
const YOUNG_FINDINGS: u32 = 20;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// What the parent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another child.
    Restart,
    /// The run is over with this exit code.
    End(i32),
}

/// Which side of the fork the caller is on.
pub enum Side {
    /// The child: go on as libFuzzer's process.
    Child {
        /// Counts children from 0.
        generation: u32,
        /// How long the run has lasted.
        elapsed: Duration,
    },
    /// The parent, after the last child: end the process with this exit code.
    Parent {
        /// 0 for an orderly end.
        code: i32,
        /// How many children there were.
        children: u32,
    },
}

/// Who a child's death is to be blamed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiedOf {
    /// A walk, or the recovery from one: a finding.
    Walk,
    /// A crash of the JVM that no walk is to blame for.
    Crash,
    /// Nothing that is known, or it did not die.
    Nothing,
}

/// Children in a row that died young.
#[derive(Clone, Copy, Debug, Default)]
pub struct YoungDeaths {
    all: u32,
    of_nothing: u32,
}

/// Decides from a child's end. `interrupted`: the user asked for the end. `lived`: how long the child lived.
#[must_use]
pub fn next(
    end: ChildEnd,
    interrupted: bool,
    lived: Duration,
    died_of: DiedOf,
    young: &mut YoungDeaths,
) -> Next {
    if interrupted {
        return Next::End(130);
    }
    match end {
        ChildEnd::Exited(0) => Next::End(0),
        ChildEnd::Exited(code @ (2..=4)) => Next::End(code),
        // libFuzzer's usage errors. HotSpot, too, ends with 1 after a crash when it may not dump core.
        ChildEnd::Exited(1) if died_of == DiedOf::Nothing => Next::End(1),
        ChildEnd::Exited(RETIRED) => {
            *young = YoungDeaths::default();
            Next::Restart
        }
        ChildEnd::Exited(_) | ChildEnd::Killed(_) => {
            if lived < YOUNG {
                young.all += 1;
                young.of_nothing += u32::from(died_of != DiedOf::Walk);
            } else {
                *young = YoungDeaths::default();
            }
            if young.of_nothing >= YOUNG_DEATHS || young.all >= YOUNG_FINDINGS {
                Next::End(3)
            } else {
                Next::Restart
            }
        }
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_interrupt(signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    let child = CHILD.load(Ordering::Relaxed);
    // A terminal's Ctrl-C reaches the child by itself; SIGTERM and SIGHUP do not.
    if signal != libc::SIGINT && child > 0 {
        // SAFETY: kill is async-signal-safe; the pid is our own child's.
        unsafe { libc::kill(child, libc::SIGINT) };
    }
}

/// Forks children until the run is over. `ended` is told of each child's pid, its end, and whether the user asked for that; it
/// answers what the child died of.
///
/// Returns once in each child, and once in the parent.
///
/// # Errors
/// The kernel's, when it cannot fork.
pub fn supervise(mut ended: impl FnMut(i32, ChildEnd, bool) -> DiedOf) -> std::io::Result<Side> {
    let began = Instant::now();
    let mut young = YoungDeaths::default();
    let mut generation = 0;
    let previous = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].map(|signal| {
        // SAFETY: the handler is async-signal-safe.
        (signal, unsafe {
            libc::signal(signal, on_interrupt as *const () as usize)
        })
    });
    loop {
        let born = Instant::now();
        // SAFETY: no other thread exists yet; see the module's comment.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if pid == 0 {
            // SAFETY: plain system calls; the child must not outlive the run, and must answer signals as if alone.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                for (signal, handler) in previous {
                    libc::signal(signal, handler);
                }
            }
            return Ok(Side::Child {
                generation,
                elapsed: began.elapsed(),
            });
        }
        CHILD.store(pid, Ordering::Relaxed);
        let end = wait(pid)?;
        CHILD.store(0, Ordering::Relaxed);
        generation += 1;
        let lived = born.elapsed();
        let interrupted =
            INTERRUPTED.load(Ordering::Relaxed) || end == ChildEnd::Exited(LIBFUZZER_INTERRUPTED);
        let died_of = ended(pid, end, interrupted);
        let next = next(end, interrupted, lived, died_of, &mut young);
        if let Next::End(code) = next {
            return Ok(Side::Parent {
                code,
                children: generation,
            });
        }
    }
}

fn wait(pid: i32) -> std::io::Result<ChildEnd> {
    loop {
        let mut status = 0;
        // SAFETY: waits for our own child.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return Ok(if libc::WIFSIGNALED(status) {
                ChildEnd::Killed(libc::WTERMSIG(status))
            } else {
                ChildEnd::Exited(libc::WEXITSTATUS(status))
            });
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// libFuzzer's arguments for a later child: what is left of the time and of the runs, and a seed of its own, lest it try what the
/// one before has tried.
///
/// `None` when nothing is left, so that the run is over.
#[must_use]
pub fn remaining_arguments(
    arguments: &[String],
    elapsed: Duration,
    runs_done: u64,
    generation: u32,
) -> Option<Vec<String>> {
    let mut rest = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = |name: &str| {
            argument
                .strip_prefix(name)
                .and_then(|value| value.parse::<i64>().ok())
        };
        if let Some(seconds) = value("-max_total_time=").filter(|seconds| *seconds > 0) {
            let left = seconds - i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX);
            if left <= 0 {
                return None;
            }
            rest.push(format!("-max_total_time={left}"));
        } else if let Some(runs) = value("-runs=").filter(|runs| *runs > 0) {
            let left = runs - i64::try_from(runs_done).unwrap_or(i64::MAX);
            if left <= 0 {
                return None;
            }
            rest.push(format!("-runs={left}"));
        } else if let Some(seed) = value("-seed=").filter(|seed| *seed > 0) {
            // libFuzzer takes 32 bits, and 0 as a wish for any seed.
            let seed = (seed + i64::from(generation)) & i64::from(u32::MAX);
            rest.push(format!("-seed={}", seed.max(1)));
        } else {
            rest.push(argument.clone());
        }
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn after(end: ChildEnd, lived: Duration) -> Next {
        next(
            end,
            false,
            lived,
            DiedOf::Nothing,
            &mut YoungDeaths::default(),
        )
    }

    /// What follows on so many young deaths in a row.
    fn after_young(deaths: &[DiedOf]) -> Vec<Next> {
        let mut young = YoungDeaths::default();
        let lived = Duration::from_millis(300);
        deaths
            .iter()
            .map(|died_of| next(ChildEnd::Killed(11), false, lived, *died_of, &mut young))
            .collect()
    }

    #[test]
    fn a_dead_jvm_is_replaced_and_an_orderly_end_is_the_end() {
        assert_eq!(after(ChildEnd::Exited(0), LONG), Next::End(0));
        assert_eq!(after(ChildEnd::Exited(77), LONG), Next::Restart);
        assert_eq!(after(ChildEnd::Killed(6), LONG), Next::Restart);
        let retired = ChildEnd::Exited(RETIRED);
        assert_eq!(after(retired, Duration::ZERO), Next::Restart);
    }

    #[test]
    fn a_failed_check_of_the_jvm_is_no_usage_error() {
        let young = &mut YoungDeaths::default();
        let end = ChildEnd::Exited(1);
        assert_eq!(next(end, false, LONG, DiedOf::Nothing, young), Next::End(1));
        assert_eq!(next(end, false, LONG, DiedOf::Walk, young), Next::Restart);
        assert_eq!(next(end, false, LONG, DiedOf::Crash, young), Next::Restart);
    }

    #[test]
    fn an_interrupted_run_ends_with_130() {
        for end in [
            ChildEnd::Killed(2),
            ChildEnd::Exited(0),
            ChildEnd::Exited(72),
        ] {
            let young = &mut YoungDeaths::default();
            let next = next(end, true, LONG, DiedOf::Nothing, young);
            assert_eq!(next, Next::End(130));
        }
    }

    #[test]
    fn environment_errors_are_passed_on() {
        assert_eq!(after(ChildEnd::Exited(3), LONG), Next::End(3));
        assert_eq!(after(ChildEnd::Exited(2), LONG), Next::End(2));
    }

    #[test]
    fn a_jvm_that_always_dies_at_once_is_an_environment_error() {
        let ends = after_young(&[DiedOf::Nothing; 3]);
        assert_eq!(ends, [Next::Restart, Next::Restart, Next::End(3)]);
    }

    #[test]
    fn deaths_that_a_walk_is_to_blame_for_do_not_end_the_run() {
        let mut deaths = [DiedOf::Walk; 20];
        (deaths[3], deaths[9]) = (DiedOf::Nothing, DiedOf::Nothing);
        let ends = after_young(&deaths);
        assert!(ends[..19].iter().all(|next| *next == Next::Restart));
        assert_eq!(ends[19], Next::End(3));
    }

    #[test]
    fn a_grown_old_child_is_forgiven_its_forebears() {
        let mut young = YoungDeaths::default();
        for lived in [1, 1, 9, 1, 1] {
            let lived = Duration::from_secs(lived);
            let end = ChildEnd::Killed(6);
            let next = next(end, false, lived, DiedOf::Nothing, &mut young);
            assert_eq!(next, Next::Restart);
        }
    }

    #[test]
    fn later_children_get_what_is_left() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let given = words("walk -max_total_time=60 -runs=1000 -seed=7 corpus");
        let rest = |elapsed, done| remaining_arguments(&given, elapsed, done, 2);
        assert_eq!(
            rest(Duration::from_secs(20), 400),
            Some(words("walk -max_total_time=40 -runs=600 -seed=9 corpus"))
        );
        assert_eq!(rest(Duration::from_secs(60), 0), None);
        assert_eq!(rest(Duration::ZERO, 1000), None);
        let endless = words("walk -runs=-1 -seed=0 corpus");
        assert_eq!(
            remaining_arguments(&endless, LONG, 5, 1),
            Some(endless.clone())
        );
    }
}
