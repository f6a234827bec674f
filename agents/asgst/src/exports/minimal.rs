//! The minimal generation's C names.

use std::ffi::{c_int, c_void};

use walkfuzz_asgst::abi::minimal::{Frame, JavaFrameCallback, NonJavaFrameCallback};
use walkfuzz_asgst::minimal;

/// See [`minimal::walk_stack_from_frame`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_WalkStackFromFrame(
    frame: Frame,
    java: Option<JavaFrameCallback>,
    non_java: Option<NonJavaFrameCallback>,
    argument: *mut c_void,
    options: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { minimal::walk_stack_from_frame(frame, java, non_java, argument, options) }
}

/// See [`minimal::is_java_frame`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_IsJavaFrame(frame: Frame) -> c_int {
    minimal::is_java_frame(frame)
}

/// See [`minimal::get_frame`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetFrame(context: *mut c_void, focus_on_java: bool) -> Frame {
    // SAFETY: the caller's promise.
    unsafe { minimal::get_frame(context, focus_on_java) }
}

/// See [`minimal::compute_top_frame_at_safepoint`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_ComputeTopFrameAtSafepoint(captured: Frame) -> Frame {
    minimal::compute_top_frame_at_safepoint(captured)
}
