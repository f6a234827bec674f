//! The end of a fuzzer's process: libFuzzer ends with `exit`, and what a target has begun must end with it.

use std::ffi::{c_int, c_void};

use walkfuzz_harness::campaign::end_process;

unsafe extern "C" {
    /// glibc's and musl's: like atexit, and the handler learns the exit status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// The one way to end with an error: one sentence, and no exit handlers, because a JVM may be running.
pub(crate) fn fail(code: c_int, error: &dyn std::fmt::Display) -> ! {
    eprintln!("error: {error}");
    end_process(code)
}

/// Calls `end` when the process ends by `exit`. It has to end the process: the JVM's own handlers would meet threads that still run.
pub(crate) fn at_exit(end: extern "C" fn(c_int, *mut c_void)) {
    // SAFETY: a function that lives as long as the process.
    unsafe { on_exit(end, std::ptr::null_mut()) };
}
