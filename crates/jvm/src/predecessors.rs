//! Who handles the JVM's fatal faults: the JVM alone.
//!
//! HotSpot remembers a handler of a fault signal that it finds in place when it starts, and asks it before it writes a crash log (signal
//! chaining, `PosixSignals::chained_handler`). An answer that comes back counts as handled. Rust's runtime has such a handler, for stack
//! overflows: at any other fault it sets the default action and comes back, so the process would die of the signal, without a log.

use std::ptr;

/// The signals whose handlers HotSpot chains to and that mean a fault.
const FAULTS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// Sets the default action for the fault signals, so that the JVM which starts next finds nobody to ask. Whoever guards walks has to come
/// after the JVM.
pub(crate) fn dismiss() {
    for signal in FAULTS {
        // SAFETY: plain data, zero but for the default action; nobody has to be asked, for no JVM and no guard is there yet.
        unsafe {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, ptr::null_mut());
        }
    }
}
