//! The end of a fuzzer's process: libFuzzer ends with `exit`, and what a target has begun must end with it.

use std::ffi::c_int;

/// The one way to end with an error: one sentence, and an exit code.
pub(crate) fn fail(code: c_int, error: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {error}");
    std::process::exit(code)
}

/// Calls `end` when the process ends by `exit`.
pub(crate) fn at_exit(end: extern "C" fn()) {
    // SAFETY: a function that lives as long as the process. There is room for 32 at least, and without it the system ends what is left.
    unsafe { libc::atexit(end) };
}
