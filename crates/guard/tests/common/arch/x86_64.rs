//! x86_64.

use std::arch::{asm, naked_asm};

use libc::{c_int, c_void};

/// An address that no page table can map.
pub const NON_CANONICAL: u64 = 0x0bad_0000_0000_0000;
/// What the kernel may say about it: a general protection fault has no address.
pub const NON_CANONICAL_SI_ADDRS: &[u64] = &[0];
/// The trap number of a page fault.
pub const PAGE_FAULT: Option<u64> = Some(14);
/// Whether a division by zero faults.
pub const DIVISION_FAULTS: bool = true;
/// Whether user space can single-step itself.
pub const CAN_STEP: bool = true;

/// Executes an undefined instruction, as its first.
#[unsafe(naked)]
pub unsafe extern "C" fn illegal(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!("ud2")
}

/// Executes a breakpoint, then returns.
#[unsafe(naked)]
pub unsafe extern "C" fn breakpoint(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!("int3", "ret")
}

/// What to add to the pc of a breakpoint's SIGTRAP to continue behind it.
pub const BEHIND_BREAKPOINT: u64 = 0;

/// Divides by `b`.
pub unsafe extern "C" fn divide(_: *mut c_void, b: c_int, _: *mut c_void) {
    // SAFETY: crashes if `b` is 0, as it should.
    unsafe { asm!("cdq", "idiv {0:e}", in(reg) b, inout("eax") 1 => _, out("edx") _) };
}

/// Loads from `a`, as its first instruction. Returns `c` if resumed at [`fetch_continuation`]: HotSpot's SafeFetch.
#[unsafe(naked)]
pub unsafe extern "C" fn fetch(a: *const u64, b: c_int, c: *mut c_void) -> u64 {
    naked_asm!("mov rax, [rdi]", "ret")
}

/// See [`fetch`].
#[unsafe(naked)]
pub unsafe extern "C" fn fetch_continuation() {
    naked_asm!("mov rax, rdx", "ret")
}

/// Spoils everything that a callee has to preserve, then loads from address 8.
#[unsafe(naked)]
pub unsafe extern "C" fn spoil_and_crash(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!(
        "fld1",
        "fld1",
        "push 0x0c7f", // x87: round to zero
        "fldcw [rsp]",
        "push 0x7f80", // SSE: round to zero
        "ldmxcsr [rsp]",
        "mov rbx, -1",
        "mov r12, -1",
        "mov r13, -1",
        "mov r14, -1",
        "mov r15, -1",
        "mov rbp, 16",
        "std",
        "mov rax, [8]",
        "ud2",
    )
}

/// Calls `f` with a pattern in each callee-saved register; returns how many lost it.
pub fn lost_registers(f: &mut dyn FnMut()) -> usize {
    extern "C" fn run(f: &mut &mut dyn FnMut()) {
        f();
    }
    let mut f = f;
    let lost: usize;
    // SAFETY: a plain call; rbx and rbp are saved by hand because asm! has no operands for them.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rbx, 1",
            "mov rbp, 6",
            "mov r12, 2",
            "mov r13, 3",
            "mov r14, 4",
            "mov r15, 5",
            "call {run}",
            "xor eax, eax",
            "cmp rbx, 1",
            "setne cl",
            "add al, cl",
            "cmp r12, 2",
            "setne cl",
            "add al, cl",
            "cmp r13, 3",
            "setne cl",
            "add al, cl",
            "cmp r14, 4",
            "setne cl",
            "add al, cl",
            "cmp r15, 5",
            "setne cl",
            "add al, cl",
            "cmp rbp, 6",
            "setne cl",
            "add al, cl",
            "pop rbp",
            "pop rbx",
            run = sym run,
            in("rdi") &raw mut f,
            lateout("rax") lost,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    lost
}

/// Floating-point control: mxcsr without its sticky flags, the x87 control word, and which x87 registers are in use.
pub fn float_control() -> u64 {
    let mut mxcsr = 0u32;
    let mut x87 = [0u32; 7];
    // SAFETY: stores into locals. fnstenv changes the control word, fldenv puts it back.
    unsafe {
        asm!(
            "stmxcsr [{0}]",
            "fnstenv [{1}]",
            "fldenv [{1}]",
            in(reg) &raw mut mxcsr,
            in(reg) &raw mut x87,
        );
    }
    let [control, _, tags, ..] = x87;
    u64::from(mxcsr & !0x3f) | u64::from(control & 0xffff) << 32 | u64::from(tags & 0xffff) << 48
}
