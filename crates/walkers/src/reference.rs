//! The reference walker in AsyncGetCallTrace's clothes: its frames as method ids and bytecodes, its ends as codes.

use std::ffi::c_void;
use std::sync::OnceLock;

use libc::ucontext_t;
use walkfuzz_context::{Address, Registers};
use walkfuzz_guard::read_registers;
use walkfuzz_record::Generation;
use walkfuzz_reference::{CheckedMemory, End, Frames, Reference, ReferenceError, ReferenceFrame};
use walkfuzz_vmstructs::{HotSpot, Memory};

use crate::trace::{CallTrace, Frame, TraceBuffer};
use crate::walker::{Call, Start, ThreadHandle, Walker};

// AsyncGetCallTrace's (forte.cpp).
const NOT_WALKABLE: i32 = -4;
const UNKNOWN_JAVA: i32 = -5;
const NOT_WALKABLE_JAVA: i32 = -6;
const THREAD_EXIT: i32 = -8;

/// What the walk function knows beside its arguments; a process has one JVM.
struct Jvm {
    reference: Reference,
    /// From a `JavaThread` to its `JNIEnv`.
    env_offset: u64,
}

static JVM: OnceLock<Jvm> = OnceLock::new();

/// walkfuzz's own walker over VMStructs. It reads this process's memory by the guard's checked load: the guard's handlers must be installed.
///
/// Its frames are what AsyncGetCallTrace would give, a method without a `jmethodID` with a null id. Its codes, where it has no frame:
/// 0 no Java frames; in Java -5 where the pc says nothing, -6 where its frame does not; elsewhere -4 (the anchor leads nowhere).
#[derive(Clone, Copy, Debug)]
pub struct ReferenceWalker(());

impl ReferenceWalker {
    /// The reference walker of this process's JVM, which is looked up once. `symbol` is as for [`HotSpot::attach`]; `env_offset` leads from a
    /// `JavaThread` to its `JNIEnv`.
    ///
    /// # Errors
    /// [`ReferenceError`] naming what this JVM's tables lack.
    pub fn attach(
        hotspot: &HotSpot,
        symbol: &dyn Fn(&str) -> Option<u64>,
        env_offset: u64,
    ) -> Result<Self, ReferenceError> {
        if JVM.get().is_none() {
            let reference = Reference::new(hotspot, &CheckedMemory, symbol)?;
            JVM.get_or_init(|| Jvm {
                reference,
                env_offset,
            });
        }
        Ok(Self(()))
    }

    /// The walker itself, for those that want to know more of its frames.
    #[must_use]
    pub fn reference(&self) -> Option<&'static Reference> {
        JVM.get().map(|jvm| &jvm.reference)
    }
}

impl Walker for ReferenceWalker {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn generation(&self) -> Generation {
        Generation::Reference
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

/// Java frames, as far as there is room.
struct Traced<'a, M: Memory + ?Sized> {
    reference: &'a Reference,
    memory: &'a M,
    frames: &'a mut [Frame],
    count: usize,
}

impl<M: Memory + ?Sized> Frames for Traced<'_, M> {
    #[inline]
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        if !frame.kind.has_method() {
            return true;
        }
        let Some(slot) = self.frames.get_mut(self.count) else {
            return false;
        };
        let id = self.reference.id_of_method(self.memory, frame.method);
        *slot = Frame {
            bci: frame.bci,
            method: id.unwrap_or(0),
        };
        self.count += 1;
        // AsyncGetCallTrace does not look further, either.
        self.count < self.frames.len()
    }
}

/// AsyncGetCallTrace's shape.
unsafe extern "C" fn walk(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own trace, with room for `depth` frames, and a context.
    let (trace, registers) = unsafe {
        (
            &mut *trace.cast::<CallTrace>(),
            read_registers(context.cast::<ucontext_t>()),
        )
    };
    let Some(jvm) = JVM.get() else {
        trace.num_frames = NOT_WALKABLE_JAVA;
        return;
    };
    let thread = Address((trace.env as u64).wrapping_sub(jvm.env_offset));
    // SAFETY: as above; nobody else has the buffer during the call.
    let frames = unsafe { std::slice::from_raw_parts_mut(trace.frames, depth.max(0) as usize) };
    trace.num_frames = trace_reference(&jvm.reference, &CheckedMemory, thread, &registers, frames);
}

/// What the reference walker gives for `registers` of the `JavaThread` at `thread`, whatever `memory` they are in: its frames in AsyncGetCallTrace's
/// shape, and how many, or the code that says why there are none. Signal-safe, as far as `memory` is.
#[inline]
pub fn trace_reference<M: Memory + ?Sized>(
    reference: &Reference,
    memory: &M,
    thread: Address,
    registers: &Registers,
    frames: &mut [Frame],
) -> i32 {
    let Ok(thread) = reference.thread(memory, thread) else {
        return THREAD_EXIT;
    };
    let mut traced = Traced {
        reference,
        memory,
        frames,
        count: 0,
    };
    let end = reference.walk_into(memory, &thread, registers, &mut traced);
    match (traced.count, end) {
        (0, End::Bottom | End::NoJavaFrames) => 0,
        (0, _) if !thread.in_java => NOT_WALKABLE,
        (0, End::NoCode(_) | End::NoFrame(_)) => UNKNOWN_JAVA,
        (0, _) => NOT_WALKABLE_JAVA,
        (count, _) => count as i32,
    }
}
