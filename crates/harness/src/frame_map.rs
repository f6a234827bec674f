//! Where the return address is at each instruction of a piece of generated code.
//!
//! Found by following sp through the code from its start: prologue, body, and each epilogue up to its return, after which
//! the code goes on as in the body. That holds for what C1, C2 and HotSpot's own assembler emit.

use walkfuzz_context::tier::Position;
use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Arch, Pc};
use walkfuzz_symbols::{InstructionKind, InstructionMap};

/// What holds before the instruction at an address is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameState {
    /// Where the instruction begins.
    pub pc: Pc,
    /// Bytes from sp up to the slot of the return address, where that is known.
    pub depth: Option<u32>,
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
        let mut depth = Some(0_i64);
        let mut complete = body == 0;
        let mut leaving = false;
        let mut begun = false;
        let mut states = Vec::with_capacity(map.instructions().len());
        for instruction in map.instructions() {
            let position = match depth {
                Some(depth) if depth == body && complete && !leaving => Position::Body,
                Some(0) if complete && leaving => Position::BeforeReturn,
                Some(0) => Position::Entry,
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
                depth: depth.and_then(|depth| u32::try_from(depth).ok()),
                position,
                offset,
            });
            match instruction.kind {
                InstructionKind::Ret => {
                    depth = Some(body);
                    leaving = false;
                }
                InstructionKind::Leave => {
                    depth = Some(0);
                    leaving = complete;
                }
                InstructionKind::MovSpFp => depth = None,
                kind => {
                    depth = depth.map(|depth| depth - i64::from(instruction.sp_delta));
                    begun |= matches!(
                        kind,
                        InstructionKind::PushFp | InstructionKind::SubSp(_) | InstructionKind::Push
                    );
                    leaving |= complete
                        && matches!(kind, InstructionKind::AddSp(_) | InstructionKind::PopFp);
                }
            }
            complete |= begun && depth == Some(body);
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
}
