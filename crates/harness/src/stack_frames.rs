//! The frames that really lie on a held thread's stack: what its slots are for.
//!
//! The reference walker follows them from the untouched context. Stops at the first frame that it guesses: what is not known is not said.

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_reference::{CheckedMemory, FrameKind, ReferenceFrame, Trust};

use crate::world::World;

/// Frames that are followed, inlined ones among them: a walk's first steps are what goes wrong.
const MOST: usize = 64;

/// One frame. Frame 0 is the one that the thread was held in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackFrame {
    /// Its lowest address.
    pub(crate) start: u64,
    /// Right behind its return address.
    pub(crate) end: u64,
    /// Where the caller's fp is kept, if it is.
    pub(crate) saved_fp: Option<u64>,
    /// Where fp points in an interpreter frame.
    pub(crate) interpreter_fp: Option<u64>,
}

/// Slots of an interpreter frame, in words below fp (frame_x86.hpp: the same in 11 to 25; frame_aarch64.hpp: those that are).
const INTERPRETER_SLOTS: &[(u64, &str)] = match Arch::NATIVE {
    Arch::X86_64 => &[
        (1, "sender sp"),
        (2, "last sp"),
        (3, "method"),
        (4, "mirror"),
        (5, "method data"),
        (6, "constant pool cache"),
        (7, "locals"),
        (8, "bytecode pointer"),
    ],
    Arch::Aarch64 => &[
        (1, "sender sp"),
        (2, "last sp"),
        (3, "method"),
        (4, "method data"),
    ],
};

impl StackFrame {
    /// What is kept at `address`, which lies in this frame.
    pub(crate) fn slot(&self, address: u64) -> Option<&'static str> {
        if address + 8 == self.end {
            return Some("return address");
        }
        if self.saved_fp == Some(address) {
            return Some("saved fp");
        }
        let below = self.interpreter_fp?.checked_sub(address)?;
        INTERPRETER_SLOTS
            .iter()
            .find(|(words, _)| words * 8 == below)
            .map(|(_, slot)| *slot)
    }
}

/// The frames of a thread that was held at `untouched`: those that the reference walker is sure of.
pub(crate) fn stack_frames(
    world: &World,
    untouched: &Registers,
    java_thread: Address,
) -> Vec<StackFrame> {
    let Ok(walker) = world.reference() else {
        return Vec::new();
    };
    let Some(reference) = walker.reference() else {
        return Vec::new();
    };
    let Ok(thread) = reference.thread(&CheckedMemory, java_thread) else {
        return Vec::new();
    };
    let mut walked = [ReferenceFrame::NONE; MOST];
    let walk = reference.walk(&CheckedMemory, &thread, untouched, &mut walked);
    let mut physical: Vec<&ReferenceFrame> = walked.iter().take(walk.frames).collect();
    // Methods that are inlined into a frame share it.
    physical.dedup_by_key(|frame| frame.sp);
    let sure = physical
        .iter()
        .take_while(|frame| frame.trust != Trust::Guess);
    let callers = physical.iter().skip(1).map(Some).chain([None]);
    sure.zip(callers)
        .map_while(|(frame, caller)| stack_frame(frame, caller.map(|caller| caller.sp.0)))
        .collect()
}

/// Where a frame lies; nothing if it is the last one and does not say so itself.
fn stack_frame(frame: &ReferenceFrame, caller_sp: Option<u64>) -> Option<StackFrame> {
    let (start, fp) = (frame.sp.0, frame.fp.0);
    if matches!(frame.kind, FrameKind::Interpreted | FrameKind::Entry) {
        return Some(StackFrame {
            start,
            end: fp.checked_add(16)?,
            saved_fp: Some(fp),
            interpreter_fp: (frame.kind == FrameKind::Interpreted).then_some(fp),
        });
    }
    let end = caller_sp.filter(|end| *end >= start)?;
    Some(StackFrame {
        start,
        end,
        saved_fp: end.checked_sub(16).filter(|slot| *slot >= start),
        interpreter_fp: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_names() {
        let frame = StackFrame {
            start: 0x1000,
            end: 0x1060,
            saved_fp: Some(0x1050),
            interpreter_fp: Some(0x1050),
        };
        for (address, slot) in [
            (0x1058, Some("return address")),
            (0x1050, Some("saved fp")),
            (0x1048, Some("sender sp")),
            (0x1038, Some("method")),
            (0x1010, INTERPRETER_SLOTS.get(7).map(|(_, slot)| *slot)),
            (0x1008, None),
        ] {
            assert_eq!(frame.slot(address), slot, "{address:#x}");
        }
        let compiled = StackFrame {
            interpreter_fp: None,
            ..frame
        };
        assert_eq!(compiled.slot(0x1048), None);
    }
}
