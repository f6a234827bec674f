//! The minimal generation's functions.

use std::ffi::{c_int, c_void};

use super::table::function_table;
use crate::abi::minimal::{Frame, JavaFrameCallback, NonJavaFrameCallback, SafepointCallback};
use crate::{minimal, queue};

function_table! {
    /// Walks from frames. Each is as `include/asgst_minimal.h` says.
    MinimalApi {
        /// Walks from a frame.
        walk_stack_from_frame = "WalkStackFromFrame":
            (Frame, Option<JavaFrameCallback>, Option<NonJavaFrameCallback>, *mut c_void, c_int) -> c_int;
        /// Whether the pc is in the code cache.
        is_java_frame = "IsJavaFrame": (Frame) -> c_int;
        /// The frame of a context; of the last Java frame for null.
        get_frame = "GetFrame": (*mut c_void, bool) -> Frame;
        /// The top frame of a thread at a safepoint, given the captured one.
        compute_top_frame_at_safepoint = "ComputeTopFrameAtSafepoint": (Frame) -> Frame;
    }
}

impl MinimalApi {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            walk_stack_from_frame: minimal::walk_stack_from_frame,
            is_java_frame: minimal::is_java_frame,
            get_frame: minimal::get_frame,
            compute_top_frame_at_safepoint: minimal::compute_top_frame_at_safepoint,
        }
    }
}

function_table! {
    /// Safepoint callbacks, which came with the minimal generation.
    SafepointApi {
        /// What is called at safepoints.
        set_safepoint_callback = "SetSafepointCallback": (Option<SafepointCallback>, *mut c_void);
        /// Tells it again.
        get_safepoint_callback = "GetSafepointCallback":
            (*mut Option<SafepointCallback>, *mut *mut c_void);
        /// Wants a safepoint soon.
        trigger_safe_point = "TriggerSafePoint": ();
    }
}

impl SafepointApi {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            set_safepoint_callback: queue::set_safepoint_callback,
            get_safepoint_callback: queue::get_safepoint_callback,
            trigger_safe_point: queue::trigger_safe_point,
        }
    }
}
