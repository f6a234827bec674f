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

use crate::arch;
use crate::capsule::Capsule;
use crate::error::{InProcessError, PuppetError};
use crate::outcome::Ended;

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
}

/// Walks the capsule `times` times. The process is forked, so it should have one thread.
///
/// # Errors
/// [`InProcessError`].
pub fn walk(capsule: &Capsule, times: u64) -> Result<Tally, InProcessError> {
    if !arch::has_thread_pointer_instructions() {
        return Err(InProcessError::NoThreadPointer);
    }
    // All that allocates happens here.
    let filter = sandbox::filter().map_err(InProcessError::Seccomp)?;
    let mut plan = Plan::new(capsule, times)?;
    let report = SharedReport::new()?;
    let began = Instant::now();
    // SAFETY: the child uses what was made above, makes system calls, and ends without returning.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(PuppetError::last("fork a child").into()),
        0 => child::run(&mut plan, &filter, report.0),
        _ => {}
    }
    let status = wait(pid, began + LIMIT);
    let took = began.elapsed();
    // SAFETY: the mapping is ours; the child, which also wrote to it, has ended. Any bytes are a report.
    let report = unsafe { report.0.as_ptr().read() };
    report.check(&status)?;
    Ok(Tally {
        walks: report.walks,
        identical: report.identical,
        first_other: report.first_other(),
        took,
    })
}

/// How the child ended.
#[derive(Debug)]
pub(crate) enum Status {
    Exited(i32),
    Killed(i32),
    TimedOut,
}

fn wait(pid: libc::pid_t, deadline: Instant) -> Status {
    let mut pause = Duration::from_micros(50);
    loop {
        let mut status = 0;
        // SAFETY: our own child.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if answer == pid {
            return if libc::WIFSIGNALED(status) {
                Status::Killed(libc::WTERMSIG(status))
            } else {
                Status::Exited(libc::WEXITSTATUS(status))
            };
        }
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if (answer == -1 && !interrupted) || Instant::now() >= deadline {
            // SAFETY: our own child, not reaped yet.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            return Status::TimedOut;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
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
