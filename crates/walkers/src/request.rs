//! `RequestStackTrace`: JVMTI's extension function of JEP draft 8380294, where a JVM offers it.
//!
//! A call asks for the stack of the calling thread at a signal's context; the walk is made later, at a safepoint, and becomes an event of JFR's
//! (`StackTraceRequest`). So there are no frames to look at: what can be seen here is whether the request is taken, and whether asking is safe.
//!
//! Contract: as [`Walker`]'s; the function is meant for handlers.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::*};

use walkfuzz_record::{Code, Generation};

use crate::trace::{CallTrace, TraceBuffer};
use crate::walker::{Call, Start, ThreadHandle, Walker};

/// `jvmtiExtensionFunction`: the environment, and what the function itself takes.
pub type ExtensionCall = unsafe extern "C" fn(*mut c_void, ...) -> i32;

/// JVMTI_ERROR_INVALID_THREAD and JVMTI_ERROR_NOT_AVAILABLE.
const INVALID_THREAD: i32 = 10;
const NOT_AVAILABLE: i32 = 98;

/// One JVM in a process, one function.
static FUNCTION: AtomicUsize = AtomicUsize::new(0);
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);
/// What the next event will be known by.
static SERIAL: AtomicI64 = AtomicI64::new(0);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct RequestStackTrace(());

impl RequestStackTrace {
    /// The function's name, and the walker's.
    pub const FUNCTION: &'static str = "RequestStackTrace";
    /// The walker's name.
    pub const NAME: &'static str = "request-stack-trace";

    /// With a JVM's function.
    ///
    /// # Safety
    /// `function` is the RequestStackTrace that JVMTI's `GetExtensionFunctions` of the environment shows, which stays.
    #[must_use]
    pub unsafe fn new(function: ExtensionCall, environment: *mut c_void) -> Self {
        FUNCTION.store(function as usize, Release);
        ENVIRONMENT.store(environment as usize, Release);
        Self(())
    }
}

/// AsyncGetCallTrace's shape. The codes are ours: 0 taken, the rest errors.
unsafe extern "C" fn request(trace: *mut c_void, _: i32, context: *mut c_void) {
    let function = FUNCTION.load(Acquire);
    let environment = ENVIRONMENT.load(Acquire) as *mut c_void;
    let serial = SERIAL.fetch_add(1, Relaxed);
    // SAFETY: `new` stored a function that takes (thread, context, user data); no thread means the calling one. The trace is `prepare`'s.
    unsafe {
        let function: ExtensionCall = std::mem::transmute(function);
        let error = function(environment, std::ptr::null_mut::<c_void>(), context, serial);
        (*trace.cast::<CallTrace>()).num_frames = match error {
            0 => 0,
            NOT_AVAILABLE => -1,
            INVALID_THREAD => -2,
            _ => -3,
        };
    }
}

impl Walker for RequestStackTrace {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn generation(&self) -> Generation {
        Generation::RequestStackTrace
    }

    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        Call::from_context(request, trace, depth, thread, start)
    }

    fn finish(&self, trace: &TraceBuffer) -> Code {
        Code(trace.trace.num_frames)
    }
}
