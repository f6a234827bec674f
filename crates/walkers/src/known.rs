//! Differences between AsyncGetCallTrace and the reference walker that are understood, told apart by their causes: docs/reference-walker.md has them, with
//! who is right.
//!
//! Reads through the memory and the lookup that it is given and nothing else. [`as_interrupted`] and [`behind_whole`] allocate nothing.

use walkfuzz_context::{Address, Fp, Pc, Registers, Sp};
use walkfuzz_record::KnownDifference;
use walkfuzz_reference::{Anchor, FrameKind, Reference, ReferenceFrame, Thread};
use walkfuzz_vmstructs::{LiveBlob, Memory};

use crate::agreement::{Agreement, Voice, compare};
use crate::reference::trace_reference;
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
    /// What is behind its first frame if that is half a frame and is taken for a whole one: see [`behind_whole`].
    pub whole: Option<&'a [ReferenceFrame]>,
}

/// Frames of Java methods.
fn java(frames: &[ReferenceFrame]) -> impl Iterator<Item = &ReferenceFrame> {
    frames.iter().filter(|frame| frame.kind.has_method())
}

/// Walks again from the first Java frame, as if its pc were any instruction and no return address. AsyncGetCallTrace takes it for that
/// (forte.cpp, `is_decipherable_compiled_frame`), also where a stub or a C++ leaf has been called from there. Signal-safe.
pub fn as_interrupted<M: Memory + ?Sized>(
    reference: &Reference,
    memory: &M,
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
    reference.walk(memory, &thread, &registers, again).frames
}

/// If the pc is where a compiled frame is being set up or taken down, so that the caller is not a frame's size away: walks on from where it would be.
/// AsyncGetCallTrace looks there (frame_x86.cpp, `sender_for_compiled_frame`), and takes what lies there for a return address. Signal-safe.
pub fn behind_whole<M: Memory + ?Sized>(
    reference: &Reference,
    memory: &M,
    thread: &Thread,
    registers: &Registers,
    frames: &[ReferenceFrame],
    behind: &mut [ReferenceFrame],
) -> Option<usize> {
    let pc = registers.pc();
    let top = frames.first()?;
    if !thread.in_java || top.pc.0 != pc.0 {
        return None;
    }
    let caller = frames.iter().find(|frame| frame.sp != top.sp)?;
    let blob = reference.blob_at(memory, Address(pc.0));
    let blob = blob.filter(|blob| blob.nmethod.is_some())?;
    let size = u64::from(blob.frame_size);
    if caller.sp.0.wrapping_sub(top.sp.0) >= size {
        return None;
    }
    let sp = top.sp.0.wrapping_add(size);
    let word = |below: u64| memory.read_u64(Address(sp.wrapping_sub(below)));
    let (Ok(pc), Ok(fp)) = (word(8), word(16)) else {
        return Some(0);
    };
    let anchor = Anchor {
        sp: Sp(sp),
        pc: Pc(pc),
        fp: Fp(fp),
    };
    let thread = Thread {
        anchor,
        in_java: false,
        ..*thread
    };
    Some(reference.walk(memory, &thread, registers, behind).frames)
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
    is_half(given, referee, depth).then_some(KnownDifference::HalfFrame)
}

/// Whether the frames are right as far as the half frame goes, and go on where the caller of a whole one would be.
fn is_half(given: &[Frame], referee: &Referee<'_>, depth: usize) -> bool {
    let (Some(whole), Some(top)) = (referee.whole, referee.frames.first()) else {
        return false;
    };
    // Inlined methods share their frame's sp.
    let inlined = referee.frames.iter().take_while(|frame| frame.sp == top.sp);
    let half: Vec<ReferenceFrame> = inlined.copied().collect();
    let frames = [&half, whole].concat();
    // What lies there is often no caller, and one of the walks ends earlier. Where it is the reference's, it must bear out more than the half frame.
    match compare(given, &frames_of(&frames, depth)) {
        Agreement::Agree => true,
        Agreement::Prefix {
            shorter: Voice::First,
            ..
        } => true,
        Agreement::Prefix {
            shorter: Voice::Second,
            frames,
        } => frames > java(&half).count(),
        _ => false,
    }
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

/// Says which of the known differences there is, with room for the walks that it takes.
pub struct Explainer<'r> {
    reference: &'r Reference,
    frames: Box<[ReferenceFrame]>,
    interrupted: Box<[ReferenceFrame]>,
    whole: Box<[ReferenceFrame]>,
}

