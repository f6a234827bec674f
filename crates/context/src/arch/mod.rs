//! Per-architecture facts. Both modules exist everywhere, so that inputs of either architecture can be read and tested anywhere.

pub mod aarch64;
pub mod x86_64;

use crate::registers::Arch;

// On a machine that is neither, inputs can still be read, printed and converted; x86_64 is then as good a guess as any.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const NATIVE: Arch = Arch::X86_64;
#[cfg(target_arch = "aarch64")]
pub(crate) const NATIVE: Arch = Arch::Aarch64;
