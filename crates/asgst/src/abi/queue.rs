//! The safepoint queue of the iterator generation. The C form is `include/asgst_queue.h`.

use std::ffi::{c_int, c_void};

use super::iterator::Iterator;

/// `ASGST_Capabilities`.
pub mod capabilities {
    use std::ffi::c_int;

    /// Everything about queues.
    pub const REGISTER_QUEUE: c_int = 1;
    /// Everything about frame marks.
    pub const MARK_FRAME: c_int = 2;
}

/// `ASGST_Queue`.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    opaque: [u8; 0],
}

/// `ASGST_FrameMark`.
#[derive(Debug)]
#[repr(C)]
pub struct FrameMark {
    opaque: [u8; 0],
}

/// `ASGST_QueueElement`: what of an element is public. Elements are further apart than this is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QueueElement {
    /// Program counter of the frame.
    pub pc: *mut c_void,
    /// Its frame pointer.
    pub fp: *mut c_void,
    /// Its stack pointer.
    pub sp: *mut c_void,
    /// What was passed to Enqueue; the one field that may be changed.
    pub arg: *mut c_void,
}

/// `ASGST_QueueSizeInfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueSizeInfo {
    /// Elements that wait.
    pub size: i32,
    /// How many there can be.
    pub capacity: i32,
    /// Attempts to enqueue since the last processing ended.
    pub attempts: i32,
}

/// Takes an element's iterator, the queue's argument, the element's.
pub type QueueHandler = unsafe extern "C" fn(*mut Iterator, *mut c_void, *mut c_void);

/// Called before or after a queue that is not empty is processed; the iterator is null unless it was asked for.
pub type OnQueueSafepointHandler = unsafe extern "C" fn(*mut Queue, *mut Iterator, *mut c_void);

/// Called when a marked frame is returned to.
pub type FrameMarkHandler = unsafe extern "C" fn(*mut FrameMark, *mut Iterator, *mut c_void);

/// A queue's `options` are an iterator's ([`super::iterator::options`]).
pub type QueueOptions = c_int;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts() {
        assert_eq!(size_of::<QueueElement>(), 32);
        let element = [
            offset_of!(QueueElement, pc),
            offset_of!(QueueElement, fp),
            offset_of!(QueueElement, sp),
            offset_of!(QueueElement, arg),
        ];
        assert_eq!(element, [0, 8, 16, 24]);
        assert_eq!(size_of::<QueueSizeInfo>(), 12);
    }
}
