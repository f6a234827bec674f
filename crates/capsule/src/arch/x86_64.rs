//! x86_64, System V.

#[path = "x86_64_shims.rs"]
mod shims;

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::c_long;
use walkfuzz_context::{Arch, Pc, Registers};

use crate::capsule::{Entry, PageBytes};
use crate::format::limits::PAGE;

pub(crate) use shims::{shims, thread_values};

/// What ptrace reads and sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine(libc::user_regs_struct);

impl Default for Machine {
    fn default() -> Self {
        // SAFETY: plain words, for which zeros are valid.
        Self(unsafe { std::mem::zeroed() })
    }
}

/// What ptrace reads and sets of the floating-point unit (`fxsave`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatState(libc::user_fpregs_struct);

impl Default for FloatState {
    fn default() -> Self {
        // SAFETY: plain words, for which zeros are valid.
        Self(unsafe { std::mem::zeroed() })
    }
}

/// `syscall`.
pub(crate) const GATE: [u8; 2] = [0x0f, 0x05];
/// Where on the stub page it is. Walks return to the page's begin.
pub(crate) const STUB_GATE: u64 = 0x10;
/// `int3`.
const BREAKPOINT: u8 = 0xcc;
/// x87 control word of a fresh thread.
const X87_CONTROL: u16 = 0x37f;
/// Segment selectors and flags of a user-space thread under Linux.
const CODE_SEGMENT: u64 = 0x33;
const STACK_SEGMENT: u64 = 0x2b;
const FLAGS: u64 = 0x202;

/// The stub page.
pub(crate) fn stub() -> PageBytes {
    let mut page = [BREAKPOINT; PAGE as usize];
    if let Some(gate) = page.get_mut(STUB_GATE as usize..STUB_GATE as usize + GATE.len()) {
        gate.copy_from_slice(&GATE);
    }
    page
}

/// Whether the thread has returned to the stub and met its breakpoint.
pub(crate) fn has_returned(machine: &Machine, stub: u64) -> bool {
    machine.0.rip == stub + 1
}

/// The program counter.
pub(crate) fn pc(machine: &Machine) -> u64 {
    machine.0.rip
}

/// Sets the program counter.
pub(crate) fn set_pc(machine: &mut Machine, pc: u64) {
    machine.0.rip = pc;
}

/// The thread pointer.
pub(crate) fn thread_pointer(machine: &Machine) -> u64 {
    machine.0.fs_base
}

/// The number of the system call that the thread is about to make.
pub(crate) fn system_call_number(machine: &Machine) -> i64 {
    machine.0.orig_rax.cast_signed()
}

/// The registers for a system call at `gate`.
pub(crate) fn calling(
    machine: &Machine,
    gate: u64,
    number: c_long,
    [a, b, c, d, e, f]: [u64; 6],
) -> Machine {
    let mut calling = *machine;
    let registers = &mut calling.0;
    registers.rip = gate;
    registers.rax = number.cast_unsigned();
    registers.orig_rax = u64::MAX;
    (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
    (registers.r10, registers.r8, registers.r9) = (d, e, f);
    calling
}

/// What the kernel returned.
pub(crate) fn answer(machine: &Machine) -> u64 {
    machine.0.rax
}

/// The thread as the walk begins.
pub(crate) fn at_entry(entry: &Entry) -> Machine {
    let mut machine = Machine::default();
    let registers = &mut machine.0;
    registers.rip = entry.function.0;
    registers.rsp = entry.stack.0;
    registers.rdi = entry.trace.0;
    registers.rsi = u64::from(entry.depth.cast_unsigned());
    registers.rdx = entry.context.0;
    registers.fs_base = entry.thread.0;
    (registers.cs, registers.ss, registers.eflags) = (CODE_SEGMENT, STACK_SEGMENT, FLAGS);
    // No system call is under way that the kernel could restart.
    registers.orig_rax = u64::MAX;
    machine
}

/// The floating-point unit as the walk begins.
pub(crate) fn float_at_entry(entry: &Entry) -> FloatState {
    let mut state = FloatState::default();
    state.0.cwd = X87_CONTROL;
    state.0.mxcsr = entry.float_control;
    state
}

/// The vector unit's control word.
pub(crate) fn float_control(state: &FloatState) -> u32 {
    state.0.mxcsr
}

/// The general registers.
pub(crate) fn registers(machine: &Machine) -> Registers {
    let it = &machine.0;
    let mut registers = Registers::zeroed(Arch::X86_64);
    // In the order of `walkfuzz_context`'s names.
    let words = [
        it.rax, it.rcx, it.rdx, it.rbx, it.rsp, it.rbp, it.rsi, it.rdi, it.r8, it.r9, it.r10,
        it.r11, it.r12, it.r13, it.r14, it.r15, it.rip,
    ];
    for (register, word) in registers.words.iter_mut().zip(words) {
        *register = word;
    }
    registers
}

/// The general registers with which the walker is called.
pub(crate) fn entry_registers(entry: &Entry) -> Registers {
    registers(&at_entry(entry))
}

/// Whether user space may set its thread pointer (`HWCAP2_FSGSBASE`, `<asm/hwcap2.h>`).
pub(crate) fn has_thread_pointer_instructions() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// The caller's stack pointer and thread pointer while it is in a walk, and where the walk is to begin.
static HOST_STACK: AtomicU64 = AtomicU64::new(0);
static HOST_THREAD: AtomicU64 = AtomicU64::new(0);
static TARGET: AtomicU64 = AtomicU64::new(0);

/// The stub page for walks without a tracer: `jmp [rip]` to [`left`], whose address follows.
pub(crate) fn leaving_stub() -> PageBytes {
    let mut page = [BREAKPOINT; PAGE as usize];
    let jump = [0xff, 0x25, 0, 0, 0, 0];
    let code = jump
        .into_iter()
        .chain((left as *const () as u64).to_le_bytes());
    for (target, byte) in page.iter_mut().zip(code) {
        *target = byte;
    }
    page
}

/// Walks: returns when the walk has returned to the stub, or [`leave`] has ended it.
///
/// # Safety
/// The capsule is mapped; nothing that this thread relies on can be reached by the walk.
pub(crate) unsafe fn enter(entry: &Entry) {
    TARGET.store(entry.function.0, Relaxed);
    // SAFETY: the caller's promise.
    unsafe {
        switch(
            entry.trace.0,
            u64::from(entry.depth.cast_unsigned()),
            entry.context.0,
            entry.stack.0,
            entry.thread.0,
        );
    }
}

/// Saves what the ABI wants saved, takes the walk's stack and thread pointer, and jumps with all other registers zero.
///
/// # Safety
/// As [`enter`].
#[unsafe(naked)]
unsafe extern "C" fn switch(trace: u64, depth: u64, context: u64, stack: u64, thread: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rip + {stack}], rsp",
        "rdfsbase rax",
        "mov [rip + {thread}], rax",
        "wrfsbase r8",
        "mov rsp, rcx",
        "xor eax, eax",
        "xor ebx, ebx",
        "xor ecx, ecx",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "jmp [rip + {target}]",
        stack = sym HOST_STACK,
        thread = sym HOST_THREAD,
        target = sym TARGET,
    )
}

