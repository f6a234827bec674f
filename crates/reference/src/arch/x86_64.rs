//! x86_64: a call pushes the return address.

use crate::arch::{Edge, Shape};

const WORD: i64 = 8;

/// frame_x86.hpp; the same from 11 to 25.
pub(crate) const SHAPE: Shape = Shape {
    link: 0,
    return_address: WORD,
    sender_sp: 2 * WORD,
    method: -3 * WORD,
    bcp: &[-8 * WORD],
    initial_sp: -9 * WORD,
    call_wrapper: -6 * WORD,
};

/// Nothing is signed.
#[inline]
pub(crate) const fn strip(pc: u64) -> u64 {
    pc
}

/// Called, and nothing done yet.
pub(crate) const CALLED: Edge = Edge {
    return_address: Some(0),
    link: None,
    sender_sp: 8,
};

/// rbp is pushed.
const LINKED: Edge = Edge {
    return_address: Some(8),
    link: Some(0),
    sender_sp: 16,
};

/// One of the instructions that a frame is set up with (macroAssembler_x86.cpp `verified_entry`, c1_MacroAssembler_x86.cpp `build_frame`,
/// sharedRuntime_x86_64.cpp `generate_native_wrapper`), and its length.
enum Step {
    Push,
    Drop,
    SaveLink,
    Other,
}

fn step(code: &[u8]) -> Option<(Step, usize)> {
    Some(match code {
        // push rbp
        [0x55, ..] => (Step::Push, 1),
        // sub rsp, imm
        [0x48, 0x83, 0xec, ..] => (Step::Drop, 4),
        [0x48, 0x81, 0xec, ..] => (Step::Drop, 7),
        // mov [rsp + d], rbp
        [0x48, 0x89, 0x6c, 0x24, ..] => (Step::SaveLink, 5),
        [0x48, 0x89, 0xac, 0x24, ..] => (Step::SaveLink, 8),
        // mov rbp, rsp
        [0x48, 0x8b, 0xec, ..] | [0x48, 0x89, 0xe5, ..] => (Step::Other, 3),
        // mov [rsp - d], eax: the stack bang
        [0x89, 0x84, 0x24, ..] => (Step::Other, 7),
        // nop in its lengths; what a not entrant method's entry was before it was patched
        [0x90, ..] => (Step::Other, 1),
        [0x66, 0x90, ..] => (Step::Other, 2),
        [0x0f, 0x1f, 0x00, ..] => (Step::Other, 3),
        [0x0f, 0x1f, 0x40, ..] => (Step::Other, 4),
        [0x0f, 0x1f, 0x44, ..] | [0x66, 0x66, 0x66, 0x66, 0x90, ..] => (Step::Other, 5),
        [0x66, 0x0f, 0x1f, 0x44, ..] => (Step::Other, 6),
        [0x0f, 0x1f, 0x80, ..] => (Step::Other, 7),
        [0x0f, 0x1f, 0x84, ..] => (Step::Other, 8),
        // jmp, where a method is no longer entrant; jmp +0
        [0xe9, ..] => (Step::Other, 5),
        _ => return None,
    })
}

/// See [`super::prologue`].
pub(crate) fn prologue(done: &[u8], frame_size: u64) -> Option<Edge> {
    let mut rest = done;
    let mut edge = CALLED;
    while !rest.is_empty() {
        let (step, length) = step(rest)?;
        match step {
            Step::Push => edge = LINKED,
            Step::Drop if edge == LINKED => return None,
            // Without a stack bang rsp goes first, and rbp is stored where a push would have put it.
            Step::Drop => {
                edge = Edge {
                    return_address: Some(frame_size.checked_sub(8)?),
                    link: None,
                    sender_sp: frame_size,
                }
            }
            Step::SaveLink => return None,
            Step::Other => {}
        }
        // Inside an instruction: no such pc.
        rest = rest.get(length..)?;
    }
    Some(edge)
}

