//! Edits and perturbations: how a context is changed before it is walked.
//!
//! Edits apply in order, each to what the ones before it left. Signal-safe: everything here; no allocation, no lock, no panic.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::landscape::Landscape;
use crate::registers::{Arch, Register, Registers};
use crate::value::Value;

/// The most edits that a perturbation has.
pub const MAX_EDITS: usize = 6;

/// The lowest bit of the pointer authentication code that Linux leaves in a 48-bit user address with its top byte ignored.
pub const PAC_SHIFT: u32 = 48;
/// That code's seven bits, shifted down.
pub const PAC_MASK: u8 = 0x7f;

/// One change to one register (two, for a swap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Adds to a register.
    Nudge {
        /// The register changed.
        register: Register,
        /// Bytes added.
        delta: i32,
    },
    /// Replaces a register's value.
    Set {
        /// The register changed.
        register: Register,
        /// What it becomes.
        value: Value,
    },
    /// Inverts one bit.
    Flip {
        /// The register changed.
        register: Register,
        /// Which bit, modulo 64.
        bit: u8,
    },
    /// Exchanges two registers.
    Swap {
        /// One register.
        a: Register,
        /// The other.
        b: Register,
    },
    /// Sets a register to another's value plus an offset.
    Alias {
        /// The register changed.
        register: Register,
        /// The register read.
        source: Register,
        /// Bytes added to what was read.
        delta: i32,
    },
    /// Inverts bits of the pointer authentication code, bits 48 to 54. aarch64's edit; x86_64 has no such code there, and the
    /// address becomes non-canonical.
    Sign {
        /// The register changed.
        register: Register,
        /// Which of the code's seven bits ([`PAC_MASK`]).
        bits: u8,
    },
}

impl Edit {
    /// The register changed (the first one, for a swap).
    #[must_use]
    pub const fn register(&self) -> Register {
        match *self {
            Edit::Nudge { register, .. }
            | Edit::Set { register, .. }
            | Edit::Flip { register, .. }
            | Edit::Alias { register, .. }
            | Edit::Sign { register, .. } => register,
            Edit::Swap { a, .. } => a,
        }
    }

    /// The other register that takes part: a swap's second, an alias's source.
    #[must_use]
    pub const fn other_register(&self) -> Option<Register> {
        match *self {
            Edit::Swap { b, .. } => Some(b),
            Edit::Alias { source, .. } => Some(source),
            Edit::Nudge { .. } | Edit::Set { .. } | Edit::Flip { .. } | Edit::Sign { .. } => None,
        }
    }

    /// The same edit of the registers with the same role on another architecture; `None` if one of them has no counterpart.
    #[must_use]
    pub fn adapt(self, from: Arch, to: Arch) -> Option<Self> {
        self.with_registers(|register| register.adapt(from, to))
    }

    /// The same edit of other registers; `None` if `map` has none for one of them.
    #[must_use]
    pub fn with_registers(self, map: impl Fn(Register) -> Option<Register>) -> Option<Self> {
        Some(match self {
            Edit::Nudge { register, delta } => Edit::Nudge {
                register: map(register)?,
                delta,
            },
            Edit::Set { register, value } => Edit::Set {
                register: map(register)?,
                value,
            },
            Edit::Flip { register, bit } => Edit::Flip {
                register: map(register)?,
                bit,
            },
            Edit::Swap { a, b } => Edit::Swap {
                a: map(a)?,
                b: map(b)?,
            },
            Edit::Alias {
                register,
                source,
                delta,
            } => Edit::Alias {
                register: map(register)?,
                source: map(source)?,
                delta,
            },
            Edit::Sign { register, bits } => Edit::Sign {
                register: map(register)?,
                bits,
            },
        })
    }

    /// Applies the edit. `None`, and nothing changed, if its value does not resolve or the architecture lacks a register.
    #[inline]
    fn apply<L: Landscape + ?Sized>(&self, registers: &mut Registers, landscape: &L) -> Option<()> {
        let count = registers.arch.register_count();
        let words = registers.words.get_mut(..count)?;
        let index = usize::from(self.register().0);
        match *self {
            Edit::Nudge { delta, .. } => {
                let word = words.get_mut(index)?;
                *word = word.wrapping_add_signed(i64::from(delta));
            }
            Edit::Set { value, .. } => *words.get_mut(index)? = value.resolve(landscape)?,
            Edit::Flip { bit, .. } => *words.get_mut(index)? ^= 1 << (bit % 64),
            Edit::Swap { b, .. } => {
                let first = *words.get(index)?;
                let second = std::mem::replace(words.get_mut(usize::from(b.0))?, first);
                *words.get_mut(index)? = second;
            }
            Edit::Alias { source, delta, .. } => {
                let read = *words.get(usize::from(source.0))?;
                *words.get_mut(index)? = read.wrapping_add_signed(i64::from(delta));
            }
            Edit::Sign { bits, .. } => {
                *words.get_mut(index)? ^= u64::from(bits & PAC_MASK) << PAC_SHIFT;
            }
        }
        Some(())
    }
}

