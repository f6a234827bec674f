//! x86_64, System V.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

use libc::{c_int, c_void, ucontext_t};
use walkfuzz_context::{Arch, Pc, Registers, Sp};

use crate::call::GuardedFn;
use crate::checked_read::LoadedWord;
use crate::error::GuardError;
use crate::fault::Fault;
use crate::slot::GuardSlot;

/// Trap flag, alignment check, direction flag, nested task: none of them may be set when the landing runs.
const CLEARED_FLAGS: i64 = EFLAGS_TF | 1 << 10 | 1 << 14 | 1 << 18;
/// EFLAGS.TF, Intel SDM vol. 1, 3.4.3.
const EFLAGS_TF: i64 = 1 << 8;

/// Index in `gregs` of each register, in the order of `walkfuzz_context::arch::x86_64::REGISTER_NAMES`.
const GREGS: [c_int; 17] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
    libc::REG_RIP,
];

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
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // One word of padding keeps sp aligned for the call.
        "sub rsp, 8",
        "push r9",
        "push qword ptr [rdi + {current}]",
        "push qword ptr [rdi + {recovery}]",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        // rbx keeps the slot over the call: callee-saved.
        "mov rbx, rdi",
        "mov rax, [rbx + {calls}]",
        "inc rax",
        "mov [rbx + {calls}], rax",
        "mov [rbx + {current}], rax",
        // The frame is complete: arm.
        "mov [rbx + {recovery}], rsp",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov esi, ecx",
        "mov rdx, r8",
        "call rax",
        "mov rcx, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        // Disarm before anything is popped.
        "mov [rbx + {recovery}], rcx",
        "mov [rbx + {current}], rdx",
        "mov rbx, [rsp + 72]",
        "mov rbp, [rsp + 80]",
        "add rsp, 88",
        ".cfi_def_cfa rsp, 8",
        "xor eax, eax",
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
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdx",
        "and rsp, -16",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
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
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // One word of padding keeps sp aligned for the call.
        "sub rsp, 8",
        "push r9",
        "push qword ptr [rdi + {current}]",
        "push qword ptr [rdi + {recovery}]",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov rbx, rdi",
        // r12 keeps the frame over the call: callee-saved.
        "mov r12, rsp",
        "mov rax, [rbx + {calls}]",
        "inc rax",
        "mov [rbx + {calls}], rax",
        "mov [rbx + {current}], rax",
        "mov [rbx + {recovery}], rsp",
        // The seventh argument: 11 words of frame and the return address above sp.
        "mov r10, [rsp + 96]",
        "and r10, -16",
        "mov rsp, r10",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov esi, ecx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, r12",
        "mov rcx, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov [rbx + {recovery}], rcx",
        "mov [rbx + {current}], rdx",
        "mov r12, [rsp + 64]",
        "mov rbx, [rsp + 72]",
        "mov rbp, [rsp + 80]",
        "add rsp, 88",
        ".cfi_def_cfa rsp, 8",
        "xor eax, eax",
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
        // The callee may have left x87 or MMX registers occupied; the ABI wants them empty on return.
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "add rsp, 40",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "mov eax, 1",
        "ret",
    )
}

/// Makes the interrupted thread continue at the landing with sp at `recovery_sp`.
///
/// # Safety
/// `uc` is the ucontext of the running handler, `recovery_sp` the address of a recovery frame of this thread.
pub(crate) unsafe fn land(uc: *mut ucontext_t, recovery_sp: usize) {
    // SAFETY: the caller passes the kernel's ucontext.
    let gregs = unsafe { &mut (*uc).uc_mcontext.gregs };
    gregs[libc::REG_RIP as usize] = landing as *const () as i64;
    gregs[libc::REG_RSP as usize] = recovery_sp as i64;
    gregs[libc::REG_EFL as usize] &= !CLEARED_FLAGS;
}

/// The current stack pointer.
#[inline]
pub(crate) fn stack_pointer() -> Sp {
    let sp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    Sp(sp)
}