/// See [`super::epilogue`].
pub(crate) fn epilogue(next: &[u8], _frame_size: u64) -> Option<Edge> {
    match next {
        // pop rbp
        [0x5d, rest @ ..] => returns(rest).then_some(LINKED),
        _ => returns(next).then_some(CALLED),
    }
}

/// Whether code returns, perhaps after polling for a safepoint.
fn returns(next: &[u8]) -> bool {
    let rest = match next {
        [0xc3, ..] => return true,
        // vzeroupper
        [0xc5, 0xf8, 0x77, rest @ ..] => return returns(rest),
        // cmp rsp, [r15 + d]; ja
        [0x49, 0x3b, 0xa7, _, _, _, _, rest @ ..] => ja(rest),
        [0x49, 0x3b, 0x67, _, rest @ ..] => ja(rest),
        // mov r10, [r15 + d]; test [r10], eax
        [0x4d, 0x8b, 0x97, _, _, _, _, 0x41, 0x85, 0x02, rest @ ..] => Some(rest),
        [0x4d, 0x8b, 0x57, _, 0x41, 0x85, 0x02, rest @ ..] => Some(rest),
        [0x41, 0x85, 0x02, rest @ ..] => Some(rest),
        // test [rip + d], eax
        [0x85, 0x05, _, _, _, _, rest @ ..] => Some(rest),
        [0x0f, 0x87, ..] => ja(next),
        _ => None,
    };
    matches!(rest, Some([0xc3, ..]))
}

fn ja(code: &[u8]) -> Option<&[u8]> {
    match code {
        [0x0f, 0x87, _, _, _, _, rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_pushed() {
        // mov [rsp - 0x14000], eax; push rbp; sub rsp, 0x30
        let code = [
            0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x30,
        ];
        assert_eq!(prologue(&code[..0], 0x40), Some(CALLED));
        assert_eq!(prologue(&code[..7], 0x40), Some(CALLED));
        assert_eq!(prologue(&code[..8], 0x40), Some(LINKED));
        assert_eq!(prologue(&code[..12], 0x40), None);
        assert_eq!(prologue(&code[..3], 0x40), None, "inside an instruction");
    }

    #[test]
    fn a_frame_that_is_stored() {
        // sub rsp, 0x18; mov [rsp + 0x10], rbp
        let code = [
            0x48, 0x81, 0xec, 0x18, 0, 0, 0, 0x48, 0x89, 0x6c, 0x24, 0x10,
        ];
        let dropped = Edge {
            return_address: Some(0x18),
            link: None,
            sender_sp: 0x20,
        };
        assert_eq!(prologue(&code[..7], 0x20), Some(dropped));
        assert_eq!(prologue(&code, 0x20), None);
    }

    #[test]
    fn ends_of_methods() {
        // add rsp, 0x30; pop rbp; cmp rsp, [r15 + 0x368]; ja; ret
        let new = [
            0x48, 0x83, 0xc4, 0x30, 0x5d, 0x49, 0x3b, 0xa7, 0x68, 3, 0, 0, 0x0f, 0x87, 1, 2, 3, 0,
            0xc3,
        ];
        assert_eq!(epilogue(&new, 0x40), None);
        assert_eq!(epilogue(&new[4..], 0x40), Some(LINKED));
        assert_eq!(epilogue(&new[5..], 0x40), Some(CALLED));
        assert_eq!(epilogue(&new[12..], 0x40), Some(CALLED));
        assert_eq!(epilogue(&new[18..], 0x40), Some(CALLED));
        // pop rbp; mov r10, [r15 + 0x108]; test [r10], eax; ret
        let old = [0x5d, 0x4d, 0x8b, 0x97, 8, 1, 0, 0, 0x41, 0x85, 2, 0xc3];
        assert_eq!(epilogue(&old, 0x40), Some(LINKED));
        assert_eq!(epilogue(&old[1..], 0x40), Some(CALLED));
        assert_eq!(epilogue(&old[8..], 0x40), Some(CALLED));
        assert_eq!(epilogue(&[0x5d, 0x5f, 0xc3], 0x40), None, "pops more");
    }
}
