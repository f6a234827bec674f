//! Frozen copies: a fork in which nothing but the forking thread moves, so that the same walk gives the same outcome.
//!
//! libc's own `fork` is used, which makes malloc usable in the child: the flow forks while its carrier is parked in Java
//! code, where it holds no lock.

use std::time::{Duration, Instant};

use crate::moment::Moment;

/// How a frozen copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrozenEnd {
    /// It did what it was asked to.
    Done,
    /// It was killed by this signal: the walk was more than the guard could hold.
    Killed(i32),
    /// It took too long and was ended.
    TimedOut,
}

/// A running frozen copy.
#[derive(Debug)]
pub struct FrozenCopy {
    pid: libc::pid_t,
    deadline: Instant,
    end: Option<FrozenEnd>,
}

/// Exit status of a copy that did its work.
const DONE: i32 = 0;

/// Forks a copy of this moment, runs `work` in it and ends it. Returns at once in the calling process.
///
/// The copy dies with its parent, never lives longer than `limit`, and leaves nothing behind but what it wrote to shared
/// memory and files.
///
/// # Errors
/// The kernel's, when it cannot fork.
pub fn freeze(
    moment: &mut Moment,
    limit: Duration,
    work: impl FnOnce(&mut Moment),
) -> std::io::Result<FrozenCopy> {
    // SAFETY: the flow holds no lock (it is at home, or its carrier is parked in Java code).
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(std::io::Error::last_os_error());
    }
    if pid == 0 {
        // SAFETY: plain system calls in a single-threaded child.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            for signal in [
                libc::SIGINT,
                libc::SIGTERM,
                libc::SIGALRM,
                libc::SIGABRT,
                libc::SIGUSR1,
                libc::SIGUSR2,
            ] {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        moment.adopt_after_fork();
        work(moment);
        // SAFETY: ends the copy without running the parent's exit handlers.
        unsafe { libc::_exit(DONE) };
    }
    Ok(FrozenCopy {
        pid,
        deadline: Instant::now() + limit,
        end: None,
    })
}

impl FrozenCopy {
    /// How it ended, or `None` while it runs. Ends it when its time is over.
    pub fn poll(&mut self) -> Option<FrozenEnd> {
        if self.end.is_none() {
            self.end = self.reap(libc::WNOHANG);
            if self.end.is_none() && Instant::now() >= self.deadline {
                self.kill();
                self.end = Some(FrozenEnd::TimedOut);
            }
        }
        self.end
    }

    /// Waits for its end, at most until its deadline.
    pub fn wait(&mut self) -> FrozenEnd {
        loop {
            if let Some(end) = self.poll() {
                return end;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn reap(&self, flags: i32) -> Option<FrozenEnd> {
        let mut status = 0;
        // SAFETY: waits for our own child only.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
        if pid == 0 {
            return None;
        }
        Some(if pid == self.pid && libc::WIFSIGNALED(status) {
            FrozenEnd::Killed(libc::WTERMSIG(status))
        } else {
            FrozenEnd::Done
        })
    }

    fn kill(&self) {
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap(0);
    }
}

impl Drop for FrozenCopy {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.kill();
        }
    }
}
