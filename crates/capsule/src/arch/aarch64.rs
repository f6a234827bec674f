//! aarch64, AAPCS64: capsules can be read and written; capturing and replaying them is not there yet (`crate::unsupported`).

use walkfuzz_context::{Arch, Registers};

use crate::capsule::Entry;

/// The general registers with which the walker is called.
pub(crate) fn entry_registers(entry: &Entry) -> Registers {
    let mut registers = Registers::zeroed(Arch::Aarch64);
    let arguments = [
        entry.trace.0,
        u64::from(entry.depth.cast_unsigned()),
        entry.context.0,
    ];
    for (word, argument) in registers.words.iter_mut().zip(arguments) {
        *word = argument;
    }
    registers.set(Arch::Aarch64.sp(), entry.stack.0);
    registers.set(Arch::Aarch64.pc(), entry.function.0);
    registers
}
