//! aarch64, AAPCS64.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

use libc::{c_int, c_void, ucontext_t};
use walkfuzz_context::{Arch, Pc, Registers, Sp};

use crate::call::GuardedFn;
use crate::checked_read::LoadedWord;
use crate::error::GuardError;
use crate::fault::Fault;
use crate::slot::GuardSlot;

/// PSTATE.BTYPE (a fault behind an indirect branch would make the landing fail its BTI check) and PSTATE.SS.
const CLEARED_FLAGS: u64 = 0b11 << 10 | 1 << 21;
/// `ESR_MAGIC`, arch/arm64/include/uapi/asm/sigcontext.h.
const ESR_MAGIC: u32 = 0x4553_5201;
/// General registers in front of sp and pc.
const GENERAL: usize = 31;

/// Calls `f(a, b, c)` with `slot` armed. Returns 0, or 1 if the call was given up.
///
/// # Safety
/// As [`crate::call`]; `fault` is null or valid for writes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call(
    slot: *const GuardSlot,
    f: GuardedFn,
    a: *mut c_void,
    b: c_int,
    c: *mut c_void,
    fault: *mut Fault,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "sub sp, sp, #208",
        ".cfi_def_cfa_offset 208",
        "stp x29, x30, [sp, #192]",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "add x29, sp, #192",
        ".cfi_def_cfa x29, 16",
        "stp x19, x20, [sp, #48]",
        "stp x21, x22, [sp, #64]",
        "stp x23, x24, [sp, #80]",
        "stp x25, x26, [sp, #96]",
        "stp x27, x28, [sp, #112]",
        "stp d8, d9, [sp, #128]",
        "stp d10, d11, [sp, #144]",
        "stp d12, d13, [sp, #160]",
        "stp d14, d15, [sp, #176]",
        "mrs x9, fpcr",
        "ldr x10, [x0, #{recovery}]",
        "stp x9, x10, [sp]",
        "ldr x9, [x0, #{current}]",
        "stp x9, x5, [sp, #16]",
        // x19 keeps the slot over the call: callee-saved.
        "mov x19, x0",
        "ldr x9, [x19, #{calls}]",
        "add x9, x9, #1",
        "str x9, [x19, #{calls}]",
        "str x9, [x19, #{current}]",
        // The frame is complete: arm.
        "mov x10, sp",
        "str x10, [x19, #{recovery}]",
        "mov x9, x1",
        "mov x0, x2",
        "mov w1, w3",
        "mov x2, x4",
        "blr x9",
        "ldp x9, x10, [sp, #8]",
        // Disarm before anything is popped.
        "str x9, [x19, #{recovery}]",
        "str x10, [x19, #{current}]",
        "ldp x19, x20, [sp, #48]",
        "ldp x29, x30, [sp, #192]",
        "add sp, sp, #208",
        ".cfi_def_cfa sp, 0",
        "mov x0, #0",
        "ret",
        ".cfi_endproc",
        current = const offset_of!(GuardSlot, current_call),
        recovery = const offset_of!(GuardSlot, recovery_sp),
        calls = const offset_of!(GuardSlot, calls),
    )
}

/// Calls `f(argument)` on another stack, unguarded.
///
/// # Safety
/// `f(argument)` may be called; memory below `stack_top` is writable and nobody else's.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run_on_stack(
    f: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    stack_top: usize,
) {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "and x9, x2, #-16",
        "mov sp, x9",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}

