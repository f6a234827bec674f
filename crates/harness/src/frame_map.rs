//! Where the return address is at each instruction of a piece of generated code.
//!
//! Found by following sp through the code from its start: prologue, body, and each epilogue up to its return, after which
//! the code goes on as in the body. That holds for what C1, C2 and HotSpot's own assembler emit.
//!
//! On aarch64 the return address is in lr until the prologue has stored it, and its slot is counted from where it will be: 8 bytes below sp
//! at entry (`walkfuzz_context::tier` has the table). Between `sub sp, sp, #n` and its `stp` nothing is a known position.

use walkfuzz_context::tier::Position;
use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Arch, Pc};
use walkfuzz_symbols::{InstructionKind, InstructionMap};

/// What holds before the instruction at an address is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameState {
    /// Where the instruction begins.
    pub pc: Pc,
    /// Bytes from sp up to the slot of the return address, where that is known; less than 0 on aarch64 at entry.
    pub depth: Option<i32>,
    /// The same as a position.
    pub position: Position,
    /// And as a class.
    pub offset: OffsetClass,
}

/// The states of one blob, by address.
#[derive(Clone, Debug)]
pub struct FrameMap {
    states: Vec<FrameState>,
}

impl FrameMap {
    /// Follows sp through `code`, which begins at `start`. `frame_bytes`: from sp in the body up to the return address.
    #[must_use]
    pub fn of(arch: Arch, code: &[u8], start: Pc, frame_bytes: u32) -> Self {
        let map = InstructionMap::of(arch, code, start);
        let body = i64::from(frame_bytes);
        let entry = i64::from(arch.return_slot_at_entry());
        let mut depth = Some(entry);
        // Whether the return address is in its slot.
        let mut saved = arch.lr().is_none();
        let mut complete = body == entry;
        let mut leaving = false;
        let mut begun = false;
        let mut states = Vec::with_capacity(map.instructions().len());
        for instruction in map.instructions() {
            let position = match depth {
                Some(depth) if depth == body && complete && !leaving => Position::Body,
                Some(depth) if depth == entry && complete && leaving => Position::BeforeReturn,
                Some(depth) if depth == entry => Position::Entry,
                _ if !saved => Position::Unknown,
                Some(8) => Position::Pushed,
                Some(depth) if depth == body => Position::Body,
                _ => Position::Unknown,
            };
            let offset = match (position, complete) {
                (Position::Entry, false) if !begun => OffsetClass::Entry,
                (_, false) => OffsetClass::Prologue,
                _ if leaving => OffsetClass::Epilogue,
                _ => OffsetClass::Body,
            };
            states.push(FrameState {
                pc: instruction.address,
                depth: depth.and_then(|depth| i32::try_from(depth).ok()),
                position,
                offset,
            });
            match instruction.kind {
                InstructionKind::Ret => {
                    depth = Some(body);
                    leaving = false;
                }
                InstructionKind::Leave => {
                    depth = Some(entry);
                    leaving = complete;
                }
                InstructionKind::MovSpFp => depth = None,
                kind => {
                    depth = depth.map(|depth| depth - i64::from(instruction.sp_delta));
                    begun |= matches!(
                        kind,
                        InstructionKind::PushFp | InstructionKind::SubSp(_) | InstructionKind::Push
                    );
                    saved |= matches!(kind, InstructionKind::PushFp | InstructionKind::SaveFp);
                    leaving |= complete
                        && matches!(
                            kind,
                            InstructionKind::AddSp(_)
                                | InstructionKind::PopFp
                                | InstructionKind::RestoreFp
                        );
                }
            }
            complete |= begun && saved && depth == Some(body);
        }
        Self { states }
    }

    /// The state at `pc`; `None` if no instruction begins there.
    #[must_use]
    pub fn at(&self, pc: Pc) -> Option<&FrameState> {
        self.states
            .binary_search_by_key(&pc, |state| state.pc)
            .ok()
            .and_then(|index| self.states.get(index))
    }

