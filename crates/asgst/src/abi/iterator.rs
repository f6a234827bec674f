//! The iterator generation (`profile2.h`, 2023), without its queue. The C form is `include/asgst_iterator.h`.

use std::ffi::{c_char, c_int, c_void};

/// `ASGST_FrameTypeId`.
pub mod frame_type {
    /// A Java method, compiled or interpreted.
    pub const JAVA: u8 = 1;
    /// A Java method that was inlined into a compiled one.
    pub const JAVA_INLINED: u8 = 2;
    /// A native method, called through its wrapper.
    pub const JAVA_NATIVE: u8 = 3;
    /// Anything else: C, C++, stubs.
    pub const NON_JAVA: u8 = 4;
}

/// `ASGST_Options`.
pub mod options {
    /// Give frames of C, C++ and stubs as well.
    pub const INCLUDE_NON_JAVA_FRAMES: i32 = 1;
    /// The first frame of a Java method is the last frame that is given.
    pub const END_ON_FIRST_JAVA_FRAME: i32 = 2;
    /// Every bit that means something.
    pub const ALL: i32 = INCLUDE_NON_JAVA_FRAMES | END_ON_FIRST_JAVA_FRAME;
}

/// `ASGST_TRACE_KIND`.
pub mod trace_kind {
    /// The thread runs Java, or code that Java called.
    pub const JAVA: c_int = 1;
    /// A Java thread without a Java frame.
    pub const NON_JAVA: c_int = 2;

    use std::ffi::c_int;
}

/// `ASGST_Error`.
pub mod error {
    use std::ffi::c_int;

    /// There is no further frame.
    pub const NO_FRAME: c_int = 0;
    /// The calling thread is no Java thread, or the JVM has not started yet.
    pub const NO_THREAD: c_int = -1;
    /// The thread is ending.
    pub const THREAD_EXIT: c_int = -2;
    /// The thread's state forbids a walk.
    pub const UNSAFE_STATE: c_int = -3;
    /// The frame to begin with cannot be told.
    pub const NO_TOP_JAVA_FRAME: c_int = -4;
    /// There is no such queue.
    pub const ENQUEUE_NO_QUEUE: c_int = -5;
    /// The queue is full.
    pub const ENQUEUE_FULL_QUEUE: c_int = -6;
    /// Any other reason not to enqueue.
    pub const ENQUEUE_OTHER_ERROR: c_int = -7;

    /// Values below it are an implementation's own: a walker's error is [`walker`]'s number on top of it.
    pub const OWN: c_int = -16;

    /// What the walker says, as the iterator's authors number it; this is added to [`OWN`].
    pub mod walker {
        use std::ffi::c_int;

        /// A frame that makes no sense.
        pub const INDECIPHERABLE_FRAME: c_int = -1;
        /// A native frame that makes no sense.
        pub const INDECIPHERABLE_NATIVE_FRAME: c_int = -2;
        /// An interpreter's frame that makes no sense.
        pub const INDECIPHERABLE_INTERPRETED_FRAME: c_int = -3;
        /// What cannot be walked further.
        pub const NOT_WALKABLE: c_int = -6;
        /// Ours: an iterator that is null, misaligned, or no longer valid.
        pub const NO_ITERATOR: c_int = -16;
    }
}

/// What a method or class is known by; null for none. It may be unloaded at any time: functions that take one check what they read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Method(pub usize);

/// See [`Method`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Class(pub usize);

/// `ASGST_Iterator`: valid until the handler that it was given to returns.
#[derive(Debug)]
#[repr(C)]
pub struct Iterator {
    opaque: [u8; 0],
}

/// `ASGST_Frame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// One of [`frame_type`]; 0 after an error.
    pub kind: u8,
    /// 0 for the interpreter, 1 to 4 for tiers, -1 where there is none.
    pub comp_level: c_int,
    /// Bytecode index; -1 where there is none.
    pub bci: c_int,
    /// Null where there is none.
    pub method: Method,
    /// Program counter.
    pub pc: *mut c_void,
    /// Stack pointer; may be null.
    pub sp: *mut c_void,
    /// Frame pointer; may be null.
    pub fp: *mut c_void,
}

