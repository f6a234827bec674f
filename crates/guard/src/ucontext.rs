//! Reading and writing the registers of an interrupted thread. Signal-safe.

use libc::ucontext_t;
use walkfuzz_context::{Pc, Registers};

use crate::arch;
use crate::error::GuardError;

/// The general registers in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
#[inline]
#[must_use]
pub unsafe fn read_registers(uc: *const ucontext_t) -> Registers {
    // SAFETY: the caller's promise.
    unsafe { arch::read_registers(uc) }
}

/// Copies a context as far as the kernel delivered it: libc's struct is longer than the kernel's. On x86_64 the copy shares the
/// floating-point state of the original.
///
/// # Safety
/// `from` is a handler's.
pub unsafe fn copy_context(from: *const ucontext_t, to: &mut ucontext_t) {
    const DELIVERED: usize = core::mem::offset_of!(ucontext_t, uc_sigmask) + 8;
    // SAFETY: the caller vouches for `from`; `to` is a whole ucontext_t.
    unsafe {
        core::ptr::copy_nonoverlapping(
            from.cast::<u8>(),
            core::ptr::from_mut(to).cast::<u8>(),
            DELIVERED,
        );
    }
}

/// Writes the general registers into `uc`. If it is the ucontext of a running handler, the thread continues with them.
/// Flags and floating-point state stay as they are.
///
/// # Safety
/// `uc` points to a ucontext. If a handler is about to return through it, the thread must be fit to continue there.
pub unsafe fn write_registers(uc: *mut ucontext_t, registers: &Registers) {
    // SAFETY: the caller's promise.
    unsafe { arch::write_registers(uc, registers) }
}

/// Where in a ucontext the general registers are, in bytes, in the order of [`Registers`].
pub fn register_offsets() -> impl Iterator<Item = usize> {
    arch::register_offsets()
}

/// The program counter in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
#[must_use]
pub unsafe fn read_pc(uc: *const ucontext_t) -> Pc {
    // SAFETY: the caller's promise.
    unsafe { arch::pc(uc) }
}

/// Sets the program counter in `uc`.
///
/// # Safety
/// As [`write_registers`].
pub unsafe fn write_pc(uc: *mut ucontext_t, pc: Pc) {
    // SAFETY: the caller's promise.
    unsafe { arch::set_pc(uc, pc) }
}

/// Whether this architecture can single-step a thread from its own signal handler. Where it cannot (aarch64), a debugger is needed.
#[must_use]
pub const fn has_trap_flag() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Sets or clears the trap flag in the ucontext of a running handler: after it returns, the thread executes one
/// instruction and gets SIGTRAP, which goes to the [trap hook](crate::set_trap_hook).
///
/// # Errors
/// The architecture has no trap flag in user space (aarch64).
///
/// # Safety
/// `uc` points to a ucontext.
pub unsafe fn set_trap_flag(uc: *mut ucontext_t, on: bool) -> Result<(), GuardError> {
    // SAFETY: the caller's promise.
    unsafe { arch::set_trap_flag(uc, on) }
}

/// The blocked signals that `uc` brings back: the kernel's 64-bit set, bit `n - 1` for signal `n`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn blocked_signals(uc: *const ucontext_t) -> u64 {
    // SAFETY: the kernel's set is the first word of libc's bigger one.
    unsafe { (&raw const (*uc).uc_sigmask).cast::<u64>().read() }
}

/// Sets the blocked signals that `uc` brings back.
///
/// # Safety
/// `uc` points to the ucontext of a running handler.
pub(crate) unsafe fn set_blocked_signals(uc: *mut ucontext_t, blocked: u64) {
    // SAFETY: as above.
    unsafe { (&raw mut (*uc).uc_sigmask).cast::<u64>().write(blocked) };
}
