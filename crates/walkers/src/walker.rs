//! What every walker must offer, and the contract of a walk.

use std::ffi::c_void;

use walkfuzz_record::{Code, Generation};

use crate::trace::TraceBuffer;

/// The C function that a guard calls: the shape of AsyncGetCallTrace, which every adapter can be brought into.
pub type WalkFunction = unsafe extern "C" fn(*mut c_void, i32, *mut c_void);

/// The Java thread to be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadHandle {
    /// Its `JNIEnv*`.
    pub env: *mut c_void,
    /// Its kernel thread id.
    pub tid: i32,
}

/// What a walk begins from.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// A signal's register context (`ucontext_t*`).
    Context(*mut c_void),
    /// A frame by value.
    Frame {
        /// Stack pointer.
        sp: u64,
        /// Frame pointer.
        fp: u64,
        /// Program counter.
        pc: u64,
    },
}

/// One prepared call: `function(first, depth, last)`.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What to call under the guard.
    pub function: WalkFunction,
    /// First argument, usually the trace.
    pub first: *mut c_void,
    /// The most frames that may be written.
    pub depth: i32,
    /// Last argument, usually the context.
    pub last: *mut c_void,
}

impl Call {
    /// A call of a function of AsyncGetCallTrace's shape, which walks `thread` from a context; `None` where there is none.
    #[inline]
    pub fn from_context(
        function: WalkFunction,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Self> {
        let Start::Context(context) = start else {
            return None;
        };
        let depth = trace.reset(depth);
        trace.trace.env = thread.env;
        Some(Self {
            function,
            first: (&raw mut trace.trace).cast(),
            depth,
            last: context,
        })
    }
}

/// What stands in the method's place of a walker's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// A `jmethodID`, as AsyncGetCallTrace gives it.
    Ids,
    /// A pc. Such frames say nothing about another walker's.
    Pcs,
}

/// An asynchronous stack walker.
///
/// # Contract
/// - [`prepare`](Walker::prepare) and [`finish`](Walker::finish) run in signal handlers: they must not allocate, lock,
///   format or touch lazily initialised thread-local storage.
/// - `prepare` zeroes the *whole* trace structure each time: some walkers read stale output as input masks.
/// - The caller owns the [`TraceBuffer`]; one buffer is used by one thread at a time. A canary stands behind the last
///   frame that `depth` allows; the caller checks it after the call.
/// - The call may fault, hang or unwind through the guard at any instruction; nothing in it may own a Rust resource.
/// - `finish` is asked only when the call returned. Its code means what [`Walker::generation`]'s table says: the same number
///   means different things to different generations.
pub trait Walker: Send + Sync {
    /// Stable short name, as used in signatures: `agct`.
    fn name(&self) -> &'static str;

    /// Whose codes it speaks.
    fn generation(&self) -> Generation;

    /// Names of codes that are the walker's own, for reports: only walkers of [`Generation::Plugin`] have some.
    fn code_names(&self) -> &[(Code, String)] {
        &[]
    }

    /// Its version; `None` for a walker that is part of the JVM and has the JVM's.
    fn version(&self) -> Option<&str> {
        None
    }

    /// What its frames have.
    fn methods(&self) -> Methods {
        Methods::Ids
    }

    /// Prepares one call that walks `thread` from `start` into `trace`, or `None` when this walker cannot begin there.
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call>;

    /// The frame count (> 0) or the code (<= 0) of a call that returned: what it left where AsyncGetCallTrace leaves it, unless it has another place.
    #[inline]
    fn finish(&self, trace: &TraceBuffer) -> Code {
        Code(trace.trace.num_frames)
    }

    /// Whether an untouched walk that gave this code did what it should.
    #[inline]
    fn did_well(&self, code: Code) -> bool {
        code.0 > 0
    }

    /// Whether the JVM takes the walking thread for another one during the call. Its own fault handler is then not asked.
    #[inline]
    fn passes_for_another(&self) -> bool {
        false
    }

    /// Puts back what a call has changed that was left halfway. Runs where [`finish`](Walker::finish) does, instead of it.
    #[inline]
    fn left(&self, _: &TraceBuffer) {}
}
