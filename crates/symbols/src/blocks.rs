//! Where the basic blocks of a function begin.

use walkfuzz_context::{Arch, Pc};

use crate::arch;

/// The beginnings of the basic blocks of the function whose code is `code` and lies at `start`, in rising order: its first
/// instruction, the targets of its jumps inside it, and what follows a jump or a return. Padding begins no block.
///
/// `None` where some bytes are no instruction or a jump leads between two of them: what is no plain code must not be
/// taken apart. `None`, too, for architectures that nobody needs it for (aarch64).
#[must_use]
pub fn block_starts(arch: Arch, code: &[u8], start: Pc) -> Option<Vec<Pc>> {
    match arch {
        Arch::X86_64 => arch::x86_64::block_starts(code, start),
        Arch::Aarch64 => arch::aarch64::block_starts(code, start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Pc = Pc(0x1000);

    fn starts(code: &[u8]) -> Option<Vec<u64>> {
        block_starts(Arch::X86_64, code, START)
            .map(|starts| starts.iter().map(|pc| pc.0 - START.0).collect())
    }

    #[test]
    fn jumps_and_returns_end_blocks() {
        let code = [
            0x85, 0xff, // test %edi,%edi
            0x74, 0x06, // je +6 (10)
            0x31, 0xc0, // xor %eax,%eax
            0xc3, // ret
            0x0f, 0x1f, 0x00, // nop
            0xe8, 0, 0, 0, 0, // call: no end
            0xeb, 0xef, // jmp to the start
            0xcc, // padding
        ];
        assert_eq!(starts(&code), Some(vec![0, 4, 10]));
    }

    #[test]
    fn jumps_out_begin_nothing_here() {
        // jmp far behind; ret
        assert_eq!(starts(&[0xeb, 0x40, 0xc3]), Some(vec![0, 2]));
    }

    #[test]
    fn no_code_is_refused() {
        // No instruction in 64-bit mode; a jump into the middle of an instruction; one that is cut off.
        assert_eq!(starts(&[0x06, 0xc3]), None);
        assert_eq!(starts(&[0xeb, 0x01, 0x31, 0xc0, 0xc3]), None);
        assert_eq!(starts(&[0x90, 0xe8, 0x00]), None);
        assert_eq!(
            block_starts(Arch::Aarch64, &[0xc0, 0x03, 0x5f, 0xd6], START),
            None
        );
    }
}
