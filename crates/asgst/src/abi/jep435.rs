//! JEP 435, AsyncGetStackTrace, both of its ABIs. The C form is `include/asgst_jep435.h`.

use std::ffi::c_void;

/// `ASGST_Options`; the early ABI has the first two.
pub mod options {
    /// Give frames of C, C++ and stubs.
    pub const INCLUDE_C_FRAMES: i32 = 1;
    /// Walk threads that are no Java threads.
    pub const INCLUDE_NON_JAVA_THREADS: i32 = 2;
    /// Walk in states that are refused otherwise.
    pub const WALK_DURING_UNSAFE_STATES: i32 = 4;
    /// The context is the calling thread's.
    pub const WALK_SAME_THREAD: i32 = 8;
}

/// `ASGST_Error`. The early ABI ends with [`THREAD_NOT_JAVA`](error::THREAD_NOT_JAVA) and lacks [`NOT_WALKABLE_JAVA`](error::NOT_WALKABLE_JAVA).
pub mod error {
    /// No Java frame.
    pub const NO_JAVA_FRAME: i32 = 0;
    /// The library was not told of classes: it has not begun.
    pub const NO_CLASS_LOAD: i32 = -1;
    /// A collection runs.
    pub const GC_ACTIVE: i32 = -2;
    /// Not in Java, and nothing can be told.
    pub const UNKNOWN_NOT_JAVA: i32 = -3;
    /// Not in Java, and the way back to Java cannot be told.
    pub const NOT_WALKABLE_NOT_JAVA: i32 = -4;
    /// In Java, and the code says nothing.
    pub const UNKNOWN_JAVA: i32 = -5;
    /// In Java, and the frame says nothing.
    pub const NOT_WALKABLE_JAVA: i32 = -6;
    /// A thread state that means nothing.
    pub const UNKNOWN_STATE: i32 = -7;
    /// The thread is ending.
    pub const THREAD_EXIT: i32 = -8;
    /// The thread is being deoptimised.
    pub const DEOPT: i32 = -9;
    /// No Java thread, and such were not asked for.
    pub const THREAD_NOT_JAVA: i32 = -10;
    /// No thread has the context's stack, or it is the calling thread's.
    pub const NO_THREAD: i32 = -11;
    /// A state that needs [`WALK_DURING_UNSAFE_STATES`](super::options::WALK_DURING_UNSAFE_STATES).
    pub const UNSAFE_STATE: i32 = -12;
    /// A state that the mask refuses.
    pub const WRONG_STATE: i32 = -13;
    /// A kind that the mask refuses.
    pub const WRONG_KIND: i32 = -14;
}

/// `ASGST_TRACE_KIND` of the late ABI: bits.
pub mod kind {
    /// A Java thread with Java frames.
    pub const JAVA: u8 = 1;
    /// C and C++.
    pub const CPP: u8 = 2;
    /// A thread of the collector.
    pub const GC: u8 = 4;
    /// A thread in deoptimisation.
    pub const DEOPT: u8 = 8;
    /// A thread that is just being made.
    pub const NEW_THREAD: u8 = 16;
    /// None of these can be told.
    pub const UNKNOWN: u8 = 32;
}

/// `ASGST_TRACE_KIND` of the early ABI: numbers.
pub mod early_kind {
    /// A Java thread.
    pub const JAVA: u8 = 0;
    /// C and C++.
    pub const CPP: u8 = 1;
    /// A thread of the collector.
    pub const GC: u8 = 2;
    /// A thread in deoptimisation.
    pub const DEOPT: u8 = 3;
    /// None of these can be told.
    pub const UNKNOWN: u8 = 4;
}

/// `ASGST_FrameTypeId` of the late ABI.
pub mod frame_type {
    /// A Java method.
    pub const JAVA: u8 = 1;
    /// An inlined Java method.
    pub const JAVA_INLINED: u8 = 2;
    /// A native method.
    pub const NATIVE: u8 = 3;
    /// C, C++, stubs.
    pub const CPP: u8 = 4;
}

/// `ASGST_FrameTypeId` of the early ABI where it differs.
pub mod early_frame_type {
    /// A stub.
    pub const STUB: u8 = 4;
    /// C and C++.
    pub const CPP: u8 = 5;
}

/// A bci that is not known or has no room.
pub const NO_BCI: u16 = u16::MAX;

/// `ASGST_JavaFrame`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JavaFrame {
    /// One of [`frame_type`].
    pub kind: u8,
    /// 0 for the interpreter, 1 to 4 for tiers, -1 where there is none.
    pub comp_level: i8,
    /// [`NO_BCI`] where there is none.
    pub bci: u16,
    /// The method's `jmethodID`; null if it has none.
    pub method_id: *mut c_void,
}

/// `ASGST_NonJavaFrame`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NonJavaFrame {
    /// One of [`frame_type`] or [`early_frame_type`].
    pub kind: u8,
    /// Program counter.
    pub pc: *mut c_void,
}

/// `ASGST_CallFrame`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union CallFrame {
    /// What kind of frame.
    pub kind: u8,
    /// Of a method.
    pub java: JavaFrame,
    /// Of anything else.
    pub non_java: NonJavaFrame,
}

/// `ASGST_CallTrace` of the late ABI. `kind` and `state` are masks on entry: zero accepts all.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallTrace {
    /// Frames, or an error.
    pub num_frames: i32,
    /// Kinds to accept; then the kind.
    pub kind: u8,
    /// JVMTI thread states to accept; then the state, -1 of threads that are not in Java's hands.
    pub state: i32,
    /// Room for frames.
    pub frames: *mut CallFrame,
    /// Always null.
    pub frame_info: *mut c_void,
}

/// `ASGST_CallTrace` of the early ABI.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EarlyCallTrace {
    /// Frames, or an error.
    pub num_frames: i32,
    /// One of [`early_kind`].
    pub kind: u8,
    /// Room for frames.
    pub frames: *mut CallFrame,
    /// Always null.
    pub frame_info: *mut c_void,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts() {
        assert_eq!(size_of::<CallFrame>(), 16);
        let java = [
            offset_of!(JavaFrame, kind),
            offset_of!(JavaFrame, comp_level),
            offset_of!(JavaFrame, bci),
            offset_of!(JavaFrame, method_id),
        ];
        assert_eq!(java, [0, 1, 2, 8]);
        assert_eq!(offset_of!(NonJavaFrame, pc), 8);
        assert_eq!(size_of::<CallTrace>(), 32);
        let late = [
            offset_of!(CallTrace, num_frames),
            offset_of!(CallTrace, kind),
            offset_of!(CallTrace, state),
            offset_of!(CallTrace, frames),
            offset_of!(CallTrace, frame_info),
        ];
        assert_eq!(late, [0, 4, 8, 16, 24]);
        assert_eq!(size_of::<EarlyCallTrace>(), 24);
        let early = [
            offset_of!(EarlyCallTrace, num_frames),
            offset_of!(EarlyCallTrace, kind),
            offset_of!(EarlyCallTrace, frames),
            offset_of!(EarlyCallTrace, frame_info),
        ];
        assert_eq!(early, [0, 4, 8, 16]);
    }
}
