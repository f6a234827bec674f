//! AMD64.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// `si_code` of the SIGTRAP that `int3` raises (arch/x86/kernel/traps.c, do_int3_user).
pub(crate) const TRAP_CODE: i32 = 0x80;

/// Where the breakpoint is that reported `pc`: in front of it.
pub(crate) fn breakpoint_of(pc: u64) -> u64 {
    pc.wrapping_sub(1)
}

/// The first instruction of a function that can be executed elsewhere; sp and the arguments are still as at its entry.
pub(crate) fn place(code: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    // mov disp(%rip), %rax; lea disp(%rip), %rax: they stay where they are.
    while let [0x48, 0x8b | 0x8d, 0x05, ..] = code.get(start..)? {
        start += 7;
    }
    let length = match code.get(start..)? {
        // push
        [0x50..=0x57, ..] => 1,
        // push of r8 to r15
        [0x41, 0x50..=0x57, ..] => 2,
        // test %rax, %rax
        [0x48, 0x85, 0xc0, ..] => 3,
        // endbr64
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => 4,
        _ => return None,
    };
    Some(start..start + length)
}

/// Code that calls `called` with the function's first argument, keeps its arguments, executes `displaced` and goes on at `resume`.
pub(crate) fn detour(called: u64, displaced: &[u8], resume: u64) -> Vec<u8> {
    let mut code = Vec::with_capacity(64);
    // push of rax, rdi, rsi, rdx, rcx, r8, r9: seven words align sp.
    code.extend_from_slice(&[0x50, 0x57, 0x56, 0x52, 0x51, 0x41, 0x50, 0x41, 0x51]);
    // movabs $called, %rax; call *%rax
    code.extend_from_slice(&[0x48, 0xb8]);
    code.extend_from_slice(&called.to_le_bytes());
    code.extend_from_slice(&[0xff, 0xd0]);
    // pop of the same
    code.extend_from_slice(&[0x41, 0x59, 0x41, 0x58, 0x59, 0x5a, 0x5e, 0x5f, 0x58]);
    code.extend_from_slice(displaced);
    // jmp *0(%rip)
    code.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    code.extend_from_slice(&resume.to_le_bytes());
    code
}

/// Writes a breakpoint.
///
/// # Safety
/// An instruction begins at `address`, whose page is writable.
pub(crate) unsafe fn write_breakpoint(address: u64) {
    let place = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the caller's promise.
    unsafe { AtomicU8::from_ptr(place) }.store(0xcc, Ordering::SeqCst);
}

/// What was written is executed as it is.
pub(crate) fn synchronise(_start: u64, _length: usize) {}

/// From a thread to its `HandshakeState::_operation`, read from `SafepointMechanism::block_if_requested_slow` of 11: `mov offset(%rbx), %rax; test %rax, %rax`.
pub(crate) fn handshake_offset(code: &[u8]) -> Option<u64> {
    let mut windows = code.windows(10);
    windows.find_map(|window| match *window {
        [0x48, 0x8b, 0x83, a, b, c, d, 0x48, 0x85, 0xc0] => {
            Some(u64::from(u32::from_le_bytes([a, b, c, d])))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_can_move_are_found() {
        assert_eq!(place(&[0x55, 0x48, 0x89, 0xe5]), Some(0..1));
        let mov = [
            0x48, 0x8b, 0x05, 0x99, 0xcc, 0x66, 0, 0x48, 0x85, 0xc0, 0x74,
        ];
        assert_eq!(place(&mov), Some(7..10));
        let lea = [0x48, 0x8d, 0x05, 0xd8, 0xe4, 0x84, 0, 0x55, 0x48];
        assert_eq!(place(&lea), Some(7..8));
        // A relative jump cannot.
        assert_eq!(place(&[0xe9, 0, 0, 0, 0]), None);
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn eleven_names_its_handshake() {
        let code = [
            0x74, 0x15, 0x48, 0x8b, 0x83, 0x78, 0x04, 0, 0, 0x48, 0x85, 0xc0, 0x74,
        ];
        assert_eq!(handshake_offset(&code), Some(0x478));
        assert_eq!(handshake_offset(&code[..8]), None);
    }
}
