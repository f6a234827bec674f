//! Switching between flows of control, aarch64.

use core::arch::naked_asm;

/// What stands before the abort handler of a restartable sequence (glibc, `sysdeps/unix/sysv/linux/aarch64/bits/rseq.h`).
pub(crate) const RSEQ_SIGNATURE: u32 = 0xd428_bc00;

/// Bytes of glibc's `struct pthread` that lie below the thread pointer; it has less than this.
pub(crate) const BELOW_THREAD_POINTER: usize = 4096;

/// The calling thread's thread pointer.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}

/// Saves the callee-saved state on the current stack, stores the stack pointer in `*from`, and continues the flow whose
/// stack pointer is `to`.
///
/// Saved: x19-x28, x29, x30, d8-d15 (AAPCS64, callee-saved).
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(from: *mut usize, to: usize) {
    naked_asm!(
        "sub sp, sp, #160",
        "stp x29, x30, [sp, #0]",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov sp, x1",
        "ldp x29, x30, [sp, #0]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "ret",
    )
}

/// Where a flow made by [`prepare`] begins: calls the function left in x19 and never returns.
#[unsafe(naked)]
unsafe extern "C" fn begin() -> ! {
    naked_asm!("mov x0, x20", "blr x19", "brk #1")
}

/// Lays out a fresh stack so that [`switch`]ing to the returned stack pointer calls `entry(argument)`.
///
/// # Safety
/// `top` is the 16-byte aligned end of a writable region of at least 256 bytes.
pub(crate) unsafe fn prepare(
    top: *mut u8,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> usize {
    let words = top.cast::<usize>();
    // x29, x30 (where the switch returns to), x19 (entry), x20 (argument), then sixteen words of zero.
    let mut image = [0_usize; 20];
    image[1] = begin as *const () as usize;
    image[2] = entry as usize;
    image[3] = argument;
    // SAFETY: the caller gives at least 256 writable bytes below `top`.
    unsafe {
        let sp = words.sub(image.len());
        for (index, word) in image.iter().enumerate() {
            sp.add(index).write(*word);
        }
        sp as usize
    }
}
