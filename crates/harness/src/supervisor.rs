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
const LIBFUZZER_INTERRUPTED: i32 = 72;
/// Children that die this young, this often in a row, are not worth another try.
const YOUNG: Duration = Duration::from_secs(5);
const YOUNG_DEATHS: u32 = 3;

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

/// Decides from a child's end. `interrupted`: the user asked for the end. `lived`: how long the child lived.
#[must_use]
pub fn next(end: ChildEnd, interrupted: bool, lived: Duration, young_deaths: &mut u32) -> Next {
    if interrupted || end == ChildEnd::Exited(LIBFUZZER_INTERRUPTED) {
        return Next::End(130);
    }
    match end {
        ChildEnd::Exited(0) => Next::End(0),
        ChildEnd::Exited(code @ (2..=4)) => Next::End(code),
        ChildEnd::Exited(1) => Next::End(1),
        ChildEnd::Exited(RETIRED) => {
            *young_deaths = 0;
            Next::Restart
        }
        ChildEnd::Exited(_) | ChildEnd::Killed(_) => {
            *young_deaths = if lived < YOUNG { *young_deaths + 1 } else { 0 };
            if *young_deaths >= YOUNG_DEATHS {
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

/// Forks children until the run is over. `ended` is told of each child's pid, end and next step.
///
/// Returns once in each child, and once in the parent.
///
/// # Errors
/// The kernel's, when it cannot fork.
pub fn supervise(mut ended: impl FnMut(i32, ChildEnd, Next)) -> std::io::Result<Side> {
    let began = Instant::now();
    let mut young_deaths = 0;
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
        let next = next(
            end,
            INTERRUPTED.load(Ordering::Relaxed),
            born.elapsed(),
            &mut young_deaths,
        );
        ended(pid, end, next);
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

/// libFuzzer's arguments for a later child: what is left of the time and of the runs.
///
/// `None` when nothing is left, so that the run is over.
#[must_use]
pub fn remaining_arguments(
    arguments: &[String],
    elapsed: Duration,
    runs_done: u64,
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

    #[test]
    fn a_dead_jvm_is_replaced_and_an_orderly_end_is_the_end() {
        let mut young = 0;
        assert_eq!(
            next(ChildEnd::Exited(0), false, LONG, &mut young),
            Next::End(0)
        );
        assert_eq!(
            next(ChildEnd::Exited(77), false, LONG, &mut young),
            Next::Restart
        );
        assert_eq!(
            next(ChildEnd::Killed(6), false, LONG, &mut young),
            Next::Restart
        );
        assert_eq!(
            next(ChildEnd::Exited(RETIRED), false, Duration::ZERO, &mut young),
            Next::Restart
        );
    }

    #[test]
    fn an_interrupted_run_ends_with_130() {
        assert_eq!(
            next(ChildEnd::Killed(2), true, LONG, &mut 0),
            Next::End(130)
        );
        assert_eq!(
            next(ChildEnd::Exited(72), false, LONG, &mut 0),
            Next::End(130)
        );
    }

    #[test]
    fn environment_errors_are_passed_on() {
        assert_eq!(next(ChildEnd::Exited(3), false, LONG, &mut 0), Next::End(3));
        assert_eq!(next(ChildEnd::Exited(2), false, LONG, &mut 0), Next::End(2));
    }

    #[test]
    fn a_jvm_that_always_dies_at_once_is_an_environment_error() {
        let mut young = 0;
        let ends: Vec<_> = (0..3)
            .map(|_| {
                next(
                    ChildEnd::Killed(11),
                    false,
                    Duration::from_millis(300),
                    &mut young,
                )
            })
            .collect();
        assert_eq!(ends, [Next::Restart, Next::Restart, Next::End(3)]);
    }

    #[test]
    fn later_children_get_what_is_left() {
        let given: Vec<String> = ["walk", "-max_total_time=60", "-runs=1000", "corpus"]
            .map(str::to_owned)
            .to_vec();
        let rest = remaining_arguments(&given, Duration::from_secs(20), 400).unwrap();
        assert_eq!(rest, ["walk", "-max_total_time=40", "-runs=600", "corpus"]);
        assert_eq!(
            remaining_arguments(&given, Duration::from_secs(60), 0),
            None
        );
        assert_eq!(remaining_arguments(&given, Duration::ZERO, 1000), None);
        let endless: Vec<String> = ["walk", "-runs=-1", "corpus"].map(str::to_owned).to_vec();
        assert_eq!(
            remaining_arguments(&endless, LONG, 5),
            Some(endless.clone())
        );
    }
}
