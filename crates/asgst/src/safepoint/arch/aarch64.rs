//! AArch64.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// `si_code` of the SIGTRAP that `brk` raises: TRAP_BRKPT.
pub(crate) const TRAP_CODE: i32 = 1;

/// Where the breakpoint is that reported `pc`: there.
pub(crate) fn breakpoint_of(pc: u64) -> u64 {
    pc
}

/// The first instruction of a function that can be executed elsewhere; sp and the arguments are still as at its entry.
pub(crate) fn place(code: &[u8]) -> Option<Range<usize>> {
    for (index, word) in code.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes(word.try_into().ok()?);
        // adrp x1 and higher, ldr of their kind stay where they are; so do nop and bti.
        let is_address = word & 0x9f00_0000 == 0x9000_0000 && word & 0x1f != 0;
        let is_hint = matches!(word, 0xd503_201f | 0xd503_245f | 0xd503_24df);
        if is_address || is_hint {
            continue;
        }
        // stp with a pair of 64-bit registers, before sp moves; sub sp, sp, #n; paciasp.
        let moves = word & 0xffc0_03e0 == 0xa980_03e0
            || word & 0xffc0_03ff == 0xd100_03ff
            || word == 0xd503_233f;
        return moves.then_some(index * 4..index * 4 + 4);
    }
    None
}

/// Code that calls `called` with the function's first argument, keeps its arguments, executes `displaced` and goes on at `resume`.
pub(crate) fn detour(called: u64, displaced: &[u8], resume: u64) -> Vec<u8> {
    let displaced = displaced
        .first_chunk()
        .map_or(0xd503_201f, |bytes| u32::from_le_bytes(*bytes));
    let words: [u32; 18] = [
        0xa9ba_07e0, // stp x0, x1, [sp, #-96]!
        0xa901_0fe2, // stp x2, x3, [sp, #16]
        0xa902_17e4, // stp x4, x5, [sp, #32]
        0xa903_1fe6, // stp x6, x7, [sp, #48]
        0xa904_43e8, // stp x8, x16, [sp, #64]
        0xa905_7bfd, // stp x29, x30, [sp, #80]
        0x5800_0190, // ldr x16, called
        0xd63f_0200, // blr x16
        0xa945_7bfd, // ldp x29, x30, [sp, #80]
        0xa944_43e8, // ldp x8, x16, [sp, #64]
        0xa943_1fe6, // ldp x6, x7, [sp, #48]
        0xa942_17e4, // ldp x4, x5, [sp, #32]
        0xa941_0fe2, // ldp x2, x3, [sp, #16]
        0xa8c6_07e0, // ldp x0, x1, [sp], #96
        displaced,
        0x5800_00b1, // ldr x17, resume
        0xd65f_0220, // ret x17: a branch would want a landing pad
        0xd503_201f, // nop
    ];
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    code.extend_from_slice(&called.to_le_bytes());
    code.extend_from_slice(&resume.to_le_bytes());
    code
}

/// Writes a breakpoint.
///
/// # Safety
/// An instruction begins at `address`, whose page is writable.
pub(crate) unsafe fn write_breakpoint(address: u64) {
    let place = std::ptr::with_exposed_provenance_mut::<u32>(address as usize);
    // SAFETY: the caller's promise. brk #0
    unsafe { AtomicU32::from_ptr(place) }.store(0xd420_0000, Ordering::SeqCst);
    synchronise(address, 4);
}

/// Makes what was written visible to instruction fetches.
pub(crate) fn synchronise(start: u64, length: usize) {
    /// The smallest line that there is.
    const LINE: u64 = 16;
    let end = start + length as u64;
    for line in (start & !(LINE - 1)..end).step_by(LINE as usize) {
        // SAFETY: cleans and invalidates caches of mapped memory, nothing else.
        unsafe { core::arch::asm!("dc cvau, {0}", in(reg) line, options(nostack)) };
    }
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ish", options(nostack)) };
    for line in (start & !(LINE - 1)..end).step_by(LINE as usize) {
        // SAFETY: as above.
        unsafe { core::arch::asm!("ic ivau, {0}", in(reg) line, options(nostack)) };
    }
    // SAFETY: barriers.
    unsafe { core::arch::asm!("dsb ish", "isb", options(nostack)) };
}

/// From a thread to its `HandshakeState::_operation` in 11, of which there is no build for this architecture here to learn it from.
pub(crate) fn handshake_offset(_code: &[u8]) -> Option<u64> {
    None
}