/// What applying a perturbation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Applied {
    /// How many edits had no effect, because the landscape has nothing of the class or the architecture no such register.
    pub unresolved: u8,
}

/// A short list of edits; the empty one leaves the context untouched.
#[derive(Clone, Copy)]
pub struct Perturbation {
    len: u8,
    edits: [Edit; MAX_EDITS],
}

const FILLER: Edit = Edit::Nudge {
    register: Register(0),
    delta: 0,
};

impl Perturbation {
    /// The perturbation without edits.
    pub const UNTOUCHED: Self = Self {
        len: 0,
        edits: [FILLER; MAX_EDITS],
    };

    /// The first [`MAX_EDITS`] of `edits`.
    #[must_use]
    pub fn from_edits(edits: &[Edit]) -> Self {
        edits.iter().copied().collect()
    }

    /// The edits in the order in which they apply.
    #[inline]
    #[must_use]
    pub fn edits(&self) -> &[Edit] {
        self.edits.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The edits, to change in place.
    #[must_use]
    pub fn edits_mut(&mut self) -> &mut [Edit] {
        self.edits
            .get_mut(..usize::from(self.len))
            .unwrap_or(&mut [])
    }

    /// Whether there are no edits.
    #[inline]
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.len == 0
    }

    /// Appends an edit; `false` if there is no room.
    #[inline]
    pub fn push(&mut self, edit: Edit) -> bool {
        match self.edits.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = edit;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Takes the edit at `index` out, keeping the order of the others.
    pub fn remove(&mut self, index: usize) -> Option<Edit> {
        let removed = *self.edits().get(index)?;
        self.edits.copy_within(index + 1.., index);
        self.len -= 1;
        Some(removed)
    }

    /// Replaces all edits by those of `other`, without copying the room behind them.
    #[inline]
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.len = other.len;
        for (edit, from) in self.edits.iter_mut().zip(other.edits()) {
            *edit = *from;
        }
    }

    /// Drops all edits.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Replaces all edits by what `next` yields, `count` at most.
    // Counting in a register: through `len` in memory, each edit of a decoded batch would wait for the one before it.
    #[inline(always)]
    pub(crate) fn fill(&mut self, count: u8, mut next: impl FnMut() -> Option<Edit>) {
        let mut len = 0;
        for slot in self.edits.iter_mut().take(usize::from(count)) {
            let Some(edit) = next() else { break };
            *slot = edit;
            len += 1;
        }
        self.len = len;
    }

    /// The edits that have a counterpart on another architecture ([`Edit::adapt`]).
    #[must_use]
    pub fn adapt(&self, from: Arch, to: Arch) -> Self {
        self.edits()
            .iter()
            .filter_map(|edit| edit.adapt(from, to))
            .collect()
    }

    /// Changes the registers, edit by edit.
    #[inline]
    pub fn apply<L: Landscape + ?Sized>(
        &self,
        registers: &mut Registers,
        landscape: &L,
    ) -> Applied {
        let mut unresolved = 0;
        for edit in self.edits() {
            unresolved += u8::from(edit.apply(registers, landscape).is_none());
        }
        Applied { unresolved }
    }
}

impl Default for Perturbation {
    fn default() -> Self {
        Self::UNTOUCHED
    }
}

impl FromIterator<Edit> for Perturbation {
    /// Edits past [`MAX_EDITS`] are dropped.
    fn from_iter<I: IntoIterator<Item = Edit>>(edits: I) -> Self {
        let mut perturbation = Self::UNTOUCHED;
        for edit in edits.into_iter().take(MAX_EDITS) {
            perturbation.push(edit);
        }
        perturbation
    }
}

impl PartialEq for Perturbation {
    fn eq(&self, other: &Self) -> bool {
        self.edits() == other.edits()
    }
}

impl Eq for Perturbation {}

impl Hash for Perturbation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.edits().hash(state);
    }
}

impl fmt::Debug for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.edits()).finish()
    }
}