/// As [`call`], with sp moved to `stack_top` (rounded down to 16) for the call.
///
/// # Safety
/// As [`crate::call_on_stack`]; `fault` is null or valid for writes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_on_stack(
    slot: *const GuardSlot,
    f: GuardedFn,
    a: *mut c_void,
    b: c_int,
    c: *mut c_void,
    fault: *mut Fault,
    stack_top: usize,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "sub sp, sp, #208",
        ".cfi_def_cfa_offset 208",
        "stp x29, x30, [sp, #192]",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "add x29, sp, #192",
        ".cfi_def_cfa x29, 16",
        "stp x19, x20, [sp, #48]",
        "stp x21, x22, [sp, #64]",
        "stp x23, x24, [sp, #80]",
        "stp x25, x26, [sp, #96]",
        "stp x27, x28, [sp, #112]",
        "stp d8, d9, [sp, #128]",
        "stp d10, d11, [sp, #144]",
        "stp d12, d13, [sp, #160]",
        "stp d14, d15, [sp, #176]",
        "mrs x9, fpcr",
        "ldr x10, [x0, #{recovery}]",
        "stp x9, x10, [sp]",
        "ldr x9, [x0, #{current}]",
        "stp x9, x5, [sp, #16]",
        "mov x19, x0",
        // x20 keeps the frame over the call: callee-saved.
        "mov x20, sp",
        "ldr x9, [x19, #{calls}]",
        "add x9, x9, #1",
        "str x9, [x19, #{calls}]",
        "str x9, [x19, #{current}]",
        "str x20, [x19, #{recovery}]",
        "and x9, x6, #-16",
        "mov sp, x9",
        "mov x9, x1",
        "mov x0, x2",
        "mov w1, w3",
        "mov x2, x4",
        "blr x9",
        "mov sp, x20",
        "ldp x9, x10, [sp, #8]",
        "str x9, [x19, #{recovery}]",
        "str x10, [x19, #{current}]",
        "ldp x19, x20, [sp, #48]",
        "ldp x29, x30, [sp, #192]",
        "add sp, sp, #208",
        ".cfi_def_cfa sp, 0",
        "mov x0, #0",
        "ret",
        ".cfi_endproc",
        current = const offset_of!(GuardSlot, current_call),
        recovery = const offset_of!(GuardSlot, recovery_sp),
        calls = const offset_of!(GuardSlot, calls),
    )
}

/// Where a given-up call lands, with sp at its recovery frame and the slot already disarmed by the handler.
///
/// # Safety
/// Entered only through [`land`].
#[unsafe(naked)]
unsafe extern "C" fn landing() {
    naked_asm!(
        "ldr x9, [sp]",
        "msr fpcr, x9",
        "ldp x19, x20, [sp, #48]",
        "ldp x21, x22, [sp, #64]",
        "ldp x23, x24, [sp, #80]",
        "ldp x25, x26, [sp, #96]",
        "ldp x27, x28, [sp, #112]",
        "ldp d8, d9, [sp, #128]",
        "ldp d10, d11, [sp, #144]",
        "ldp d12, d13, [sp, #160]",
        "ldp d14, d15, [sp, #176]",
        "ldp x29, x30, [sp, #192]",
        "add sp, sp, #208",
        "mov x0, #1",
        "ret",
    )
}

/// Makes the interrupted thread continue at the landing with sp at `recovery_sp`.
///
/// # Safety
/// `uc` is the ucontext of the running handler, `recovery_sp` the address of a recovery frame of this thread.
pub(crate) unsafe fn land(uc: *mut ucontext_t, recovery_sp: usize) {
    // SAFETY: the caller passes the kernel's ucontext.
    let context = unsafe { &mut (*uc).uc_mcontext };
    context.pc = landing as *const () as u64;
    context.sp = recovery_sp as u64;
    context.pstate &= !CLEARED_FLAGS;
}

/// The current stack pointer.
#[inline]
pub(crate) fn stack_pointer() -> Sp {
    let sp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    Sp(sp)
}

/// Loads the word at `address`; the load is the function's first instruction.
///
/// # Safety
/// The guard's handlers are installed.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_word(address: u64) -> LoadedWord {
    naked_asm!("ldr x0, [x0]", "mov x1, #0", "ret")
}

/// Where a faulting [`load_word`] continues.
///
/// # Safety
/// Entered only from the fault handler.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_word_failed() {
    naked_asm!("mov x1, #1", "ret")
}

/// Copies `count` (> 0) bytes; the first instruction is the only one that reads. Returns 0, or 1 after a fault.
///
/// # Safety
/// `to` is valid for `count` bytes; the guard's handlers are installed.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn copy_bytes(
    to: *mut u8,
    from: u64,
    _: usize,
    count: usize,
) -> usize {
    naked_asm!(
        "2: ldrb w4, [x1], #1",
        "strb w4, [x0], #1",
        "subs x3, x3, #1",
        "b.ne 2b",
        "mov x0, #0",
        "ret",
    )
}

