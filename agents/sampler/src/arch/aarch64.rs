//! Recognising a system call, aarch64.

use libc::ucontext_t;
use walkfuzz_guard::read_registers;

use super::code_near;

/// `svc #0`.
const SYSTEM_CALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// Whether the thread was interrupted in a system call: behind the instruction, or, where the kernel will restart it, in front; and its sp. Signal-safe.
///
/// # Safety
/// `context` is a handler's.
pub(crate) unsafe fn at_system_call(context: *const ucontext_t) -> (bool, u64) {
    // SAFETY: the caller's promise.
    let registers = unsafe { read_registers(context) };
    let pc = registers.pc().0;
    // SAFETY: the thread has just been about to execute what stands at its pc.
    let is_call = |at: u64| unsafe { code_near(pc, at) } == Some(SYSTEM_CALL);
    (is_call(pc.wrapping_sub(4)) || is_call(pc), registers.sp().0)
}

/// The address of the calling thread's control block: its own for as long as it lives. Signal-safe; no call into libc.
#[inline]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: readable in user space; the ABI of thread-local storage has the pointer there.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}

/// What `pthread_self` says: libc's structure in front of the control block, of a size that only libc knows. Signal-safe.
#[inline]
pub(crate) fn own_pthread() -> u64 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::pthread_self() as u64 }
}
