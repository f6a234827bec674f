//! Switching between flows of control, x86_64.

use core::arch::naked_asm;

/// What stands before the abort handler of a restartable sequence (glibc, `sysdeps/unix/sysv/linux/x86/bits/rseq.h`).
pub(crate) const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// Bytes of glibc's `struct pthread` that lie below the thread pointer.
pub(crate) const BELOW_THREAD_POINTER: usize = 0;

/// The calling thread's thread pointer: the ABI keeps it at fs:0.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads the first word of the thread control block.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly))
    };
    pointer
}

/// Saves the callee-saved state on the current stack, stores the stack pointer in `*from`, and continues the flow whose
/// stack pointer is `to`.
///
/// Saved: rbx, rbp, r12-r15, mxcsr, x87 control word (System V ABI, callee-saved).
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(from: *mut usize, to: usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a flow made by [`prepare`] begins: calls the function left in rbx and never returns.
#[unsafe(naked)]
unsafe extern "C" fn begin() -> ! {
    naked_asm!("mov rdi, r12", "call rbx", "ud2")
}

/// Lays out a fresh stack so that [`switch`]ing to the returned stack pointer calls `entry(argument)`.
///
/// # Safety
/// `top` is the 16-byte aligned end of a writable region of at least 128 bytes.
pub(crate) unsafe fn prepare(
    top: *mut u8,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> usize {
    let words = top.cast::<usize>();
    // From `sp` upwards: mxcsr and control word, r15, r14, r13, r12, rbx, rbp, return address, then padding so that the
    // stack pointer is 16-byte aligned before `call rbx`.
    let image = [
        0x037f_0000_1f80_usize,
        0,
        0,
        0,
        argument,
        entry as usize,
        0,
        begin as *const () as usize,
        0,
        0,
    ];
    // SAFETY: the caller gives at least 128 writable bytes below `top`.
    unsafe {
        let sp = words.sub(image.len());
        for (index, word) in image.iter().enumerate() {
            sp.add(index).write(*word);
        }
        sp as usize
    }
}
