//! Ctrl-C as a flag: drivers end in good order instead of being ended.
//!
//! Contract: the handler is signal-safe; [`catch`] may be called again, to take the signals back from a JVM that took them.

use std::sync::atomic::{AtomicBool, Ordering};

static SEEN: AtomicBool = AtomicBool::new(false);
static SENT: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    SEEN.store(true, Ordering::Relaxed);
    // SAFETY: the kernel passes a valid siginfo.
    if unsafe { (*info).si_code } <= 0 {
        SENT.store(true, Ordering::Relaxed);
    }
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
    }
}
