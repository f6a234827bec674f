//! The safepoint queue's C names, and our own beside them.

use std::ffi::{c_int, c_void};

use jvmti_bindings::sys::jni::JNIEnv;
use walkfuzz_asgst::abi::minimal::SafepointCallback;
use walkfuzz_asgst::abi::queue::{
    FrameMark, FrameMarkHandler, OnQueueSafepointHandler, Queue, QueueElement, QueueHandler,
    QueueSizeInfo,
};
use walkfuzz_asgst::queue::{self, QueueStatistics};

/// See [`queue::capabilities`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_Capabilities() -> c_int {
    queue::capabilities()
}

/// See [`queue::register_queue`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_RegisterQueue(
    env: *mut JNIEnv,
    size: c_int,
    options: c_int,
    handler: Option<QueueHandler>,
    arg: *mut c_void,
) -> *mut Queue {
    // SAFETY: the caller's promise.
    unsafe { queue::register_queue(env, size, options, handler, arg) }
}

/// See [`queue::deregister_queue`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_DeregisterQueue(env: *mut JNIEnv, queue: *mut Queue) -> bool {
    queue::deregister_queue(env, queue)
}

/// See [`queue::set_on_queue_processing_start`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_SetOnQueueProcessingStart(
    queue: *mut Queue,
    options: c_int,
    offers_iterator: bool,
    handler: Option<OnQueueSafepointHandler>,
    arg: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { queue::set_on_queue_processing_start(queue, options, offers_iterator, handler, arg) }
}

/// See [`queue::set_on_queue_processing_end`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_SetOnQueueProcessingEnd(
    queue: *mut Queue,
    options: c_int,
    offers_iterator: bool,
    handler: Option<OnQueueSafepointHandler>,
    arg: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { queue::set_on_queue_processing_end(queue, options, offers_iterator, handler, arg) }
}

/// See [`queue::enqueue`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_Enqueue(
    queue: *mut Queue,
    context: *mut c_void,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { queue::enqueue(queue, context, arg) }
}

/// See [`queue::get_enqueuable_element`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetEnqueuableElement(
    context: *mut c_void,
    element: *mut QueueElement,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { queue::get_enqueuable_element(context, element) }
}

/// See [`queue::get_queue_element`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetQueueElement(queue: *mut Queue, n: c_int) -> *mut QueueElement {
    queue::get_queue_element(queue, n)
}

/// See [`queue::get_queue_size_info`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetQueueSizeInfo(queue: *mut Queue) -> QueueSizeInfo {
    queue::get_queue_size_info(queue)
}

/// See [`queue::resize_queue`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_ResizeQueue(queue: *mut Queue, size: c_int) {
    queue::resize_queue(queue, size);
}

/// See [`queue::register_frame_mark`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_RegisterFrameMark(
    env: *mut JNIEnv,
    handler: Option<FrameMarkHandler>,
    options: c_int,
    arg: *mut c_void,
) -> *mut FrameMark {
    queue::register_frame_mark(env, handler, options, arg)
}

/// See [`queue::move_frame_mark`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_MoveFrameMark(mark: *mut FrameMark, sp: *mut c_void) {
    queue::move_frame_mark(mark, sp);
}

/// See [`queue::get_frame_mark_stack_pointer`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetFrameMarkStackPointer(mark: *mut FrameMark) -> *mut c_void {
    queue::get_frame_mark_stack_pointer(mark)
}

/// See [`queue::remove_frame_mark`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_RemoveFrameMark(mark: *mut FrameMark) {
    queue::remove_frame_mark(mark);
}

/// See [`queue::set_safepoint_callback`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_SetSafepointCallback(callback: Option<SafepointCallback>, arg: *mut c_void) {
    queue::set_safepoint_callback(callback, arg);
}

/// See [`queue::get_safepoint_callback`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetSafepointCallback(
    callback: *mut Option<SafepointCallback>,
    arg: *mut *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { queue::get_safepoint_callback(callback, arg) }
}

/// See [`queue::trigger_safe_point`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_TriggerSafePoint() {
    queue::trigger_safe_point();
}

/// See [`queue::statistics`]: writes them; whether there is such a queue.
///
/// # Safety
/// `into` is null or can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn WALKFUZZ_QueueStatistics(
    queue: *mut Queue,
    into: *mut QueueStatistics,
) -> bool {
    let Some(statistics) = queue::statistics(queue) else {
        return false;
    };
    if !into.is_null() && into.is_aligned() {
        // SAFETY: the caller's promise.
        unsafe { into.write(statistics) };
    }
    true
}

/// See [`queue::outcome`].
#[unsafe(no_mangle)]
extern "C" fn WALKFUZZ_QueueOutcome(queue: *mut Queue) -> c_int {
    queue::outcome(queue)
}
