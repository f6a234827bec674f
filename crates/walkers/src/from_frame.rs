//! Walks from frames: what a walker makes of sp, fp and pc by value, which are taken from a context.

use walkfuzz_guard::read_registers;
use walkfuzz_record::{Code, Generation};

use crate::trace::TraceBuffer;
use crate::walker::{Call, Methods, Start, ThreadHandle, Walker};

/// What stands behind the name of a walker that walks from frames.
pub(crate) const FRAME_SUFFIX: &str = "-frame";

/// A walker whose walks all begin at the frame that the context's sp, fp and pc make; no other register reaches it.
pub struct FromFrame<W> {
    walker: W,
    name: &'static str,
}

/// The frame of a context; a frame stays as it is.
///
/// # Safety
/// A context is valid.
#[inline]
#[must_use]
pub unsafe fn as_frame(start: Start) -> Start {
    match start {
        Start::Context(context) => {
            // SAFETY: the caller's promise.
            let registers = unsafe { read_registers(context.cast()) };
            Start::Frame {
                sp: registers.sp().0,
                fp: registers.fp().0,
                pc: registers.pc().0,
            }
        }
        frame @ Start::Frame { .. } => frame,
    }
}

/// The name of a walker as it walks from frames.
#[must_use]
pub(crate) fn frame_name(walker: &str) -> String {
    format!("{walker}{FRAME_SUFFIX}")
}

impl<W: Walker> FromFrame<W> {
    /// `None` if it cannot walk from frames.
    #[must_use]
    pub fn new(walker: W) -> Option<Self> {
        let (thread, mut trace) = (
            ThreadHandle {
                env: std::ptr::null_mut(),
                tid: 0,
            },
            TraceBuffer::new(),
        );
        let frame = Start::Frame {
            sp: 0,
            fp: 0,
            pc: 0,
        };
        walker.prepare(&mut trace, 1, thread, frame)?;
        let name = &*String::leak(frame_name(walker.name()));
        Some(Self { walker, name })
    }
}

impl<W: Walker> Walker for FromFrame<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.walker.generation()
    }

    fn code_names(&self) -> &[(Code, String)] {
        self.walker.code_names()
    }

    fn version(&self) -> Option<&str> {
        self.walker.version()
    }

    fn methods(&self) -> Methods {
        self.walker.methods()
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        // SAFETY: what walkers are given.
        let start = unsafe { as_frame(start) };
        self.walker.prepare(trace, depth, thread, start)
    }

    #[inline]
    fn finish(&self, trace: &TraceBuffer) -> Code {
        self.walker.finish(trace)
    }

    fn left(&self, trace: &TraceBuffer) {
        self.walker.left(trace);
    }
}