    /// All states by address.
    #[must_use]
    pub fn states(&self) -> &[FrameState] {
        &self.states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_c1_method() {
        // mov %eax,-0x14000(%rsp); push %rbp; sub $0x20,%rsp; nop; add $0x20,%rsp; pop %rbp; ret; nop (slow path)
        let code = [
            0x89, 0x84, 0x24, 0x00, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x20, 0x90, 0x48,
            0x83, 0xc4, 0x20, 0x5d, 0xc3, 0x90,
        ];
        let map = FrameMap::of(Arch::X86_64, &code, Pc(0x1000), 0x28);
        let seen: Vec<_> = map
            .states()
            .iter()
            .map(|state| {
                (
                    state.pc.0 - 0x1000,
                    state.depth,
                    state.position,
                    state.offset,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, Some(0), Position::Entry, OffsetClass::Entry),
                (7, Some(0), Position::Entry, OffsetClass::Entry),
                (8, Some(8), Position::Pushed, OffsetClass::Prologue),
                (12, Some(0x28), Position::Body, OffsetClass::Body),
                (13, Some(0x28), Position::Body, OffsetClass::Body),
                (17, Some(8), Position::Pushed, OffsetClass::Epilogue),
                (18, Some(0), Position::BeforeReturn, OffsetClass::Epilogue),
                (19, Some(0x28), Position::Body, OffsetClass::Body),
            ]
        );
        assert!(map.at(Pc(0x1001)).is_none(), "no instruction begins there");
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn seen(code: &[u8], frame_bytes: u32) -> Vec<(u64, Option<i32>, Position, OffsetClass)> {
        let map = FrameMap::of(Arch::Aarch64, code, Pc(0x1000), frame_bytes);
        let state = |s: &FrameState| (s.pc.0 - 0x1000, s.depth, s.position, s.offset);
        map.states().iter().map(state).collect()
    }

    #[test]
    fn follows_a_method_of_aarch64() {
        // sub x9, sp, #0x14000; sub sp, sp, #0x30; stp x29, x30, [sp, #0x20]; nop; ldp x29, x30, [sp, #0x20]; add sp, sp, #0x30; ret; nop
        let code = words(&[
            0xd140_53e9,
            0xd100_c3ff,
            0xa902_7bfd,
            0xd503_201f,
            0xa942_7bfd,
            0x9100_c3ff,
            0xd65f_03c0,
            0xd503_201f,
        ]);
        assert_eq!(
            seen(&code, 0x28),
            [
                (0, Some(-8), Position::Entry, OffsetClass::Entry),
                (4, Some(-8), Position::Entry, OffsetClass::Entry),
                (8, Some(0x28), Position::Unknown, OffsetClass::Prologue),
                (12, Some(0x28), Position::Body, OffsetClass::Body),
                (16, Some(0x28), Position::Body, OffsetClass::Body),
                (20, Some(0x28), Position::Body, OffsetClass::Epilogue),
                (24, Some(-8), Position::BeforeReturn, OffsetClass::Epilogue),
                (28, Some(0x28), Position::Body, OffsetClass::Body),
            ]
        );
    }

    #[test]
    fn follows_a_large_frame_of_aarch64() {
        // stp x29, x30, [sp, #-16]!; mov x29, sp; sub sp, sp, #0x400; nop; add sp, sp, #0x400; ldp x29, x30, [sp], #16; ret
        let code = words(&[
            0xa9bf_7bfd,
            0x9100_03fd,
            0xd110_03ff,
            0xd503_201f,
            0x9110_03ff,
            0xa8c1_7bfd,
            0xd65f_03c0,
        ]);
        assert_eq!(
            seen(&code, 0x408),
            [
                (0, Some(-8), Position::Entry, OffsetClass::Entry),
                (4, Some(8), Position::Pushed, OffsetClass::Prologue),
                (8, Some(8), Position::Pushed, OffsetClass::Prologue),
                (12, Some(0x408), Position::Body, OffsetClass::Body),
                (16, Some(0x408), Position::Body, OffsetClass::Body),
                (20, Some(8), Position::Pushed, OffsetClass::Epilogue),
                (24, Some(-8), Position::BeforeReturn, OffsetClass::Epilogue),
            ]
        );
    }
}
