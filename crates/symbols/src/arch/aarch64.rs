//! ARMv8 in 64-bit mode. Text comes from yaxpeax-arm; frames are recognised from the encodings themselves (Arm ARM C4.1),
//! all of which are fixed patterns of 32 bits.

use walkfuzz_context::Pc;
use yaxpeax_arch::{Decoder, U8Reader};

use crate::instruction::{Instruction, InstructionKind};
use crate::safefetch::Pattern;

/// SafeFetch as assembly in libjvm (`safefetch_linux_aarch64.S`) and as HotSpot's stub generator emits it before 18.
pub(crate) const SAFEFETCH: [Pattern; 4] = [
    // ldr w0,[x0]; ret; mov x0,x1; ret
    Pattern {
        name: "SafeFetch32",
        bytes: &[
            0x00, 0x00, 0x40, 0xb9, 0xc0, 0x03, 0x5f, 0xd6, 0xe0, 0x03, 0x01, 0xaa, 0xc0, 0x03,
            0x5f, 0xd6,
        ],
        continuation: 8,
    },
    // ldr x0,[x0]; ret; mov x0,x1; ret
    Pattern {
        name: "SafeFetchN",
        bytes: &[
            0x00, 0x00, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6, 0xe0, 0x03, 0x01, 0xaa, 0xc0, 0x03,
            0x5f, 0xd6,
        ],
        continuation: 8,
    },
    // ldrsw x1,[x0]; mov x0,x1; ret
    Pattern {
        name: "SafeFetch32",
        bytes: &[
            0x01, 0x00, 0x80, 0xb9, 0xe0, 0x03, 0x01, 0xaa, 0xc0, 0x03, 0x5f, 0xd6,
        ],
        continuation: 4,
    },
    // ldr x1,[x0]; mov x0,x1; ret
    Pattern {
        name: "SafeFetchN",
        bytes: &[
            0x01, 0x00, 0x40, 0xf9, 0xe0, 0x03, 0x01, 0xaa, 0xc0, 0x03, 0x5f, 0xd6,
        ],
        continuation: 4,
    },
];

/// The instructions of `code` and how many pieces were none.
pub(crate) fn decode(code: &[u8], start: Pc) -> (Vec<Instruction>, usize) {
    let mut undecodable = 0;
    let instructions = code
        .chunks(4)
        .enumerate()
        .map(|(n, chunk)| {
            let (kind, sp_delta) = match word(chunk) {
                Some(word) => {
                    // Zero words pad pools and are permanently undefined; everything else is left to the text decoder.
                    undecodable += usize::from(word >> 16 == 0);
                    classify(word)
                }
                None => {
                    undecodable += 1;
                    (InstructionKind::Other, 0)
                }
            };
            Instruction {
                address: Pc(start.0.wrapping_add(4 * n as u64)),
                len: chunk.len() as u8,
                kind,
                sp_delta,
            }
        })
        .collect();
    (instructions, undecodable)
}

/// The beginnings of basic blocks: nobody plants breakpoints on this architecture.
pub(crate) fn block_starts(_code: &[u8], _start: Pc) -> Option<Vec<Pc>> {
    None
}

/// The text of the first instruction of `bytes` and its length.
pub(crate) fn text(bytes: &[u8], pc: Pc) -> Option<(String, usize)> {
    let decoder = yaxpeax_arm::armv8::a64::InstDecoder::default();
    let word = word(bytes)?;
    let mut reader = U8Reader::new(bytes.get(..4)?);
    let text = decoder.decode(&mut reader).ok()?.to_string();
    Some((with_target(&text, word, pc), 4))
}

/// Replaces a distance (`$+0x10`) by the address that it means.
fn with_target(text: &str, word: u32, pc: Pc) -> String {
    let Some((before, distance)) = text.split_once('$') else {
        return text.to_owned();
    };
    let Some(digits) = distance.get(1..).and_then(|d| d.strip_prefix("0x")) else {
        return text.to_owned();
    };
    let Ok(amount) = u64::from_str_radix(digits, 16) else {
        return text.to_owned();
    };
    // adrp counts from the page.
    let page = word & 0x9f00_0000 == 0x9000_0000;
    let from = if page { pc.0 & !0xfff } else { pc.0 };
    let target = match distance.as_bytes()[0] {
        b'-' => from.wrapping_sub(amount),
        _ => from.wrapping_add(amount),
    };
    format!("{before}{target:#x}")
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk::<4>()?))
}

const FP: u32 = 29;
const LR: u32 = 30;
const SP: u32 = 31;

fn classify(word: u32) -> (InstructionKind, i32) {
    use InstructionKind as Kind;
    let (rd, rn) = (word & 31, (word >> 5) & 31);
    // ret, retaa, retab; blr, blraa...; bl
    if word & 0xffff_fc1f == 0xd65f_0000 || matches!(word, 0xd65f_0bff | 0xd65f_0fff) {
        return (Kind::Ret, 0);
    }
    if word & 0xfc00_0000 == 0x9400_0000 || word & 0xfeff_f000 == 0xd63f_0000 {
        return (Kind::Call, 0);
    }
    // add and sub (immediate), 64 bits, without flags: imm12, optionally shifted by 12.
    if word & 0xbf80_0000 == 0x9100_0000 {
        let immediate = i64::from((word >> 10) & 0xfff) << (12 * ((word >> 22) & 1));
        let subtract = word & 0x4000_0000 != 0;
        let delta = immediate as i32;
        return match (rd, rn) {
            (SP, SP) if subtract => (Kind::SubSp(immediate), -delta),
            (SP, SP) => (Kind::AddSp(immediate), delta),
            (FP, SP) if !subtract => (Kind::MovFpSp, 0),
            (SP, FP) => (Kind::MovSpFp, 0),
            _ => (Kind::Other, 0),
        };
    }
    // stp and ldp of 64-bit registers, relative to sp: bits 25..23 are the addressing mode, bit 22 is load.
    if word & 0xfc00_0000 == 0xa800_0000 && rn == SP {
        let load = word & (1 << 22) != 0;
        let second = (word >> 10) & 31;
        let scaled = (((word >> 15) & 0x7f) as i32) << 25 >> 25;
        let moved = scaled * 8;
        let frame = rd == FP && second == LR;
        return match ((word >> 23) & 3, load, frame) {
            (3, false, true) => (Kind::PushFp, moved),
            (3, false, false) => (Kind::Push, moved),
            (1, true, true) => (Kind::PopFp, moved),
            (1, true, false) => (Kind::Pop, moved),
            (2, false, true) => (Kind::SaveFp, 0),
            (2, true, true) => (Kind::RestoreFp, 0),
            (1 | 3, _, _) => (Kind::Other, moved),
            _ => (Kind::Other, 0),
        };
    }
    // str and ldr of a 64-bit register with pre- or post-index: the interpreter's expression stack lives elsewhere (x20).
    if word & 0xffa0_0000 == 0xf800_0000 && rn == SP && matches!((word >> 10) & 3, 1 | 3) {
        let moved = (((word >> 12) & 0x1ff) as i32) << 23 >> 23;
        let load = word & (1 << 22) != 0;
        return match (load, rd == FP) {
            (false, true) => (Kind::PushFp, moved),
            (false, false) => (Kind::Push, moved),
            (true, true) => (Kind::PopFp, moved),
            (true, false) => (Kind::Pop, moved),
        };
    }
    (Kind::Other, 0)
}
