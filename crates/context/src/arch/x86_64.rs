//! x86_64, System V.

use crate::registers::Register;

/// In the order of the instruction encoding, then `rip`.
pub const REGISTER_NAMES: [&str; 17] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];
/// Program counter.
pub const PC: Register = Register(16);
/// Stack pointer.
pub const SP: Register = Register(4);
/// Frame pointer.
pub const FP: Register = Register(5);
/// What sp is a multiple of between instructions.
pub const SP_ALIGNMENT: u64 = 8;
/// From sp to the slot of the return address at a function's first instruction: `call` has pushed it.
pub const RETURN_SLOT_AT_ENTRY: i32 = 0;
/// Walkers read nothing of HotSpot's in registers but pc, sp and fp.
pub const HOTSPOT: [Register; 0] = [];
/// What the words of a queued sample borrow ([`crate::element`]): `r13`, which holds the interpreter's bytecode pointer, `rdi`, `rsi`, `rdx`.
pub const ELEMENT: [Register; 4] = [Register(13), Register(7), Register(6), Register(2)];
