//! The safepoint queue's functions.

use std::ffi::{c_int, c_void};

use jvmti_bindings::sys::jni::JNIEnv;

use super::table::function_table;
use crate::abi::queue::{
    FrameMark, FrameMarkHandler, OnQueueSafepointHandler, Queue, QueueElement, QueueHandler,
    QueueOptions, QueueSizeInfo,
};
use crate::queue;

function_table! {
    /// Queues and frame marks. Each is as `include/asgst_queue.h` says.
    QueueApi {
        /// What is offered.
        capabilities = "Capabilities": () -> c_int;
        /// A queue of a thread's.
        register_queue = "RegisterQueue":
            (*mut JNIEnv, c_int, QueueOptions, Option<QueueHandler>, *mut c_void) -> *mut Queue;
        /// Ends a queue.
        deregister_queue = "DeregisterQueue": (*mut JNIEnv, *mut Queue) -> bool;
        /// Called before processing.
        set_on_queue_processing_start = "SetOnQueueProcessingStart":
            (*mut Queue, QueueOptions, bool, Option<OnQueueSafepointHandler>, *mut c_void);
        /// Called after it.
        set_on_queue_processing_end = "SetOnQueueProcessingEnd":
            (*mut Queue, QueueOptions, bool, Option<OnQueueSafepointHandler>, *mut c_void);
        /// Puts the current frame in.
        enqueue = "Enqueue": (*mut Queue, *mut c_void, *mut c_void) -> c_int;
        /// What Enqueue would put in.
        get_enqueuable_element = "GetEnqueuableElement": (*mut c_void, *mut QueueElement) -> c_int;
        /// The nth element.
        get_queue_element = "GetQueueElement": (*mut Queue, c_int) -> *mut QueueElement;
        /// How full it is.
        get_queue_size_info = "GetQueueSizeInfo": (*mut Queue) -> QueueSizeInfo;
        /// Another capacity.
        resize_queue = "ResizeQueue": (*mut Queue, c_int);
        /// Marks a frame.
        register_frame_mark = "RegisterFrameMark":
            (*mut JNIEnv, Option<FrameMarkHandler>, c_int, *mut c_void) -> *mut FrameMark;
        /// Marks another frame.
        move_frame_mark = "MoveFrameMark": (*mut FrameMark, *mut c_void);
        /// Which frame is marked.
        get_frame_mark_stack_pointer = "GetFrameMarkStackPointer": (*mut FrameMark) -> *mut c_void;
        /// Marks it no more.
        remove_frame_mark = "RemoveFrameMark": (*mut FrameMark);
    }
}

impl QueueApi {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            capabilities: queue::capabilities,
            register_queue: queue::register_queue,
            deregister_queue: queue::deregister_queue,
            set_on_queue_processing_start: queue::set_on_queue_processing_start,
            set_on_queue_processing_end: queue::set_on_queue_processing_end,
            enqueue: queue::enqueue,
            get_enqueuable_element: queue::get_enqueuable_element,
            get_queue_element: queue::get_queue_element,
            get_queue_size_info: queue::get_queue_size_info,
            resize_queue: queue::resize_queue,
            register_frame_mark: queue::register_frame_mark,
            move_frame_mark: queue::move_frame_mark,
            get_frame_mark_stack_pointer: queue::get_frame_mark_stack_pointer,
            remove_frame_mark: queue::remove_frame_mark,
        }
    }
}
