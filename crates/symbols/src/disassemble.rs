//! Machine code as text: AT&T syntax on x86_64, as gdb, objdump and crash logs print it.

use walkfuzz_context::{Arch, Pc};

use crate::arch;

/// One line of a disassembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where the instruction begins.
    pub address: Pc,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its text; `(bad)` where the bytes are no instruction.
    pub text: String,
}

/// The text of the instruction that `bytes` begins with and that lies at `pc`. `None`: no instruction, or too few bytes.
#[must_use]
pub fn instruction_at(arch: Arch, bytes: &[u8], pc: Pc) -> Option<String> {
    match arch {
        Arch::X86_64 => arch::x86_64::text(bytes, pc),
        Arch::Aarch64 => arch::aarch64::text(bytes, pc),
    }
    .map(|(text, _)| text)
}

/// At most `n` instructions before `pc`, the one at `pc` and at most `n` after it. `code` begins at `start`.
///
/// Decoding goes forward only, so where the first byte of `code` is not the beginning of an instruction, a later one is
/// taken such that an instruction begins at `pc`.
#[must_use]
pub fn around(arch: Arch, code: &[u8], start: Pc, pc: Pc, n: usize) -> Vec<Line> {
    let Some(at) =
        pc.0.checked_sub(start.0)
            .and_then(|at| usize::try_from(at).ok())
            .filter(|&at| at < code.len())
    else {
        return Vec::new();
    };
    let step = match arch {
        Arch::X86_64 => 1,
        Arch::Aarch64 => 4,
    };
    // The longest x86 instruction has 15 bytes: among 16 starts one falls in step, if any does.
    let before = (0..16)
        .map(|skip| skip * step)
        .filter(|&skip| skip <= at)
        .find_map(|skip| {
            let lines = lines(arch, &code[skip..at], Pc(start.0 + skip as u64), usize::MAX);
            lines.iter().all(|line| line.text != BAD).then_some(lines)
        })
        .unwrap_or_default();
    let mut result: Vec<Line> = before.into_iter().rev().take(n).collect();
    result.reverse();
    result.extend(lines(arch, &code[at..], pc, n.saturating_add(1)));
    result
}

const BAD: &str = "(bad)";

fn lines(arch: Arch, code: &[u8], start: Pc, limit: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < code.len() && lines.len() < limit {
        let address = Pc(start.0.wrapping_add(at as u64));
        let rest = &code[at..];
        let decoded = match arch {
            Arch::X86_64 => arch::x86_64::text(rest, address),
            Arch::Aarch64 => arch::aarch64::text(rest, address),
        };
        let (text, len) = decoded.unwrap_or_else(|| (BAD.to_owned(), 1));
        let len = len.clamp(1, rest.len());
        lines.push(Line {
            address,
            bytes: rest[..len].to_vec(),
            text,
        });
        at += len;
    }
    lines
}
