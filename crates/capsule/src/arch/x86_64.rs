//! x86_64, System V.

use walkfuzz_context::{Arch, Registers};

use crate::capsule::Entry;

/// What a register is called.
fn set(registers: &mut Registers, name: &str, word: u64) {
    let names = Arch::X86_64.register_names().iter();
    if let Some((_, target)) = names
        .zip(&mut registers.words)
        .find(|(known, _)| **known == name)
    {
        *target = word;
    }
}

/// The general registers with which the walker is called.
pub(crate) fn entry_registers(entry: &Entry) -> Registers {
    let mut registers = Registers::zeroed(Arch::X86_64);
    set(&mut registers, "rdi", entry.trace.0);
    set(&mut registers, "rsi", u64::from(entry.depth.cast_unsigned()));
    set(&mut registers, "rdx", entry.context.0);
    set(&mut registers, "rsp", entry.stack.0);
    set(&mut registers, "rip", entry.function.0);
    registers
}
