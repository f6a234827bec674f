//! AsyncGetCallTrace, as every HotSpot since 5 exports it (forte.cpp).

use std::ffi::c_void;

use walkfuzz_record::Generation;

use crate::trace::TraceBuffer;
use crate::walker::{Call, Start, ThreadHandle, WalkFunction, Walker};

/// Stock AsyncGetCallTrace, called on the walked thread itself.
#[derive(Clone, Copy, Debug)]
pub struct Agct {
    function: WalkFunction,
}

impl Agct {
    /// Takes the address that the running libjvm exports as `AsyncGetCallTrace`.
    ///
    /// # Safety
    /// `function` must be that symbol of the JVM that runs in this process, and ClassLoad events must have been enabled and
    /// method ids primed before threads are walked (otherwise every walk answers -1).
    #[must_use]
    pub unsafe fn new(function: *const c_void) -> Self {
        // SAFETY: the caller promises that this is AsyncGetCallTrace(ASGCT_CallTrace*, jint, void*).
        let function = unsafe { std::mem::transmute::<*const c_void, WalkFunction>(function) };
        Self { function }
    }
}

impl Walker for Agct {
    fn name(&self) -> &'static str {
        "agct"
    }

    fn generation(&self) -> Generation {
        Generation::Agct
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        Call::from_context(self.function, trace, depth, thread, start)
    }
}
