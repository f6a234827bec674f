//! Doing something that no handler of the calling thread may interrupt. Signal-safe.

use libc::sigset_t;

/// Runs `body` with all signals blocked: no handler comes in its midst, and a thread that is made in it has them blocked for good. Signal-safe if
/// `body` is.
pub fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let _blocked = AllSignalsBlocked::new();
    body()
}

/// Blocks what can be blocked, until dropped.
pub(crate) struct AllSignalsBlocked(sigset_t);

impl AllSignalsBlocked {
    pub(crate) fn new() -> Self {
        // SAFETY: plain data; both sets are written before they are read.
        unsafe {
            let mut all = core::mem::zeroed();
            let mut before = core::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for AllSignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask that `new` found.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, core::ptr::null_mut()) };
    }
}
