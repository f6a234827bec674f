//! aarch64.

use std::arch::{asm, naked_asm};

use libc::{c_int, c_void};

/// An address that no page table can map.
pub const NON_CANONICAL: u64 = 0x00ba_d000_0000_0000;
/// What the kernel (or an emulator of it) may say about it.
pub const NON_CANONICAL_SI_ADDRS: &[u64] = &[0, NON_CANONICAL];
/// The trap number of a page fault.
pub const PAGE_FAULT: Option<u64> = None;
/// Whether a division by zero faults.
pub const DIVISION_FAULTS: bool = false;
/// Whether user space can single-step itself.
pub const CAN_STEP: bool = false;

/// Executes an undefined instruction, as its first.
#[unsafe(naked)]
pub unsafe extern "C" fn illegal(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!("udf #0")
}

/// Executes a breakpoint, then returns.
#[unsafe(naked)]
pub unsafe extern "C" fn breakpoint(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!("brk #0", "ret")
}

/// What to add to the pc of a breakpoint's SIGTRAP to continue behind it.
pub const BEHIND_BREAKPOINT: u64 = 4;

/// A division by zero gives zero here, so raise the signal.
pub unsafe extern "C" fn divide(_: *mut c_void, b: c_int, _: *mut c_void) {
    if b == 0 {
        // SAFETY: no memory involved.
        unsafe { libc::raise(libc::SIGFPE) };
    }
}

/// Loads from `a`, as its first instruction. Returns `c` if resumed at [`fetch_continuation`]: HotSpot's SafeFetch.
#[unsafe(naked)]
pub unsafe extern "C" fn fetch(a: *const u64, b: c_int, c: *mut c_void) -> u64 {
    naked_asm!("ldr x0, [x0]", "ret")
}

/// See [`fetch`].
#[unsafe(naked)]
pub unsafe extern "C" fn fetch_continuation() {
    naked_asm!("mov x0, x2", "ret")
}

/// Spoils everything that a callee has to preserve, then loads from address 8.
#[unsafe(naked)]
pub unsafe extern "C" fn spoil_and_crash(_: *mut c_void, _: c_int, _: *mut c_void) {
    naked_asm!(
        "mov x9, #0xc00000", // round to zero
        "msr fpcr, x9",
        "mov x19, #-1",
        "mov x20, #-1",
        "mov x21, #-1",
        "mov x22, #-1",
        "mov x23, #-1",
        "mov x24, #-1",
        "mov x25, #-1",
        "mov x26, #-1",
        "mov x27, #-1",
        "mov x28, #-1",
        "mov x29, #16",
        "fmov d8, x19",
        "fmov d15, x19",
        "mov x9, #8",
        "ldr x9, [x9]",
        "udf #0",
    )
}

/// Calls `f` with a pattern in callee-saved registers; returns how many lost it.
pub fn lost_registers(f: &mut dyn FnMut()) -> usize {
    extern "C" fn run(f: &mut &mut dyn FnMut()) {
        f();
    }
    let mut f = f;
    let lost: usize;
    // SAFETY: a plain call; x19 and x29 are saved by hand because asm! has no operands for them.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "mov x19, #1",
            "mov x29, #6",
            "mov x20, #2",
            "mov x24, #3",
            "mov x28, #4",
            "mov x9, #5",
            "fmov d8, x9",
            "fmov d15, x9",
            "bl {run}",
            "cmp x19, #1",
            "cset x0, ne",
            "cmp x20, #2",
            "cinc x0, x0, ne",
            "cmp x24, #3",
            "cinc x0, x0, ne",
            "cmp x28, #4",
            "cinc x0, x0, ne",
            "fmov x9, d8",
            "cmp x9, #5",
            "cinc x0, x0, ne",
            "fmov x9, d15",
            "cmp x9, #5",
            "cinc x0, x0, ne",
            "cmp x29, #6",
            "cinc x0, x0, ne",
            "ldp x19, x29, [sp], #16",
            run = sym run,
            inout("x0") &raw mut f => lost,
            out("x20") _, out("x24") _, out("x28") _, out("d8") _, out("d15") _,
            clobber_abi("C"),
        );
    }
    lost
}

/// Floating-point control: fpcr.
pub fn float_control() -> u64 {
    let fpcr: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, fpcr", out(reg) fpcr) };
    fpcr
}
