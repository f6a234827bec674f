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

/// Why a JVM cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this JVM offers no {}: the walker {} has nothing to ask",
    RequestStackTrace::FUNCTION,
    RequestStackTrace::NAME
)]
pub struct NoRequestStackTrace;

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

    /// Taken: there are no frames to be had.
    fn did_well(&self, code: Code) -> bool {
        code.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What the function was called with, in order.
    static ASKED: Mutex<Vec<[usize; 4]>> = Mutex::new(Vec::new());
    /// What it answers: an error of JVMTI's, one for each call.
    const ANSWERS: [i32; 5] = [0, NOT_AVAILABLE, INVALID_THREAD, 103, -1];

    /// An extension function in the place of a JVM's.
    unsafe extern "C" fn extension(
        environment: *mut c_void,
        thread: *mut c_void,
        context: *mut c_void,
        serial: i64,
    ) -> i32 {
        let mut asked = ASKED.lock().unwrap();
        asked.push([
            environment as usize,
            thread as usize,
            context as usize,
            serial as usize,
        ]);
        ANSWERS[asked.len() - 1]
    }

    #[test]
    fn the_function_gets_the_context_and_its_errors_become_codes() {
        type Fixed = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, i64) -> i32;
        // SAFETY: its arguments go where those of a variadic function go, in this calling convention.
        let function = unsafe { std::mem::transmute::<Fixed, ExtensionCall>(extension) };
        // SAFETY: nothing follows the environment.
        let walker = unsafe { RequestStackTrace::new(function, 0x1110 as *mut c_void) };
        let thread = ThreadHandle {
            env: 0x2220 as *mut c_void,
            tid: 7,
        };
        let mut trace = TraceBuffer::new();
        let frame = Start::Frame {
            sp: 1,
            fp: 2,
            pc: 3,
        };
        assert!(walker.prepare(&mut trace, 8, thread, frame).is_none());
        let mut codes = Vec::new();
        for call in 0..ANSWERS.len() {
            let context = (0x3000 + call) as *mut c_void;
            // What is left of the call before is no answer.
            trace.trace.num_frames = 77;
            let call = walker
                .prepare(&mut trace, 8, thread, Start::Context(context))
                .unwrap();
            // SAFETY: the walker's own call.
            unsafe { (call.function)(call.first, call.depth, call.last) };
            codes.push(walker.finish(&trace).0);
        }
        assert_eq!(codes, [0, -1, -2, -3, -3]);
        assert!(trace.canary_intact());
        let asked = ASKED.lock().unwrap();
        assert_eq!(asked.len(), ANSWERS.len());
        for (call, [environment, thread, context, serial]) in asked.iter().enumerate() {
            // No thread stands for the calling one.
            assert_eq!((*environment, *thread), (0x1110, 0));
            assert_eq!((*context, *serial), (0x3000 + call, call));
        }
    }
}
