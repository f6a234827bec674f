//! JEP 435's C names.

use std::ffi::c_void;

use walkfuzz_asgst::abi::jep435::{CallTrace, EarlyCallTrace};
use walkfuzz_asgst::jep435;

/// See [`jep435::async_get_stack_trace`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn AsyncGetStackTrace(
    trace: *mut CallTrace,
    depth: i32,
    context: *mut c_void,
    options: i32,
) {
    // SAFETY: the caller's promise.
    unsafe { jep435::async_get_stack_trace(trace, depth, context, options) };
}

/// See [`jep435::async_get_stack_trace_early`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn AsyncGetStackTrace_early(
    trace: *mut EarlyCallTrace,
    depth: i32,
    context: *mut c_void,
    options: i32,
) {
    // SAFETY: the caller's promise.
    unsafe { jep435::async_get_stack_trace_early(trace, depth, context, options) };
}