/// Copies `count` (> 0) words of 8 bytes, as [`copy_bytes`].
///
/// # Safety
/// As [`copy_bytes`], for `8 * count` bytes.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn copy_words(
    to: *mut u8,
    from: u64,
    _: usize,
    count: usize,
) -> usize {
    naked_asm!(
        "2: ldr x4, [x1], #8",
        "str x4, [x0], #8",
        "subs x3, x3, #1",
        "b.ne 2b",
        "mov x0, #0",
        "ret",
    )
}

/// Nothing faster begins with its only load.
pub(crate) use copy_words as copy_many_words;

/// Where a fault of a copying function continues.
///
/// # Safety
/// Entered only from the fault handler.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn copy_failed() {
    naked_asm!("mov x0, #1", "ret")
}

/// The program counter in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn pc(uc: *const ucontext_t) -> Pc {
    // SAFETY: see above.
    Pc(unsafe { (*uc).uc_mcontext.pc })
}

/// Sets the program counter in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn set_pc(uc: *mut ucontext_t, pc: Pc) {
    // SAFETY: see above.
    unsafe { (*uc).uc_mcontext.pc = pc.0 };
}

/// Where in a ucontext the general registers are, in bytes.
pub(crate) fn register_offsets() -> impl Iterator<Item = usize> {
    let general = core::mem::offset_of!(ucontext_t, uc_mcontext.regs);
    let rest = [
        core::mem::offset_of!(ucontext_t, uc_mcontext.sp),
        core::mem::offset_of!(ucontext_t, uc_mcontext.pc),
    ];
    (0..GENERAL)
        .map(move |index| general + index * size_of::<u64>())
        .chain(rest)
}

/// The general registers in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
#[inline]
pub(crate) unsafe fn read_registers(uc: *const ucontext_t) -> Registers {
    // SAFETY: see above.
    let context = unsafe { &(*uc).uc_mcontext };
    let mut registers = Registers::zeroed(Arch::Aarch64);
    let (general, rest) = registers.words.split_at_mut(GENERAL);
    for (word, value) in general.iter_mut().zip(context.regs) {
        *word = value;
    }
    for (word, value) in rest.iter_mut().zip([context.sp, context.pc]) {
        *word = value;
    }
    registers
}

/// Writes the general registers into `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn write_registers(uc: *mut ucontext_t, registers: &Registers) {
    // SAFETY: see above.
    let context = unsafe { &mut (*uc).uc_mcontext };
    for (value, word) in context.regs.iter_mut().zip(registers.words) {
        *value = word;
    }
    context.sp = registers.sp().0;
    context.pc = registers.pc().0;
}

/// Sets or clears the trap flag in `uc`: refused, because user space has no trap flag here (PSTATE.SS needs the
/// kernel's debug exceptions; single steps go through ptrace).
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn set_trap_flag(_uc: *mut ucontext_t, _on: bool) -> Result<(), GuardError> {
    Err(GuardError::NoTrapFlag)
}

/// Trap number and error code of the fault in `uc`, if the architecture has them: here the syndrome register, which
/// the kernel leaves in the signal frame's list of records.
///
/// # Safety
/// `uc` is the ucontext of a running handler of a synchronous signal.
pub(crate) unsafe fn trap_and_error(uc: *const ucontext_t) -> (Option<u64>, Option<u64>) {
    /// Bytes of `__reserved`, which libc does not make public.
    const RECORDS: usize = 4096;
    // SAFETY: see above; the records follow pstate at the next multiple of 16 and end with a zero magic.
    let base =
        unsafe { (&raw const (*uc).uc_mcontext.pstate).add(1) as usize }.next_multiple_of(16);
    let mut at = 0usize;
    while at <= RECORDS - 16 {
        // SAFETY: inside the 4096 bytes that the kernel's frame has here.
        let (magic, size, value) = unsafe {
            let record = (base + at) as *const u32;
            (
                *record,
                *record.add(1) as usize,
                *record.add(2).cast::<u64>(),
            )
        };
        if magic == ESR_MAGIC {
            return (None, Some(value));
        }
        if magic == 0 || !(16..=RECORDS).contains(&size) {
            break;
        }
        at += size;
    }
    (None, None)
}
