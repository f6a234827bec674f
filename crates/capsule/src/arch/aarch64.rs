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

/// Where in a context the general registers are, in bytes, in the order of `walkfuzz_context`'s names.
pub(crate) fn context_offsets() -> impl Iterator<Item = u64> {
    // x0 to x30, sp, pc (`<asm/sigcontext.h>`), behind the kernel's flags, link, stack and mask, and the fault's address.
    const REGISTERS: u64 = 184;
    (0..33).map(|index| REGISTERS + index * 8)
}
