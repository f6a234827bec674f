//! Differences between AsyncGetCallTrace and the reference walker that are understood, told apart by their causes: docs/reference-walker.md has them, with
//! who is right.
//!
//! Reads code through the lookup that it is given and nothing else. [`known_difference`] and [`as_interrupted`] allocate nothing.

use walkfuzz_context::{Address, Registers};
use walkfuzz_record::KnownDifference;
use walkfuzz_reference::{Anchor, CheckedMemory, FrameKind, Reference, ReferenceFrame, Thread};
use walkfuzz_vmstructs::LiveBlob;

use crate::agreement::{Agreement, Voice, compare};
use crate::trace::{Frame, MAX_DEPTH};

/// The reference has frames without methods as well.
const FRAMES: usize = 2 * MAX_DEPTH;

/// A context, and the reference's walk of it.
#[derive(Clone, Copy, Debug)]
pub struct Referee<'a> {
    /// The walked registers.
    pub registers: &'a Registers,
    /// The walked thread.
    pub thread: &'a Thread,
    /// The reference's frames.
    pub frames: &'a [ReferenceFrame],
    /// Its frames if the first Java frame's pc were one that a signal interrupted: see [`as_interrupted`].
    pub interrupted: &'a [ReferenceFrame],
}

/// Frames of Java methods.
fn java(frames: &[ReferenceFrame]) -> impl Iterator<Item = &ReferenceFrame> {
    frames.iter().filter(|frame| frame.kind.has_method())
}

/// Walks again from the first Java frame, as if its pc were any instruction and no return address. AsyncGetCallTrace takes it for that
/// (forte.cpp, `is_decipherable_compiled_frame`), also where a stub or a C++ leaf has been called from there. Signal-safe.
pub fn as_interrupted(
    reference: &Reference,
    thread: &Thread,
    registers: &Registers,
    frames: &[ReferenceFrame],
    again: &mut [ReferenceFrame],
) -> usize {
    let Some(first) = java(frames).next() else {
        return 0;
    };
    let thread = Thread {
        anchor: Anchor::default(),
        in_java: true,
        ..*thread
    };
    let mut registers = *registers;
    let arch = registers.arch;
    registers.set(arch.pc(), first.pc.0);
    registers.set(arch.sp(), first.sp.0);
    registers.set(arch.fp(), first.fp.0);
    reference
        .walk(&CheckedMemory, &thread, &registers, again)
        .frames
}

/// Why `given` is not what the reference says, where that is understood. `given` has AsyncGetCallTrace's frames, at most `depth`, with each `Method*` in the place
/// of its id.
pub fn known_difference(
    given: &[Frame],
    referee: &Referee<'_>,
    depth: usize,
    blob_at: impl Fn(Address) -> Option<LiveBlob>,
) -> Option<KnownDifference> {
    let own = frames_of(referee.frames, depth);
    let next_is_deoptimised = |frames: &[ReferenceFrame], agreement| match agreement {
        Agreement::Prefix {
            shorter: Voice::First,
            frames: had,
        } => java(frames)
            .nth(had)
            .is_some_and(|next| next.is_deoptimised),
        _ => false,
    };
    let agreement = compare(given, &own);
    if next_is_deoptimised(referee.frames, agreement) {
        return Some(KnownDifference::Deoptimised);
    }
    if let Agreement::Prefix {
        shorter: Voice::First,
        frames,
    } = agreement
        && let Some(refused) = refused(referee, frames, &blob_at)
    {
        return Some(refused);
    }
    let again = compare(given, &frames_of(referee.interrupted, depth));
    if again == Agreement::Agree || next_is_deoptimised(referee.interrupted, again) {
        return Some(KnownDifference::ReturnAddress);
    }
    is_half_gone(referee, &blob_at).then_some(KnownDifference::HalfFrame)
}

/// What AsyncGetCallTrace would make of the reference's frames, with `Method*`s.
fn frames_of(frames: &[ReferenceFrame], depth: usize) -> Vec<Frame> {
    let frame = |frame: &ReferenceFrame| Frame {
        bci: frame.bci,
        method: frame.method.0,
    };
    java(frames).take(depth).map(frame).collect()
}

/// Why AsyncGetCallTrace does not ask for the caller of its last frame (frame_x86.cpp, `safe_for_sender`), though it is a sound one.
fn refused(
    referee: &Referee<'_>,
    had: usize,
    blob_at: &impl Fn(Address) -> Option<LiveBlob>,
) -> Option<KnownDifference> {
    let frames = referee.frames;
    let next = java(frames).nth(had)?;
    let at = frames.iter().position(|frame| frame == next)?;
    let last = frames.get(at.checked_sub(1)?)?;
    let callee = at.checked_sub(2).and_then(|at| frames.get(at));
    if last.kind == FrameKind::Stub {
        // `frame_never_safe`: C1's runtime stubs are made with it (c1_Runtime1.cpp).
        return (blob_at(Address(last.pc.0))?.frame_complete < 0)
            .then_some(KnownDifference::C1Stub);
    }
    let callee = callee.filter(|callee| callee.kind == FrameKind::Interpreted)?;
    (last.sp.0 < callee.fp.0.wrapping_add(16)).then_some(KnownDifference::Linker)
}

/// Whether the pc is where a compiled frame is being set up or taken down: the caller is not a frame's size away.
fn is_half_gone(referee: &Referee<'_>, blob_at: &impl Fn(Address) -> Option<LiveBlob>) -> bool {
    let pc = referee.registers.pc().0;
    let Some(top) = referee.frames.first() else {
        return false;
    };
    if !referee.thread.in_java || top.pc.0 != pc {
        return false;
    }
    let caller = referee.frames.iter().find(|frame| frame.sp != top.sp);
    let blob = blob_at(Address(pc)).filter(|blob| blob.nmethod.is_some());
    caller.zip(blob).is_some_and(|(caller, blob)| {
        caller.sp.0.wrapping_sub(top.sp.0) < u64::from(blob.frame_size)
    })
}

/// Says which of the known differences there is, with room for the walks that it takes. In this process's JVM.
pub struct Explainer {
    reference: &'static Reference,
    frames: Box<[ReferenceFrame]>,
    interrupted: Box<[ReferenceFrame]>,
}

impl Explainer {
    /// Makes room.
    #[must_use]
    pub fn new(reference: &'static Reference) -> Self {
        let room = || vec![ReferenceFrame::NONE; FRAMES].into_boxed_slice();
        Self {
            reference,
            frames: room(),
            interrupted: room(),
        }
    }

    /// Why AsyncGetCallTrace's frames of the context, at most `depth`, are not the reference's. Allocates.
    pub fn explain(
        &mut self,
        java_thread: Address,
        registers: &Registers,
        given: &[Frame],
        depth: usize,
    ) -> Option<KnownDifference> {
        let Self {
            reference,
            frames,
            interrupted,
        } = self;
        let memory = &CheckedMemory;
        let thread = reference.thread(memory, java_thread).ok()?;
        let walk = reference.walk(memory, &thread, registers, frames);
        let frames = frames.get(..walk.frames)?;
        let again = as_interrupted(reference, &thread, registers, frames, interrupted);
        let with_method = |frame: &Frame| {
            let method = reference.method_of_id(memory, frame.method);
            Frame {
                bci: frame.bci,
                method: method.unwrap_or_default().0,
            }
        };
        let given: Vec<Frame> = given.iter().map(with_method).collect();
        let referee = Referee {
            registers,
            thread: &thread,
            frames,
            interrupted: interrupted.get(..again)?,
        };
        known_difference(&given, &referee, depth, |at| reference.blob_at(memory, at))
    }
}
