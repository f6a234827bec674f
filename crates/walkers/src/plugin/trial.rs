//! A first try in a forked copy: a library that dies or hangs while it is loaded or initialised must not take the process with it.
//!
//! Contract: forks; call it on an ordinary thread. The copy has this one thread; what it learns is lost but for how it ended.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long loading and `init` may take.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// A copy may have been made while another thread held the linker's lock, which nobody gives back there: one more is tried.
const TRIES: usize = 2;

/// What the copy is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Load = b'l',
    Describe = b'd',
    Init = b'i',
    /// It came to an end.
    Done = b'k',
}

impl Step {
    /// For messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Step::Load => "while it was loaded",
            Step::Describe => "in walkfuzz_walker",
            Step::Init | Step::Done => "in init",
        }
    }
}

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Whatever it was asked to do, it did it.
    Well,
    /// A signal or an exit.
    Died(String, Step),
    /// It had to be ended.
    Hung(Step),
}

/// Runs `body` in a copy; `body` says before each step which one comes.
pub(super) fn try_in_copy(body: impl Fn(&dyn Fn(Step))) -> std::io::Result<Ended> {
    let mut ended = once(&body)?;
    for _ in 1..TRIES {
        if !matches!(ended, Ended::Hung(_)) {
            break;
        }
        ended = once(&body)?;
    }
    Ok(ended)
}

fn once(body: &impl Fn(&dyn Fn(Step))) -> std::io::Result<Ended> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: fresh descriptors, owned by nobody else.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: the copy runs `body` alone and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(std::io::Error::last_os_error());
    }
    if child == 0 {
        die_quietly();
        let say = |step: Step| {
            let byte = step as u8;
            // SAFETY: one byte of a local.
            unsafe { libc::write(writer.as_raw_fd(), (&raw const byte).cast(), 1) };
        };
        body(&say);
        say(Step::Done);
        // SAFETY: ends the copy.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let status = wait(child);
    let mut said = [0_u8; 16];
    // The writer's last copy is gone with the child: this does not wait, unless the child has children of its own, which is why it may not.
    // SAFETY: the descriptor is ours, the buffer has that size.
    let read = unsafe {
        libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
        libc::read(reader.as_raw_fd(), said.as_mut_ptr().cast(), said.len())
    };
    let last = usize::try_from(read)
        .ok()
        .and_then(|read| said.get(..read)?.last());
    let step = match last {
        Some(b'd') => Step::Describe,
        Some(b'i') => Step::Init,
        Some(b'k') => Step::Done,
        _ => Step::Load,
    };
    Ok(match status {
        None => Ended::Hung(step),
        Some(_) if step == Step::Done => Ended::Well,
        Some(status) => Ended::Died(in_words(status), step),
    })
}

/// Crashes are the parent's to report: no crash log of the JVM's, no core file.
fn die_quietly() {
    // SAFETY: the copy's own signal dispositions, mask and limits.
    unsafe {
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGSYS,
            libc::SIGTERM,
            libc::SIGINT,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// The copy's wait status; `None` if it had to be ended.
fn wait(child: libc::pid_t) -> Option<libc::c_int> {
    let began = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: our own child, waited for once.
        let done = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if done == child {
            return Some(status);
        }
        let interrupted = std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if began.elapsed() > LIMIT || (done < 0 && !interrupted) {
            // SAFETY: as above.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn in_words(status: libc::c_int) -> String {
    if libc::WIFSIGNALED(status) {
        let number = libc::WTERMSIG(status);
        return match number {
            libc::SIGSEGV => "crashed with SIGSEGV".to_owned(),
            libc::SIGBUS => "crashed with SIGBUS".to_owned(),
            libc::SIGILL => "crashed with SIGILL".to_owned(),
            libc::SIGFPE => "crashed with SIGFPE".to_owned(),
            libc::SIGTRAP => "crashed with SIGTRAP".to_owned(),
            libc::SIGABRT => "aborted".to_owned(),
            other => format!("was ended by signal {other}"),
        };
    }
    format!(
        "ended the process with status {}",
        libc::WEXITSTATUS(status)
    )
}
