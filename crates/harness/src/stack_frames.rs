//! The frames that really lie on a held thread's stack: what its slots are for.
//!
//! Followed from the untouched context by what the code cache says of frame sizes, independently of any walker, through checked reads. Stops
//! at the first frame whose size is not known: what is not known is not guessed.

use walkfuzz_context::{Address, BlobKind, Pc, Registers};
use walkfuzz_guard::read_word;

use crate::world::World;

/// Frames that are followed: a walk's first steps are what goes wrong.
const MOST: usize = 16;

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

/// Slots of an interpreter frame, in words below fp (frame_x86.hpp, frame_aarch64.hpp: the same in 11 to 25).
const INTERPRETER_SLOTS: [(u64, &str); 8] = [
    (1, "sender sp"),
    (2, "last sp"),
    (3, "method"),
    (4, "mirror"),
    (5, "method data"),
    (6, "constant pool cache"),
    (7, "locals"),
    (8, "bytecode pointer"),
];

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

/// The frames above `untouched`, on a stack that ends at `stack_end`.
pub(crate) fn stack_frames(
    world: &mut World,
    untouched: &Registers,
    stack_end: u64,
) -> Vec<StackFrame> {
    let mut frames = Vec::new();
    let (mut pc, mut sp, mut fp) = (untouched.pc(), untouched.sp().0, untouched.fp().0);
    while frames.len() < MOST {
        let Some((frame, caller_sp)) = frame(world, pc, sp, fp, stack_end) else {
            break;
        };
        let word = |at: u64| read_word(Address(at)).ok();
        let caller_fp = frame.saved_fp.map_or(Some(fp), word);
        let (Some(caller_pc), Some(caller_fp)) = (word(frame.end - 8), caller_fp) else {
            break;
        };
        frames.push(frame);
        (pc, sp, fp) = (Pc(caller_pc), caller_sp, caller_fp);
    }
    frames
}

/// The frame of the activation at these registers, and its caller's sp.
fn frame(world: &mut World, pc: Pc, sp: u64, fp: u64, stack_end: u64) -> Option<(StackFrame, u64)> {
    let on_stack = |address: u64| (sp..stack_end.saturating_sub(16)).contains(&address);
    let (kind, frame_size) = {
        let blob = world.code.blob(Address(pc.0))?;
        (blob.kind, u64::from(blob.frame_size))
    };
    if kind == BlobKind::Interpreter {
        if !on_stack(fp) {
            return None;
        }
        let sender_sp = read_word(Address(fp - 8)).ok()?;
        let frame = StackFrame {
            start: sp,
            end: fp + 16,
            saved_fp: Some(fp),
            interpreter_fp: Some(fp),
        };
        // A compiled caller's own sp may lie above what its arguments were laid out in.
        let caller_sp = if on_stack(sender_sp) && sender_sp >= fp + 16 {
            sender_sp
        } else {
            fp + 16
        };
        return Some((frame, caller_sp));
    }
    let depth = world.classifier.place(&world.code, pc).depth;
    let depth = match (depth, frame_size.checked_sub(8)) {
        (Some(depth), _) => u64::from(depth),
        (None, Some(depth)) if kind == BlobKind::RuntimeStub => depth,
        _ => return None,
    };
    let slot = sp.checked_add(depth).filter(|slot| on_stack(*slot))?;
    let frame = StackFrame {
        start: sp,
        end: slot + 8,
        saved_fp: (depth >= 8).then(|| slot - 8),
        interpreter_fp: None,
    };
    Some((frame, slot + 8))
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
            (0x1010, Some("bytecode pointer")),
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
