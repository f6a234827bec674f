//! An iterator in AsyncGetCallTrace's clothes, for those that drive walkers.
//!
//! Contract: as [`Walker`] has it.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use walkfuzz_record::Generation;
use walkfuzz_walkers::{
    Call, CallTrace, Frame as AgctFrame, Start, ThreadHandle, TraceBuffer, Walker,
};

use crate::abi::iterator::{Frame, Iterator, error, frame_type, trace_kind};
use crate::api::IteratorApi;

/// The bci that native methods have with AsyncGetCallTrace.
pub(crate) const NATIVE_BCI: i32 = -3;

static API: OnceLock<IteratorApi> = OnceLock::new();

/// Walks with an implementation's iterators: methods as `jmethodID`s, a method without one with null. A process has one such implementation.
#[derive(Clone, Copy, Debug)]
pub struct IteratorWalker(());

impl IteratorWalker {
    /// With these functions, or with those of the first call of this.
    #[must_use]
    pub fn new(api: IteratorApi) -> Self {
        API.get_or_init(|| api);
        Self(())
    }
}

impl Walker for IteratorWalker {
    fn name(&self) -> &'static str {
        "asgst-iterator"
    }

    fn generation(&self) -> Generation {
        Generation::AsgstIterator
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        Call::from_context(walk, trace, depth, thread, start)
    }
}

/// What the handler fills.
pub(crate) struct Taking<'a> {
    api: &'a IteratorApi,
    frames: &'a mut [AgctFrame],
    count: usize,
    /// What the last NextFrame answered.
    answer: c_int,
}

impl<'a> Taking<'a> {
    /// Fills `trace`.
    ///
    /// # Safety
    /// The trace has room for `depth` frames, and nobody else has it meanwhile.
    pub(crate) unsafe fn new(api: &'a IteratorApi, trace: &'a mut CallTrace, depth: i32) -> Self {
        Self {
            api,
            // SAFETY: the caller's promise.
            frames: unsafe { std::slice::from_raw_parts_mut(trace.frames, depth.max(0) as usize) },
            count: 0,
            answer: error::NO_FRAME,
        }
    }

    /// Frames, or the code that says why there are none; `kind` is what running the iterator came to.
    pub(crate) fn num_frames(&self, kind: c_int) -> i32 {
        match self.count {
            0 => kind.min(self.answer).min(0),
            count => count as i32,
        }
    }
}

/// AsyncGetCallTrace's shape.
unsafe extern "C" fn walk(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own trace, with room for `depth` frames.
    let trace = unsafe { &mut *trace.cast::<CallTrace>() };
    let Some(api) = API.get() else {
        trace.num_frames = error::NO_THREAD;
        return;
    };
    // SAFETY: as above; nobody else has the buffer during the call.
    let mut taking = unsafe { Taking::new(api, trace, depth) };
    let argument = (&raw mut taking).cast();
    // SAFETY: the context is the caller's, and the handler gets what it expects.
    let kind = unsafe { (api.run_with_iterator)(context, 0, Some(take), argument) };
    let num_frames = taking.num_frames(kind);
    trace.num_frames = num_frames;
}

/// Takes the frames that one of our own iterators has, as many as there is room for; or says why there are none.
///
/// # Safety
/// The iterator is null or valid; the trace has room for `depth` frames, and nobody else has it meanwhile.
pub unsafe fn take_frames(trace: &mut CallTrace, depth: i32, iterator: *mut Iterator) {
    let api = IteratorApi::own();
    // SAFETY: the caller's promise.
    let mut taking = unsafe { Taking::new(&api, trace, depth) };
    // SAFETY: as above.
    unsafe { take(iterator, (&raw mut taking).cast()) };
    let num_frames = taking.num_frames(trace_kind::JAVA);
    trace.num_frames = num_frames;
}

/// Takes an iterator's frames.
pub(crate) unsafe extern "C" fn take(iterator: *mut Iterator, taking: *mut c_void) {
    // SAFETY: `walk` passes its own.
    let taking = unsafe { &mut *taking.cast::<Taking<'_>>() };
    let mut frame = Frame::NONE;
    for slot in &mut *taking.frames {
        // SAFETY: the iterator is this handler's.
        taking.answer = unsafe { (taking.api.next_frame)(iterator, &mut frame) };
        if taking.answer != 1 {
            return;
        }
        let bci = match frame.kind {
            frame_type::JAVA_NATIVE => NATIVE_BCI,
            _ => frame.bci,
        };
        // SAFETY: the method is the frame's.
        let method = unsafe { (taking.api.method_to_jmethod_id)(frame.method) } as u64;
        *slot = AgctFrame { bci, method };
        taking.count += 1;
    }
}
