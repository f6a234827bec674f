//! The general registers of a context, for both architectures.

use crate::address::{Fp, Pc, Sp};
use crate::arch;

/// The architecture a context belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Arch {
    /// AMD64, System V.
    X86_64 = 1,
    /// ARMv8 in 64-bit mode.
    Aarch64 = 2,
}

/// The most registers that any architecture has.
pub const MAX_REGISTERS: usize = 33;

/// An index into [`Registers`]; its meaning depends on the [`Arch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u8);

impl Arch {
    /// The architecture that this program was built for.
    pub const NATIVE: Arch = arch::NATIVE;

    /// Register names in index order.
    #[must_use]
    pub fn register_names(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &arch::x86_64::REGISTER_NAMES,
            Arch::Aarch64 => &arch::aarch64::REGISTER_NAMES,
        }
    }

    /// The program counter.
    #[must_use]
    pub fn pc(self) -> Register {
        match self {
            Arch::X86_64 => arch::x86_64::PC,
            Arch::Aarch64 => arch::aarch64::PC,
        }
    }

    /// The stack pointer.
    #[must_use]
    pub fn sp(self) -> Register {
        match self {
            Arch::X86_64 => arch::x86_64::SP,
            Arch::Aarch64 => arch::aarch64::SP,
        }
    }

    /// The frame pointer register (`rbp`, `x29`).
    #[must_use]
    pub fn fp(self) -> Register {
        match self {
            Arch::X86_64 => arch::x86_64::FP,
            Arch::Aarch64 => arch::aarch64::FP,
        }
    }

    /// The link register, where the architecture has one.
    #[must_use]
    pub fn lr(self) -> Option<Register> {
        match self {
            Arch::X86_64 => None,
            Arch::Aarch64 => Some(arch::aarch64::LR),
        }
    }
}

/// The general registers of one context. Indices: [`Arch::register_names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Whose registers these are.
    pub arch: Arch,
    /// Values; those past the architecture's register count are zero.
    pub words: [u64; MAX_REGISTERS],
}

impl Registers {
    /// All zero.
    #[must_use]
    pub const fn zeroed(arch: Arch) -> Self {
        Self {
            arch,
            words: [0; MAX_REGISTERS],
        }
    }

    /// One register's value.
    #[inline]
    #[must_use]
    pub fn get(&self, register: Register) -> u64 {
        self.words[register.0 as usize % MAX_REGISTERS]
    }

    /// Sets one register.
    #[inline]
    pub fn set(&mut self, register: Register, value: u64) {
        self.words[register.0 as usize % MAX_REGISTERS] = value;
    }

    /// The program counter.
    #[inline]
    #[must_use]
    pub fn pc(&self) -> Pc {
        Pc(self.get(self.arch.pc()))
    }

    /// The stack pointer.
    #[inline]
    #[must_use]
    pub fn sp(&self) -> Sp {
        Sp(self.get(self.arch.sp()))
    }

    /// The frame pointer register.
    #[inline]
    #[must_use]
    pub fn fp(&self) -> Fp {
        Fp(self.get(self.arch.fp()))
    }
}
