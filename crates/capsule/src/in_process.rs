//! The fast lane: a capsule mapped at its own addresses in a sandboxed child, and walked there by a plain call.
//!
//! The child is a fork of this process that gives up all system calls but the return from a signal handler and its own end, before anything of
//! the capsule runs. What its memory then holds is the capsule's to spoil: its answers are claims, and the judge is the
//! [puppet](crate::puppet). A walk costs a call, its faults a signal each, and the lines that it wrote a copy.

mod child;
mod report;
mod sandbox;

use std::io;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use seccompiler::BpfProgram;

use crate::arch;
use crate::capsule::Capsule;
use crate::error::{InProcessError, PuppetError};
use crate::outcome::Ended;
use crate::walking::SIGNAL_STACK;

use child::Plan;
use report::Report;

/// How long the child may take for its walks, apart from what a hang takes.
const LIMIT: Duration = Duration::from_secs(600);

/// What came of many walks.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// How many walks there were.
    pub walks: u64,
    /// How many ended as the capsule says.
    pub identical: u64,
    /// What came of the first that did not.
    pub first_other: Option<Ended>,
    /// From the first walk to the last, the child's start included.
    pub took: Duration,
    /// The child's CPU time meanwhile.
    pub cpu: Duration,
}

/// Walks the capsule `times` times. The process is forked, so it should have one thread.
///
/// # Errors
/// [`InProcessError`].
pub fn walk(capsule: &Capsule, times: u64) -> Result<Tally, InProcessError> {
    // All that allocates happens before the fork.
    let mut plan = Plan::new(capsule, times)?;
    in_child(|filter, report| child::run(&mut plan, filter, report))
}

/// Faults `times` times, and does nothing else: a jump to nowhere, and a handler that only leaves. What a fault costs on this machine
/// whoever meets it; no lane can be faster.
///
/// # Errors
/// [`InProcessError`].
pub fn floor(times: u64) -> Result<Tally, InProcessError> {
    let mut stack = vec![0; SIGNAL_STACK];
    in_child(|filter, report| child::fault_only(times, &mut stack, filter, report))
}

/// Has a child do `work`, which does not return, and reads what it reports.
fn in_child(work: impl FnOnce(&BpfProgram, NonNull<Report>)) -> Result<Tally, InProcessError> {
    if !arch::has_thread_pointer_instructions() {
        return Err(InProcessError::NoThreadPointer);
    }
    let filter = sandbox::filter().map_err(InProcessError::Seccomp)?;
    let report = SharedReport::new()?;
    let began = Instant::now();
    // SAFETY: the child uses what was made above, makes system calls, and ends without returning.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(PuppetError::last("fork a child").into()),
        0 => {
            work(&filter, report.0);
            // SAFETY: the child ends here if not before.
            unsafe { libc::_exit(1) }
        }
        _ => {}
    }
    let (status, cpu) = wait(pid, began + LIMIT);
    let took = began.elapsed();
    // SAFETY: the mapping is ours; the child, which also wrote to it, has ended. Any bytes are a report.
    let report = unsafe { report.0.as_ptr().read() };
    report.check(&status)?;
    Ok(Tally {
        walks: report.walks,
        identical: report.identical,
        first_other: report.first_other(),
        took,
        cpu,
    })
}

/// How the child ended.
#[derive(Debug)]
pub(crate) enum Status {
    Exited(i32),
    Killed(i32),
    TimedOut,
}

/// Waits for the child: how it ended, and the CPU time that it took.
fn wait(pid: libc::pid_t, deadline: Instant) -> (Status, Duration) {
    let mut pause = Duration::from_micros(50);
    loop {
        let mut status = 0;
        // SAFETY: plain numbers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: our own child.
        let answer = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if answer == pid {
            let ended = if libc::WIFSIGNALED(status) {
                Status::Killed(libc::WTERMSIG(status))
            } else {
                Status::Exited(libc::WEXITSTATUS(status))
            };
            return (ended, duration(usage.ru_utime) + duration(usage.ru_stime));
        }
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if (answer == -1 && !interrupted) || Instant::now() >= deadline {
            // SAFETY: our own child, not reaped yet.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            return (Status::TimedOut, Duration::ZERO);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

fn duration(time: libc::timeval) -> Duration {
    let word = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(word(time.tv_sec)) + Duration::from_micros(word(time.tv_usec))
}

/// A report in memory that the child shares.
struct SharedReport(NonNull<Report>);

impl SharedReport {
    fn new() -> Result<Self, PuppetError> {
        // SAFETY: a fresh mapping, which is zero: a report that says nothing.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Report>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(PuppetError::last("map shared memory"));
        }
        NonNull::new(at.cast())
            .map(Self)
            .ok_or(PuppetError::last("map shared memory"))
    }
}

impl Drop for SharedReport {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Report>()) };
    }
}
