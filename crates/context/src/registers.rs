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

    /// Every architecture.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name that texts and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// The architecture of that [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    /// How many registers there are: indices at or above it mean nothing.
    #[inline]
    #[must_use]
    pub const fn register_count(self) -> usize {
        match self {
            Arch::X86_64 => arch::x86_64::REGISTER_NAMES.len(),
            Arch::Aarch64 => arch::aarch64::REGISTER_NAMES.len(),
        }
    }

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

    /// What sp is a multiple of.
    #[must_use]
    pub const fn sp_alignment(self) -> u64 {
        match self {
            Arch::X86_64 => arch::x86_64::SP_ALIGNMENT,
            Arch::Aarch64 => arch::aarch64::SP_ALIGNMENT,
        }
    }

    /// Bytes from sp to the slot of the return address at a function's first instruction.
    #[must_use]
    pub const fn return_slot_at_entry(self) -> i32 {
        match self {
            Arch::X86_64 => arch::x86_64::RETURN_SLOT_AT_ENTRY,
            Arch::Aarch64 => arch::aarch64::RETURN_SLOT_AT_ENTRY,
        }
    }

    /// Other registers in which HotSpot keeps what walkers have read.
    #[must_use]
    pub const fn hotspot_registers(self) -> &'static [Register] {
        match self {
            Arch::X86_64 => &arch::x86_64::HOTSPOT,
            Arch::Aarch64 => &arch::aarch64::HOTSPOT,
        }
    }
}

impl Register {
    /// The name in the text form: the role (`pc`, `sp`, `fp`, `lr`) where the register has one, else the architecture's name.
    /// `None` if the architecture has no such register.
    #[must_use]
    pub fn name(self, arch: Arch) -> Option<&'static str> {
        if self == arch.pc() {
            Some("pc")
        } else if self == arch.sp() {
            Some("sp")
        } else if self == arch.fp() {
            Some("fp")
        } else {
            arch.register_names().get(usize::from(self.0)).copied()
        }
    }

    /// The register of that role or name.
    #[must_use]
    pub fn from_name(arch: Arch, name: &str) -> Option<Self> {
        match name {
            "pc" => Some(arch.pc()),
            "sp" => Some(arch.sp()),
            "fp" => Some(arch.fp()),
            _ => (0u8..)
                .zip(arch.register_names())
                .find(|(_, known)| **known == name)
                .map(|(index, _)| Register(index)),
        }
    }

    /// The register that plays the same role (pc, sp, fp, lr) on `to`; `None` if this one plays none or `to` has none.
    #[must_use]
    pub fn adapt(self, from: Arch, to: Arch) -> Option<Self> {
        if from == to {
            Some(self)
        } else if self == from.pc() {
            Some(to.pc())
        } else if self == from.sp() {
            Some(to.sp())
        } else if self == from.fp() {
            Some(to.fp())
        } else if Some(self) == from.lr() {
            to.lr()
        } else {
            None
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

    /// Takes over the other's registers. For native ones this copies those words alone that the architecture has.
    #[inline]
    pub fn assign(&mut self, other: &Self) {
        const NATIVE_WORDS: usize = Arch::NATIVE.register_count();
        if other.arch == Arch::NATIVE && self.arch == Arch::NATIVE {
            self.words[..NATIVE_WORDS].copy_from_slice(&other.words[..NATIVE_WORDS]);
        } else {
            *self = *other;
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
