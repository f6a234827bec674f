//! The walker of a sampling.
//!
//! Contract: as the walkers'.

use walkfuzz_record::{Code, Generation};
use walkfuzz_walkers::{Agct, Call, Start, ThreadHandle, TraceBuffer, Walker};

/// What samples are walked with.
///
/// AsyncGetCallTrace is known by its type, so that what stands around it is part of the handler: after a signal each indirect call
/// is one that the core has not predicted.
pub(crate) enum Sampling {
    Agct(Agct),
    Other(&'static dyn Walker),
}

impl Walker for Sampling {
    fn name(&self) -> &'static str {
        match self {
            Sampling::Agct(walker) => walker.name(),
            Sampling::Other(walker) => walker.name(),
        }
    }

    fn generation(&self) -> Generation {
        match self {
            Sampling::Agct(walker) => walker.generation(),
            Sampling::Other(walker) => walker.generation(),
        }
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        match self {
            Sampling::Agct(walker) => walker.prepare(trace, depth, thread, start),
            Sampling::Other(walker) => walker.prepare(trace, depth, thread, start),
        }
    }

    #[inline]
    fn finish(&self, trace: &TraceBuffer) -> Code {
        match self {
            Sampling::Agct(walker) => walker.finish(trace),
            Sampling::Other(walker) => walker.finish(trace),
        }
    }

    fn left(&self, trace: &TraceBuffer) {
        match self {
            Sampling::Agct(walker) => walker.left(trace),
            Sampling::Other(walker) => walker.left(trace),
        }
    }
}
