//! aarch64, AAPCS64.

use crate::registers::Register;

/// `x0`-`x30` (`x29` is fp, `x30` is lr), `sp`, `pc`.
pub const REGISTER_NAMES: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "fp", "lr", "sp", "pc",
];
/// Program counter.
pub const PC: Register = Register(32);
/// Stack pointer.
pub const SP: Register = Register(31);
/// Frame pointer, `x29`.
pub const FP: Register = Register(29);
/// Link register, `x30`.
pub const LR: Register = Register(30);
/// What sp is a multiple of wherever it is used to load or store (Arm ARM D1.8.2): the hardware checks it.
pub const SP_ALIGNMENT: u64 = 16;
/// From sp to the slot of the return address at a function's first instruction: right below sp, where the prologue will store lr.
pub const RETURN_SLOT_AT_ENTRY: i32 = -8;
/// What HotSpot keeps beside pc, sp, fp and lr that walkers have read: the interpreter's expression stack pointer `x20` (`esp`), and the
/// thread in `x28` (register_aarch64.hpp).
pub const HOTSPOT: [Register; 2] = [Register(20), Register(28)];
/// What the words of a queued sample borrow ([`crate::element`]): `x22`, which holds the interpreter's bytecode pointer, `x0`, `x1`, `x2`.
pub const ELEMENT: [Register; 4] = [Register(22), Register(0), Register(1), Register(2)];
