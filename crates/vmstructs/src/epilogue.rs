//! Where compiled methods take their frames down.
//!
//! No table says so. HotSpot's compilers end a method in a fixed sequence (x86_64.ad, aarch64.ad, c1_LIRAssembler): remove the
//! frame, poll for a safepoint, return; it is recognised by its bytes. Not a disassembler: a method with an unusual end is
//! missed, and nothing else than such a sequence is found.

use walkfuzz_context::{Address, Arch};

/// The instructions of each epilogue in `code`, which lies at `at`: behind the first one the frame is gone in parts.
pub(crate) fn epilogues(arch: Arch, code: &[u8], at: Address, found: &mut Vec<u64>) {
    match arch {
        Arch::X86_64 => x86_64(code, at, found),
        Arch::Aarch64 => aarch64(code, at, found),
    }
}

fn x86_64(code: &[u8], at: Address, found: &mut Vec<u64>) {
    for (index, byte) in code.iter().enumerate() {
        if *byte != 0xc3 {
            continue;
        }
        let mut instructions = [0_usize; 6];
        let mut count = 0;
        let mut start = index;
        let mut step = |length: Option<usize>| {
            let length = length?;
            start -= length;
            *instructions.get_mut(count)? = start;
            count += 1;
            code.get(..start)
        };
        // Backwards from the ret: ja stub, cmp rsp, [r15 + poll] (since 16), or test [r10], eax and its load, or
        // test [rip + poll], eax (one polling page for all threads); then pop rbp,
        // perhaps vzeroupper, and add rsp.
        let Some(before) = code.get(..index) else {
            continue;
        };
        let poll = if let Some(before) = step(x86_64_ja(before)) {
            step(x86_64_compare(before))
        } else if let Some(before) = step(ends(before, &[0x41, 0x85, 0x02])) {
            step(x86_64_load(before))
        } else {
            step(operation(before, &[0x85, 0x05], 4))
        };
        let Some(before) = poll else { continue };
        if let Some(before) = step(ends(before, &[0x5d])) {
            let before = step(ends(before, &[0xc5, 0xf8, 0x77])).unwrap_or(before);
            let _ = step(x86_64_add(before));
        }
        found.push(at.0 + index as u64);
        found.extend(
            instructions
                .iter()
                .take(count)
                .map(|offset| at.0 + *offset as u64),
        );
    }
}

/// The suffix's length if `bytes` ends with it.
fn ends(bytes: &[u8], suffix: &[u8]) -> Option<usize> {
    bytes.ends_with(suffix).then_some(suffix.len())
}

/// The length of an instruction that starts with `opcode` and takes the last `opcode.len() + operand` bytes.
fn operation(bytes: &[u8], opcode: &[u8], operand: usize) -> Option<usize> {
    let head = bytes.len().checked_sub(operand)?;
    ends(bytes.get(..head)?, opcode).map(|length| length + operand)
}

fn x86_64_ja(bytes: &[u8]) -> Option<usize> {
    operation(bytes, &[0x0f, 0x87], 4)
}

fn x86_64_compare(bytes: &[u8]) -> Option<usize> {
    operation(bytes, &[0x49, 0x3b, 0xa7], 4).or_else(|| operation(bytes, &[0x49, 0x3b, 0x67], 1))
}

fn x86_64_load(bytes: &[u8]) -> Option<usize> {
    operation(bytes, &[0x4d, 0x8b, 0x97], 4).or_else(|| operation(bytes, &[0x4d, 0x8b, 0x57], 1))
}

fn x86_64_add(bytes: &[u8]) -> Option<usize> {
    operation(bytes, &[0x48, 0x83, 0xc4], 1).or_else(|| operation(bytes, &[0x48, 0x81, 0xc4], 4))
}

/// The most instructions between restoring x29 and x30 and the ret.
const AARCH64_REACH: usize = 8;

fn aarch64(code: &[u8], at: Address, found: &mut Vec<u64>) {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk::<4>()
            .map(|bytes| u32::from_le_bytes(*bytes))
    };
    let words: Vec<u32> = code.chunks_exact(4).filter_map(word).collect();
    for (index, instruction) in words.iter().enumerate() {
        if *instruction != 0xd65f_03c0 {
            continue;
        }
        let reach = index.saturating_sub(AARCH64_REACH);
        // ldp x29, x30, [sp, #n], or its post-indexed form.
        let restore = (reach..index).rev().find(|at| {
            words
                .get(*at)
                .is_some_and(|word| matches!(word & 0xffc0_7fff, 0xa940_7bfd | 0xa8c0_7bfd))
        });
        if let Some(restore) = restore {
            found.extend((restore..=index).map(|offset| at.0 + 4 * offset as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(arch: Arch, code: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        epilogues(arch, code, Address(0x1000), &mut found);
        found.sort_unstable();
        found
    }

    #[test]
    fn x86_64_since_16() {
        // nop; add rsp, 0x30; pop rbp; cmp rsp, [r15+0x368]; ja stub; ret
        let code = [
            0x90, 0x48, 0x83, 0xc4, 0x30, 0x5d, 0x49, 0x3b, 0xa7, 0x68, 0x03, 0, 0, 0x0f, 0x87, 1,
            2, 3, 0, 0xc3,
        ];
        assert_eq!(
            sorted(Arch::X86_64, &code),
            [0x1001, 0x1005, 0x1006, 0x100d, 0x1013]
        );
    }

    #[test]
    fn x86_64_up_to_15() {
        // add rsp, 0x110; vzeroupper? no: pop rbp; mov r10, [r15+0x108]; test [r10], eax; ret
        let code = [
            0x48, 0x81, 0xc4, 0x10, 1, 0, 0, 0x5d, 0x4d, 0x8b, 0x97, 8, 1, 0, 0, 0x41, 0x85, 0x02,
            0xc3,
        ];
        assert_eq!(
            sorted(Arch::X86_64, &code),
            [0x1000, 0x1007, 0x1008, 0x100f, 0x1012]
        );
    }

    #[test]
    fn x86_64_with_one_polling_page() {
        // pop rbp; test [rip+0x1000], eax; ret
        let code = [0x5d, 0x85, 0x05, 0, 0x10, 0, 0, 0xc3];
        assert_eq!(sorted(Arch::X86_64, &code), [0x1000, 0x1001, 0x1007]);
    }

    #[test]
    fn a_ret_alone_or_a_byte_that_looks_like_one_is_none() {
        assert!(sorted(Arch::X86_64, &[0xc3]).is_empty());
        assert!(sorted(Arch::X86_64, &[0x5d, 0xc3]).is_empty());
        assert!(sorted(Arch::X86_64, &[0x0f, 0x87, 1, 2, 3, 0, 0xc3]).is_empty());
    }

    #[test]
    fn aarch64_restores_and_returns() {
        // ldp x29, x30, [sp, #32]; add sp, sp, #48; ret
        let code: Vec<u8> = [0xa942_7bfd_u32, 0x9100_c3ff, 0xd65f_03c0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(sorted(Arch::Aarch64, &code), [0x1000, 0x1004, 0x1008]);
        assert!(sorted(Arch::Aarch64, &code[4..]).is_empty());
    }
}