impl Frame {
    /// What a frame is after the end and after errors.
    pub const NONE: Frame = Frame {
        kind: 0,
        comp_level: -1,
        bci: -1,
        method: Method(0),
        pc: std::ptr::null_mut(),
        sp: std::ptr::null_mut(),
        fp: std::ptr::null_mut(),
    };
}

/// `ASGST_MethodInfo`. The caller gives room for strings and how much there is; a null string is not wanted.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MethodInfo {
    /// The class that declares it.
    pub klass: Class,
    /// Its name.
    pub method_name: *mut c_char,
    /// Room for the name, then its length.
    pub method_name_length: i32,
    /// Its descriptor.
    pub signature: *mut c_char,
    /// Room for the descriptor, then its length.
    pub signature_length: i32,
    /// Its generic signature; empty if there is none.
    pub generic_signature: *mut c_char,
    /// Room for the generic signature, then its length.
    pub generic_signature_length: i32,
    /// Access flags as class files have them.
    pub modifiers: i32,
    /// Its number in its class.
    pub idnum: i32,
    /// Its class's number.
    pub class_idnum: i64,
}

/// `ASGST_ClassInfo`; strings as in [`MethodInfo`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClassInfo {
    /// Its name, with slashes.
    pub class_name: *mut c_char,
    /// Room for the name, then its length.
    pub class_name_length: i32,
    /// Its generic signature; empty if there is none.
    pub generic_class_name: *mut c_char,
    /// Room for it, then its length.
    pub generic_class_name_length: i32,
    /// Access flags.
    pub modifiers: i32,
    /// Its number.
    pub idnum: i64,
}

/// `ASGST_MethodLineNumberEntry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LineNumberEntry {
    /// The first bytecode of the line.
    pub start_bci: i32,
    /// The line.
    pub line_number: i32,
}

/// Takes an iterator, which is valid until it returns.
pub type IteratorHandler = unsafe extern "C" fn(*mut Iterator, *mut c_void);

/// Takes a class that is being unloaded, its methods, their count, whether only they go (the class was redefined), and its own argument.
pub type ClassUnloadHandler = unsafe extern "C" fn(Class, *mut Method, c_int, bool, *mut c_void);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts() {
        assert_eq!(size_of::<Frame>(), 48);
        let frame = [
            offset_of!(Frame, kind),
            offset_of!(Frame, comp_level),
            offset_of!(Frame, bci),
            offset_of!(Frame, method),
            offset_of!(Frame, pc),
            offset_of!(Frame, sp),
            offset_of!(Frame, fp),
        ];
        assert_eq!(frame, [0, 4, 8, 16, 24, 32, 40]);
        assert_eq!(size_of::<MethodInfo>(), 72);
        let method = [
            offset_of!(MethodInfo, klass),
            offset_of!(MethodInfo, method_name),
            offset_of!(MethodInfo, method_name_length),
            offset_of!(MethodInfo, signature),
            offset_of!(MethodInfo, signature_length),
            offset_of!(MethodInfo, generic_signature),
            offset_of!(MethodInfo, generic_signature_length),
            offset_of!(MethodInfo, modifiers),
            offset_of!(MethodInfo, idnum),
            offset_of!(MethodInfo, class_idnum),
        ];
        assert_eq!(method, [0, 8, 16, 24, 32, 40, 48, 52, 56, 64]);
        assert_eq!(size_of::<ClassInfo>(), 40);
        let class = [
            offset_of!(ClassInfo, class_name),
            offset_of!(ClassInfo, class_name_length),
            offset_of!(ClassInfo, generic_class_name),
            offset_of!(ClassInfo, generic_class_name_length),
            offset_of!(ClassInfo, modifiers),
            offset_of!(ClassInfo, idnum),
        ];
        assert_eq!(class, [0, 8, 16, 24, 28, 32]);
        assert_eq!(size_of::<LineNumberEntry>(), 8);
    }
}
