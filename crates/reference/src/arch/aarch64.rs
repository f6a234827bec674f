//! aarch64: a call leaves the return address in a register, and it may be signed.

use crate::arch::{Edge, Shape};

const WORD: i64 = 8;

/// frame_aarch64.hpp; the same from 11 to 25, but for the slot of the extended sp that came between 17 and 21.
pub(crate) const SHAPE: Shape = Shape {
    link: 0,
    return_address: WORD,
    sender_sp: 2 * WORD,
    method: -3 * WORD,
    bcp: &[-9 * WORD, -8 * WORD],
    initial_sp: -9 * WORD,
    call_wrapper: -8 * WORD,
};

/// User addresses have 48 bits (52 only on request); pointer authentication signs in the bits above.
#[inline]
pub(crate) const fn strip(pc: u64) -> u64 {
    pc & ((1 << 48) - 1)
}

/// Called, and nothing done yet.
pub(crate) const CALLED: Edge = Edge {
    return_address: None,
    link: None,
    sender_sp: 0,
};

const RET: u32 = 0xd65f_03c0;

/// Instructions.
fn words(code: &[u8]) -> impl Iterator<Item = u32> + '_ {
    code.chunks_exact(4)
        .filter_map(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)))
}

/// `stp x29, x30, [sp, #n]`, with or without writing sp back.
const fn saves(word: u32) -> bool {
    matches!(word & 0xffc0_7fff, 0xa900_7bfd | 0xa980_7bfd)
}

/// `ldp x29, x30, [sp, #n]`, with or without writing sp back.
const fn restores(word: u32) -> bool {
    matches!(word & 0xffc0_7fff, 0xa940_7bfd | 0xa8c0_7bfd)
}

/// The immediate of `sub sp, sp, #n` or `add sp, sp, #n`.
const fn moves_sp(word: u32, opcode: u32) -> Option<u64> {
    if word & 0xff80_03ff != opcode | 0x3ff {
        return None;
    }
    let immediate = ((word >> 10) & 0xfff) as u64;
    Some(if word & (1 << 22) == 0 {
        immediate
    } else {
        immediate << 12
    })
}

/// See [`super::prologue`].
pub(crate) fn prologue(done: &[u8], _frame_size: u64) -> Option<Edge> {
    let mut edge = CALLED;
    for word in words(done) {
        if saves(word) {
            if word & 0xffc0_0000 != 0xa980_0000 {
                return None;
            }
            // With write-back it goes first, where the frame is large; sp goes on down then.
            edge = Edge {
                return_address: Some(8),
                link: Some(0),
                sender_sp: 16,
            };
        } else if let Some(immediate) = moves_sp(word, 0xd100_0000) {
            if edge.link.is_some() {
                return None;
            }
            // The stack bang computes its address in another register.
            edge.sender_sp += immediate;
        }
    }
    Some(edge)
}

/// See [`super::epilogue`].
pub(crate) fn epilogue(next: &[u8], _frame_size: u64) -> Option<Edge> {
    let mut sender_sp = 0;
    for word in words(next) {
        if word == RET {
            return Some(Edge {
                sender_sp,
                ..CALLED
            });
        }
        if restores(word) {
            return None;
        }
        if let Some(immediate) = moves_sp(word, 0x9100_0000) {
            sender_sp += immediate;
        } else if !polls(word) {
            return None;
        }
    }
    None
}

/// What stands between restoring the registers and the ret: `ldr x8, [x28, #n]`, `cmp sp, x8`, `b.hi`, `ldr wzr, [x8]`, `autiaz` and the like.
const fn polls(word: u32) -> bool {
    matches!(word & 0xffc0_03ff, 0xf940_0388)
        || word == 0xeb28_63ff
        || word & 0xff00_001f == 0x5400_0008
        || word == 0xb940_011f
        || word & 0xffff_f01f == 0xd503_201f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_frame_that_is_set_up() {
        // sub x9, sp, #20, lsl 12; str xzr, [x9]; sub sp, sp, #0x30; stp x29, x30, [sp, #0x20]
        let code = code(&[0xd140_53e9, 0xf900_013f, 0xd100_c3ff, 0xa902_7bfd]);
        assert_eq!(prologue(&code[..0], 0x30), Some(CALLED));
        assert_eq!(prologue(&code[..8], 0x30), Some(CALLED));
        let dropped = Edge {
            sender_sp: 0x30,
            ..CALLED
        };
        assert_eq!(prologue(&code[..12], 0x30), Some(dropped));
        assert_eq!(prologue(&code, 0x30), None);
    }

    #[test]
    fn a_frame_that_is_taken_down() {
        // ldp x29, x30, [sp, #0x20]; add sp, sp, #0x30; ldr x8, [x28, #0x348]; cmp sp, x8; b.hi; ret
        let code = code(&[
            0xa942_7bfd,
            0x9100_c3ff,
            0xf941_a788,
            0xeb28_63ff,
            0x5400_0088,
            RET,
        ]);
        assert_eq!(epilogue(&code, 0x30), None);
        let dropped = Edge {
            sender_sp: 0x30,
            ..CALLED
        };
        assert_eq!(epilogue(&code[4..], 0x30), Some(dropped));
        assert_eq!(epilogue(&code[8..], 0x30), Some(CALLED));
        assert_eq!(epilogue(&code[20..], 0x30), Some(CALLED));
    }

    #[test]
    fn signatures_are_taken_off() {
        assert_eq!(strip(0x002a_ffff_8000_1234), 0xffff_8000_1234);
    }
}