impl<'r> Explainer<'r> {
    /// Makes room.
    #[must_use]
    pub fn new(reference: &'r Reference) -> Self {
        let room = || vec![ReferenceFrame::NONE; FRAMES].into_boxed_slice();
        Self {
            reference,
            frames: room(),
            interrupted: room(),
            whole: room(),
        }
    }

    /// The reference's own frames of the context, at most `depth`. Allocates.
    pub fn frames<M: Memory + ?Sized>(
        &self,
        memory: &M,
        java_thread: Address,
        registers: &Registers,
        depth: usize,
    ) -> Vec<Frame> {
        let mut frames = vec![Frame::default(); depth.min(MAX_DEPTH)];
        let code = trace_reference(self.reference, memory, java_thread, registers, &mut frames);
        frames.truncate(usize::try_from(code).unwrap_or(0));
        frames
    }

    /// Why AsyncGetCallTrace's frames of the context, at most `depth`, are not the reference's. `memory` is that of the JVM which the reference
    /// was made for. Allocates.
    pub fn explain<M: Memory + ?Sized>(
        &mut self,
        memory: &M,
        java_thread: Address,
        registers: &Registers,
        given: &[Frame],
        depth: usize,
    ) -> Option<KnownDifference> {
        let Self {
            reference,
            frames,
            interrupted,
            whole,
        } = self;
        let thread = reference.thread(memory, java_thread).ok()?;
        let walk = reference.walk(memory, &thread, registers, frames);
        let frames = frames.get(..walk.frames)?;
        let again = as_interrupted(reference, memory, &thread, registers, frames, interrupted);
        let behind = behind_whole(reference, memory, &thread, registers, frames, whole);
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
            whole: behind.and_then(|behind| whole.get(..behind)),
        };
        known_difference(&given, &referee, depth, |at| reference.blob_at(memory, at))
    }
}

#[cfg(test)]
mod tests {
    use walkfuzz_context::Arch;
    use walkfuzz_reference::Trust;
    use walkfuzz_vmstructs::Span;

    use super::*;

    fn frame(method: u64, sp: u64) -> ReferenceFrame {
        ReferenceFrame {
            method: Address(method),
            kind: FrameKind::Compiled,
            trust: Trust::Table,
            sp: Sp(sp),
            ..ReferenceFrame::NONE
        }
    }

    #[test]
    fn half_a_frame_explains_what_lies_behind_it_and_nothing_else() {
        let registers = Registers::zeroed(Arch::NATIVE);
        let thread = Thread {
            address: Address(0),
            stack: Span {
                start: Address(0),
                end: Address(0),
            },
            anchor: Anchor::default(),
            in_java: true,
        };
        let frames = [(1, 8), (2, 8), (3, 16), (4, 64)].map(|(method, sp)| frame(method, sp));
        let behind = [frame(9, 40), frame(4, 64)];
        let why = |methods: &[u64], whole: Option<&[ReferenceFrame]>| {
            let referee = Referee {
                registers: &registers,
                thread: &thread,
                frames: &frames,
                interrupted: &[],
                whole,
            };
            let given = |&method: &u64| Frame { bci: 0, method };
            let given: Vec<Frame> = methods.iter().map(given).collect();
            known_difference(&given, &referee, 10, |_| None)
        };
        let half = Some(KnownDifference::HalfFrame);
        assert_eq!(why(&[1, 2, 9, 4], Some(&behind)), half);
        assert_eq!(why(&[1, 2, 9, 4, 5], Some(&behind)), half);
        assert_eq!(why(&[1, 2], Some(&[])), half);
        // Other frames than those that are there.
        assert_eq!(why(&[1, 2, 8, 4], Some(&behind)), None);
        assert_eq!(why(&[7, 2, 9, 4], Some(&behind)), None);
        assert_eq!(why(&[1, 2, 8, 4], Some(&[])), None);
        // No half frame.
        assert_eq!(why(&[1, 2, 9, 4], None), None);
    }
}
