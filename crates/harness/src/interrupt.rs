//! Ctrl-C as a flag: drivers end in good order instead of being ended.
//!
//! Contract: the handler is signal-safe; [`catch`] may be called again, to take the signals back from a JVM that took them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

static SEEN: AtomicBool = AtomicBool::new(false);
static SENT: AtomicBool = AtomicBool::new(false);
/// When it was asked for first, in milliseconds of the monotonic clock; 0: not yet.
static FIRST: AtomicI64 = AtomicI64::new(0);
/// The status that a second request ends the process with; negative: it is as patient as with the first.
static IMPATIENT: AtomicI32 = AtomicI32::new(-1);
/// Requests this close together are one: a process group and its leader may both pass it on.
const ONE_REQUEST_MS: i64 = 300;

fn now_ms() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `now`; clock_gettime is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec
        .wrapping_mul(1000)
        .wrapping_add(now.tv_nsec / 1_000_000)
        .max(1)
}

extern "C" fn on_interrupt(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    SEEN.store(true, Ordering::Relaxed);
    // SAFETY: the kernel passes a valid siginfo.
    if unsafe { (*info).si_code } <= 0 {
        SENT.store(true, Ordering::Relaxed);
    }
    let now = now_ms();
    let first = FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    let status = IMPATIENT.load(Ordering::Relaxed);
    if status >= 0 && first.is_err_and(|first| now.wrapping_sub(first) > ONE_REQUEST_MS) {
        // SAFETY: ends the process; async-signal-safe.
        unsafe { libc::_exit(status) };
    }
}

/// [`catch`] for a process that has something to finish: who asks twice is obeyed at once, with this exit status.
pub fn catch_once(status: i32) {
    IMPATIENT.store(status, Ordering::Relaxed);
    catch();
}

/// Takes SIGINT, SIGTERM and SIGHUP for this process; programs that it starts get their defaults back.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero is a valid sigaction, filled in here; the handler stores two flags.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_interrupt as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether the end was asked for.
#[must_use]
pub fn seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// Whether it was asked for by a process rather than at the terminal: then nobody has told our children.
#[must_use]
pub fn was_sent() -> bool {
    SENT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sent_signal_is_seen_and_known_as_sent() {
        catch();
        assert!(!seen());
        // SAFETY: SIGINT is caught.
        unsafe { libc::raise(libc::SIGINT) };
        assert!(seen() && was_sent());
        // In a row, they are one request.
        IMPATIENT.store(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGINT) };
        IMPATIENT.store(-1, Ordering::Relaxed);
    }
}