/// Loads the word at `address`; the load is the function's first instruction.
///
/// # Safety
/// The guard's handlers are installed.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_word(address: u64) -> LoadedWord {
    naked_asm!("mov rax, [rdi]", "xor edx, edx", "ret")
}

/// Where a faulting [`load_word`] continues.
///
/// # Safety
/// Entered only from the fault handler.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_word_failed() {
    naked_asm!("mov edx, 1", "ret")
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
        "2: mov al, [rsi]",
        "mov [rdi], al",
        "inc rsi",
        "inc rdi",
        "dec rcx",
        "jnz 2b",
        "xor eax, eax",
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
        "2: mov rax, [rsi]",
        "mov [rdi], rax",
        "add rsi, 8",
        "add rdi, 8",
        "dec rcx",
        "jnz 2b",
        "xor eax, eax",
        "ret",
    )
}

/// As [`copy_words`] for many words: takes 30 ns to begin with, and then moves several a cycle.
///
/// # Safety
/// As [`copy_words`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn copy_many_words(
    to: *mut u8,
    from: u64,
    _: usize,
    count: usize,
) -> usize {
    naked_asm!("rep movsq", "xor eax, eax", "ret")
}

/// Where a fault of a copying function continues.
///
/// # Safety
/// Entered only from the fault handler.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn copy_failed() {
    naked_asm!("mov eax, 1", "ret")
}

/// The program counter in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn pc(uc: *const ucontext_t) -> Pc {
    // SAFETY: see above.
    Pc(unsafe { (*uc).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64)
}

/// Sets the program counter in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn set_pc(uc: *mut ucontext_t, pc: Pc) {
    // SAFETY: see above.
    unsafe { (*uc).uc_mcontext.gregs[libc::REG_RIP as usize] = pc.0 as i64 };
}

/// Where in a ucontext the general registers are, in bytes.
pub(crate) fn register_offsets() -> impl Iterator<Item = usize> {
    let gregs = core::mem::offset_of!(ucontext_t, uc_mcontext.gregs);
    GREGS
        .into_iter()
        .map(move |index| gregs + index as usize * size_of::<u64>())
}

/// The general registers in `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
#[inline]
pub(crate) unsafe fn read_registers(uc: *const ucontext_t) -> Registers {
    // SAFETY: see above.
    let gregs = unsafe { &(*uc).uc_mcontext.gregs };
    let mut registers = Registers::zeroed(Arch::X86_64);
    for (word, index) in registers.words.iter_mut().zip(GREGS) {
        *word = gregs[index as usize] as u64;
    }
    registers
}

/// Writes the general registers into `uc`.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn write_registers(uc: *mut ucontext_t, registers: &Registers) {
    // SAFETY: see above.
    let gregs = unsafe { &mut (*uc).uc_mcontext.gregs };
    for (word, index) in registers.words.iter().zip(GREGS) {
        gregs[index as usize] = *word as i64;
    }
}

/// Sets or clears the trap flag in `uc`: the interrupted thread executes one instruction and traps.
///
/// # Safety
/// `uc` points to a ucontext.
pub(crate) unsafe fn set_trap_flag(uc: *mut ucontext_t, on: bool) -> Result<(), GuardError> {
    // SAFETY: see above.
    let flags = unsafe { &mut (*uc).uc_mcontext.gregs[libc::REG_EFL as usize] };
    if on {
        *flags |= EFLAGS_TF;
    } else {
        *flags &= !EFLAGS_TF;
    }
    Ok(())
}

/// Trap number and error code of the fault in `uc`, if the architecture has them.
///
/// # Safety
/// `uc` is the ucontext of a running handler of a synchronous signal.
pub(crate) unsafe fn trap_and_error(uc: *const ucontext_t) -> (Option<u64>, Option<u64>) {
    // SAFETY: see above.
    let gregs = unsafe { &(*uc).uc_mcontext.gregs };
    (
        Some(gregs[libc::REG_TRAPNO as usize] as u64),
        Some(gregs[libc::REG_ERR as usize] as u64),
    )
}
