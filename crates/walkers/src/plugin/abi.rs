//! `include/walkfuzz_walker.h` in Rust: what libraries and walkfuzz say to each other. A test compares the two.

use std::ffi::{c_char, c_void};

use crate::trace::Frame;

/// Version of the ABI, `WALKFUZZ_WALKER_ABI`.
pub const ABI: u32 = 1;

/// The walker's frames have method ids, `WALKFUZZ_METHOD_ID`.
pub const METHOD_ID: u32 = 0;
/// The walker's frames have pcs, `WALKFUZZ_METHOD_PC`.
pub const METHOD_PC: u32 = 1;

/// The function that a library exports.
pub const ENTRY: &std::ffi::CStr = c"walkfuzz_walker";

/// `struct walkfuzz_thread`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawThread {
    /// Its `JNIEnv*`.
    pub env: *mut c_void,
    /// Its kernel thread id.
    pub tid: i32,
}

/// `struct walkfuzz_code`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawCode {
    /// 0 or less.
    pub code: i32,
    /// Null at the table's end.
    pub name: *const c_char,
}

impl RawCode {
    /// The end of a table.
    pub const END: Self = Self {
        code: 0,
        name: std::ptr::null(),
    };
}

// SAFETY: a table of constants.
unsafe impl Sync for RawCode {}

/// `struct walkfuzz_facts`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawFacts {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this struct.
    pub size: u32,
    /// `java.vm.version`.
    pub jvm_version: *const c_char,
    /// Feature release.
    pub feature: u32,
    /// The loaded libjvm.
    pub libjvm_path: *const c_char,
    /// Where it is mapped.
    pub libjvm_base: usize,
    /// Its AsyncGetCallTrace.
    pub async_get_call_trace: *const c_void,
    /// `JavaVM*`.
    pub java_vm: *mut c_void,
    /// `jvmtiEnv*` or null.
    pub jvmti: *mut c_void,
    /// First byte of the reserved code cache.
    pub code_cache_low: usize,
    /// End of the reserved code cache.
    pub code_cache_high: usize,
    /// Says something to the user.
    pub log: unsafe extern "C" fn(*const c_char),
}

/// `init`.
pub type Init = unsafe extern "C" fn(*const RawFacts) -> i32;
/// `walk` and `walk_remote`.
pub type Walk = unsafe extern "C" fn(*const RawThread, *mut c_void, i32, *mut Frame) -> i32;
/// `walk_from_frame`.
pub type WalkFromFrame =
    unsafe extern "C" fn(*const RawThread, usize, usize, usize, i32, *mut Frame) -> i32;
/// [`ENTRY`].
pub type Entry = unsafe extern "C" fn() -> *const RawWalker;

/// `struct walkfuzz_walker`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawWalker {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this struct as the library knows it.
    pub size: u32,
    /// Short name.
    pub name: *const c_char,
    /// Version or null.
    pub version: *const c_char,
    /// Whose codes, or null.
    pub generation: *const c_char,
    /// Its own codes, or null.
    pub codes: *const RawCode,
    /// Called once.
    pub init: Option<Init>,
    /// Walks from a context.
    pub walk: Option<Walk>,
    /// Walks from a frame.
    pub walk_from_frame: Option<WalkFromFrame>,
    /// [`METHOD_ID`] or [`METHOD_PC`].
    pub method: u32,
    /// Walks another thread.
    pub walk_remote: Option<Walk>,
}

// SAFETY: a description points at constants of a library that is never unloaded.
unsafe impl Send for RawWalker {}
// SAFETY: as above.
unsafe impl Sync for RawWalker {}
