//! AsyncGetStackTrace in AsyncGetCallTrace's clothes, for those that drive walkers.
//!
//! Contract: as [`Walker`] has it.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use walkfuzz_record::Generation;
use walkfuzz_walkers::{
    Call, CallTrace, Frame as AgctFrame, Start, ThreadHandle, TraceBuffer, Walker,
};

use crate::abi::jep435::{self, CallFrame, NO_BCI, error, frame_type, options};
use crate::api::Jep435Api;
use crate::walker::NATIVE_BCI;

// Frames are written as the one and turned into the other where they lie.
const _: () = assert!(size_of::<CallFrame>() == size_of::<AgctFrame>());
const _: () = assert!(align_of::<CallFrame>() == align_of::<AgctFrame>());

static API: OnceLock<Jep435Api> = OnceLock::new();

/// Walks the calling thread with an implementation's AsyncGetStackTrace, late ABI, Java frames alone. A process has one such implementation.
#[derive(Clone, Copy, Debug)]
pub struct Jep435Walker(());

impl Jep435Walker {
    /// With this function, or with that of the first call of this.
    #[must_use]
    pub fn new(api: Jep435Api) -> Self {
        API.get_or_init(|| api);
        Self(())
    }
}

impl Walker for Jep435Walker {
    fn name(&self) -> &'static str {
        "asgst-jep435"
    }

    fn generation(&self) -> Generation {
        Generation::AsgstLate
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

/// AsyncGetCallTrace's shape.
unsafe extern "C" fn walk(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own trace, with room for `depth` frames.
    let trace = unsafe { &mut *trace.cast::<CallTrace>() };
    let Some(api) = API.get() else {
        trace.num_frames = error::NO_CLASS_LOAD;
        return;
    };
    let mut given = jep435::CallTrace {
        num_frames: 0,
        kind: 0,
        state: 0,
        frames: trace.frames.cast(),
        frame_info: ptr::null_mut(),
    };
    // SAFETY: the room is as wide as that of AsyncGetCallTrace's frames; the context is the caller's.
    unsafe {
        (api.async_get_stack_trace)(&mut given, depth, context, options::WALK_SAME_THREAD);
    }
    for n in 0..usize::try_from(given.num_frames.min(depth)).unwrap_or(0) {
        // SAFETY: both are plain data of one size, the frame was written, and is read before it is written over.
        unsafe {
            let frame = given.frames.add(n).read();
            trace.frames.add(n).write(turned(&frame));
        }
    }
    trace.num_frames = given.num_frames;
}

/// The frame as AsyncGetCallTrace has it; one that is none of Java's has no method.
fn turned(frame: &CallFrame) -> AgctFrame {
    // SAFETY: each variant begins with the kind; who has one of these kinds is Java's.
    let (kind, java) = unsafe { (frame.kind, frame.java) };
    match kind {
        frame_type::JAVA | frame_type::JAVA_INLINED => AgctFrame {
            bci: match java.bci {
                NO_BCI => -1,
                bci => i32::from(bci),
            },
            method: java.method_id as u64,
        },
        frame_type::NATIVE => AgctFrame {
            bci: NATIVE_BCI,
            method: java.method_id as u64,
        },
        _ => AgctFrame { bci: -1, method: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::jep435::{JavaFrame, NonJavaFrame};

    #[test]
    fn frames_are_turned() {
        let java = |kind, bci| {
            let frame = turned(&CallFrame {
                java: JavaFrame {
                    kind,
                    comp_level: 4,
                    bci,
                    method_id: 64 as *mut c_void,
                },
            });
            (frame.bci, frame.method)
        };
        assert_eq!(java(frame_type::JAVA, 7), (7, 64));
        assert_eq!(java(frame_type::JAVA_INLINED, NO_BCI), (-1, 64));
        assert_eq!(java(frame_type::NATIVE, NO_BCI), (-3, 64));
        let other = CallFrame {
            non_java: NonJavaFrame {
                kind: frame_type::CPP,
                pc: 64 as *mut c_void,
            },
        };
        assert_eq!(turned(&other), AgctFrame { bci: -1, method: 0 });
    }
}
