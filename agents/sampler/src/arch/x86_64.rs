//! Recognising a system call, x86_64.

use libc::ucontext_t;
use walkfuzz_guard::read_registers;

use super::code_near;

/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

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
    (is_call(pc.wrapping_sub(2)) || is_call(pc), registers.sp().0)
}

/// The address of the calling thread's control block: its own for as long as it lives. Signal-safe; no call into libc.
#[inline]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the ABI of thread-local storage (Drepper, 3.4.6) has the pointer itself at %fs:0.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    pointer
}

/// What `pthread_self` says: glibc and musl take the control block's address for it. Signal-safe; no call into libc.
#[inline]
pub(crate) fn own_pthread() -> u64 {
    thread_pointer()
}