/// Where a walk ends.
///
/// # Safety
/// Entered only from a walk that [`switch`] began.
#[unsafe(naked)]
unsafe extern "C" fn left() {
    naked_asm!(
        "mov rax, [rip + {thread}]",
        "wrfsbase rax",
        "cld",
        "mov rsp, [rip + {stack}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        stack = sym HOST_STACK,
        thread = sym HOST_THREAD,
    )
}

/// Makes the interrupted walk end when its handler returns.
///
/// # Safety
/// `context` is the running handler's, which interrupted a walk.
pub(crate) unsafe fn leave(context: *mut libc::ucontext_t) {
    // SAFETY: the caller's promise.
    unsafe { walkfuzz_guard::write_pc(context, Pc(left as *const () as u64)) };
}

/// Ends the interrupted walk from within its handler, which does not return: the kernel's way back costs a fifth of what a fault costs, and
/// what it restores the walk's end throws away.
///
/// # Safety
/// Called in a handler that interrupted a walk, and whose signals are not blocked while it runs (`SA_NODEFER`, an empty `sa_mask`).
pub(crate) unsafe fn leave_at_once() -> ! {
    // SAFETY: the caller's promise; `left` needs no stack.
    unsafe { core::arch::asm!("jmp {left}", left = sym left, options(noreturn)) }
}

/// The number of the system call that a filter refused: still in rax.
///
/// # Safety
/// `context` is the running handler's.
pub(crate) unsafe fn refused_system_call(context: *const libc::ucontext_t) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RAX as usize] }
}

/// Whether the fault in `context` was a write (bit 1 of the page fault's error code).
///
/// # Safety
/// `context` is the running handler's, of a page fault.
pub(crate) unsafe fn was_write(context: *const libc::ucontext_t) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0 }
}

/// Lets [`handler`] use this program's thread pointer from now on.
pub(crate) fn keep_thread_pointer() {
    let here: u64;
    // SAFETY: reads a register; the caller has seen that the processor can.
    unsafe { core::arch::asm!("rdfsbase {}", out(reg) here, options(nomem, nostack)) };
    HOST_THREAD.store(here, Relaxed);
}

/// A signal handler that runs `handle` with this program's thread pointer, whichever the interrupted code has.
///
/// # Safety
/// The kernel's to call, after [`keep_thread_pointer`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn handler() {
    naked_asm!(
        "push rbx",
        "rdfsbase rbx",
        "mov rax, [rip + {thread}]",
        "wrfsbase rax",
        "call {handle}",
        "wrfsbase rbx",
        "pop rbx",
        "ret",
        thread = sym HOST_THREAD,
        handle = sym crate::resident::on_signal,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_in_the_order_of_their_names() {
        let mut machine = Machine::default();
        (machine.0.rax, machine.0.r15, machine.0.rip) = (1, 2, 3);
        (machine.0.rsp, machine.0.rdi) = (4, 5);
        let registers = registers(&machine);
        let named = |name: &str| {
            let mut names = Arch::X86_64.register_names().iter();
            registers.words[names.position(|known| *known == name).unwrap()]
        };
        let words = ["rax", "r15", "rip", "rsp", "rdi"].map(named);
        assert_eq!(words, [1, 2, 3, 4, 5]);
    }
}
