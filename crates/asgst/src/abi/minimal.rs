//! The minimal generation (2024). The C form is `include/asgst_minimal.h`.

use std::ffi::{c_int, c_void};

/// `ASGST_FrameTypeId`.
pub mod frame_type {
    /// A Java method.
    pub const JAVA: u8 = 1;
    /// An inlined Java method.
    pub const JAVA_INLINED: u8 = 2;
    /// A native method.
    pub const JAVA_NATIVE: u8 = 3;
}

/// `ASGST_Options`; both are for safepoints only.
pub mod options {
    use std::ffi::c_int;

    /// Reconstitute what is not on the stack.
    pub const RECONSTITUTE: c_int = 0x001;
    /// Walk virtual threads; contains [`RECONSTITUTE`].
    pub const WALK_LOOM_THREADS: c_int = 0x011;
}

/// `ASGST_Error`.
pub mod error {
    use std::ffi::c_int;

    /// No Java frame.
    pub const NO_JAVA_FRAME: c_int = 0;
    /// The library has not begun.
    pub const NO_CLASS_LOAD: c_int = -1;
    /// A collection runs.
    pub const GC_ACTIVE: c_int = -2;
    /// Not in Java, and nothing can be told.
    pub const UNKNOWN_NOT_JAVA: c_int = -3;
    /// Not in Java, and the way back cannot be told.
    pub const NOT_WALKABLE_NOT_JAVA: c_int = -4;
    /// In Java, and the code says nothing.
    pub const UNKNOWN_JAVA: c_int = -5;
    /// In Java, and the frame says nothing.
    pub const NOT_WALKABLE_JAVA: c_int = -6;
    /// A state that means nothing.
    pub const UNKNOWN_STATE: c_int = -7;
    /// The thread is ending, or is none of Java's.
    pub const THREAD_EXIT: c_int = -8;
    /// Deoptimisation.
    pub const DEOPT: c_int = -9;
    /// A safepoint.
    pub const SAFEPOINT: c_int = -10;
    /// An option that is not known or not offered.
    pub const UNSUPPORTED_OPTION: c_int = -11;
}

/// The bci of a frame that has none.
pub const NO_BCI: c_int = -3;

/// `ASGST_Frame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Program counter; null for no frame.
    pub pc: *mut c_void,
    /// Stack pointer.
    pub sp: *mut c_void,
    /// Frame pointer.
    pub fp: *mut c_void,
}

impl Frame {
    /// No frame.
    pub const NONE: Frame = Frame {
        pc: std::ptr::null_mut(),
        sp: std::ptr::null_mut(),
        fp: std::ptr::null_mut(),
    };
}

/// `ASGST_FrameInfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameInfo {
    /// One of [`frame_type`].
    pub kind: u8,
    /// 0 for the interpreter, 1 to 4 for tiers, -1 where there is none.
    pub comp_level: c_int,
    /// [`NO_BCI`] where there is none.
    pub bci: c_int,
    /// The method's `jmethodID`; null if it has none.
    pub method: *mut c_void,
    /// Where it is.
    pub frame: Frame,
}

/// Takes a Java frame; 1 to go on.
pub type JavaFrameCallback = unsafe extern "C" fn(*mut FrameInfo, *mut c_void) -> c_int;

/// Takes a frame that is none of Java's; 1 to go on.
pub type NonJavaFrameCallback = unsafe extern "C" fn(*mut Frame, *mut c_void) -> c_int;

/// Called at a safepoint.
pub type SafepointCallback = unsafe extern "C" fn(*mut c_void);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts() {
        assert_eq!(size_of::<Frame>(), 24);
        assert_eq!(size_of::<FrameInfo>(), 48);
        let info = [
            offset_of!(FrameInfo, kind),
            offset_of!(FrameInfo, comp_level),
            offset_of!(FrameInfo, bci),
            offset_of!(FrameInfo, method),
            offset_of!(FrameInfo, frame),
        ];
        assert_eq!(info, [0, 4, 8, 16, 24]);
    }
}
