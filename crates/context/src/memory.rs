//! Edits of a snapshot's memory, before its registers are edited: what makes an input *synthetic*.
//!
//! Nothing edits the memory of a running JVM: only the capsule engine can serve such an input, and what it finds is a class of its own.
//! Places are words of the walked stack: counted up from sp, or relative to a slot that holds a return address, where frames keep their links.
//!
//! ```text
//! input = 0x21 count edit{count} batch           count 1 to 4 (modulo); the batch as the codec has it
//! edit  = place selector:u16 offset:i16 change   place modulo 2: stack slot, return address slot; the offset's low three bits are zero
//!   change (six bytes, kind modulo 3)
//!     0 set    class selector:u16 offset:i16
//!     1 nudge  delta:i32 0
//!     2 flip   bit 0 0 0 0
//! ```
//!
//! As text: `[return-address-slot[1]-8]=own-stack[3]`, `[stack-slot[7]]+=8`, `[stack-slot[0]]~bit3`.
//!
//! Signal-safe: everything but [`MemoryEdits::to_bytes`] and the text form.

use std::fmt;

use crate::address::Address;
use crate::generate::{Dice, value_for};
use crate::landscape::Landscape;
use crate::registers::Arch;
use crate::value::{Value, ValueClass};

/// The most words that one input edits.
pub const MAX_MEMORY_EDITS: usize = 4;
/// Begins a synthetic input; a batch begins otherwise.
const HEADER: u8 = 0x21;
const EDIT_BYTES: usize = 11;
const PLACES: [ValueClass; 2] = [ValueClass::StackSlot, ValueClass::ReturnAddressSlot];
/// No synthetic input has more bytes before its batch.
pub const MAX_MEMORY_BYTES: usize = 2 + MAX_MEMORY_EDITS * EDIT_BYTES;

/// What becomes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Replaced.
    Set(Value),
    /// Added to.
    Nudge(i32),
    /// One bit inverted, modulo 64.
    Flip(u8),
}

/// One word of memory, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryEdit {
    place: Value,
    change: Change,
}

impl MemoryEdit {
    /// An edit of the word at `place`, a stack slot (any other class becomes one) with an offset of whole words.
    #[must_use]
    pub fn new(place: Value, change: Change) -> Self {
        let class = if PLACES.contains(&place.class) {
            place.class
        } else {
            PLACES[0]
        };
        let change = match change {
            Change::Flip(bit) => Change::Flip(bit % 64),
            change => change,
        };
        Self {
            place: Value::new(class, place.selector, place.offset & !7),
            change,
        }
    }

    /// The word's address; `None` if the landscape has no such slot.
    #[must_use]
    pub fn address<L: Landscape + ?Sized>(&self, landscape: &L) -> Option<Address> {
        self.place
            .resolve(landscape)
            .map(|address| Address(address & !7))
    }

    /// What becomes of `word`; `None` if its value does not resolve.
    #[must_use]
    pub fn apply<L: Landscape + ?Sized>(&self, word: u64, landscape: &L) -> Option<u64> {
        match self.change {
            Change::Set(value) => value.resolve(landscape),
            Change::Nudge(delta) => Some(word.wrapping_add_signed(i64::from(delta))),
            Change::Flip(bit) => Some(word ^ 1 << (bit % 64)),
        }
    }

    fn decode(bytes: &[u8; EDIT_BYTES]) -> Self {
        let [place, s0, s1, o0, o1, kind, operands @ ..] = *bytes;
        let class = PLACES[usize::from(place) % PLACES.len()];
        let place = Value::new(
            class,
            u16::from_le_bytes([s0, s1]),
            i16::from_le_bytes([o0, o1]),
        );
        let [a, b, c, d, e] = operands;
        let change = match kind % 3 {
            0 => Change::Set(Value::new(
                ValueClass::ALL[usize::from(a) % ValueClass::COUNT],
                u16::from_le_bytes([b, c]),
                i16::from_le_bytes([d, e]),
            )),
            1 => Change::Nudge(i32::from_le_bytes([a, b, c, d])),
            _ => Change::Flip(a),
        };
        Self::new(place, change)
    }

    fn encode(&self) -> [u8; EDIT_BYTES] {
        let place = u8::from(self.place.class == PLACES[1]);
        let [s0, s1] = self.place.selector.to_le_bytes();
        let [o0, o1] = self.place.offset.to_le_bytes();
        let [kind, a, b, c, d, e] = match self.change {
            Change::Set(value) => {
                let [b, c] = value.selector.to_le_bytes();
                let [d, e] = value.offset.to_le_bytes();
                [0, value.class as u8, b, c, d, e]
            }
            Change::Nudge(delta) => {
                let [a, b, c, d] = delta.to_le_bytes();
                [1, a, b, c, d, 0]
            }
            Change::Flip(bit) => [2, bit, 0, 0, 0, 0],
        };
        [place, s0, s1, o0, o1, kind, a, b, c, d, e]
    }
}

impl fmt::Display for MemoryEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.place)?;
        match self.change {
            Change::Set(value) => write!(f, "={value}"),
            Change::Nudge(delta) => {
                let sign = if delta < 0 { '-' } else { '+' };
                write!(f, "{sign}={}", delta.unsigned_abs())
            }
            Change::Flip(bit) => write!(f, "~bit{bit}"),
        }
    }
}

/// The edits of one input, in the order in which they apply; none, if it is not synthetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEdits {
    edits: [Option<MemoryEdit>; MAX_MEMORY_EDITS],
}

impl MemoryEdits {
    /// Of an input that is not synthetic.
    pub const NONE: Self = Self {
        edits: [None; MAX_MEMORY_EDITS],
    };

    /// The first [`MAX_MEMORY_EDITS`] of `edits`.
    #[must_use]
    pub fn from_edits(edits: &[MemoryEdit]) -> Self {
        let mut all = Self::NONE;
        for (slot, edit) in all.edits.iter_mut().zip(edits) {
            *slot = Some(*edit);
        }
        all
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits[0].is_none()
    }

    /// The edits.
    pub fn iter(&self) -> impl Iterator<Item = &MemoryEdit> {
        self.edits.iter().flatten()
    }

    /// The edits that a synthetic input begins with, and its batch's bytes; `None` for any other input. Bytes past the end read as zero.
    #[must_use]
    pub fn decode(input: &[u8]) -> Option<(Self, &[u8])> {
        let (&header, rest) = input.split_first()?;
        if header != HEADER {
            return None;
        }
        let (&count, mut rest) = rest.split_first().unwrap_or((&1, &[]));
        let count = 1 + usize::from(count.wrapping_sub(1)) % MAX_MEMORY_EDITS;
        let mut edits = Self::NONE;
        for slot in edits.edits.iter_mut().take(count) {
            let mut bytes = [0; EDIT_BYTES];
            let used = rest.len().min(EDIT_BYTES);
            for (byte, given) in bytes.iter_mut().zip(rest) {
                *byte = *given;
            }
            rest = rest.get(used..).unwrap_or(&[]);
            *slot = Some(MemoryEdit::decode(&bytes));
        }
        Some((edits, rest))
    }

    /// What a synthetic input begins with; its batch's bytes follow. Nothing, if there are no edits. Allocates.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = self.iter().count() as u8;
        if count == 0 {
            return Vec::new();
        }
        let mut bytes = vec![HEADER, count];
        for edit in self.iter() {
            bytes.extend_from_slice(&edit.encode());
        }
        bytes
    }

    /// Edits at random: mostly one, near the top of the stack, mostly what a frame keeps there.
    pub fn generate(dice: &mut impl Dice, arch: Arch) -> Self {
        let mut all = Self::NONE;
        let count = 1 + dice.below(4).saturating_sub(2) as usize;
        for slot in all.edits.iter_mut().take(count) {
            *slot = Some(generate_one(dice, arch));
        }
        all
    }
}

/// Words that a frame keeps at and below the slot of its return address (where fp points to one below it), and one above.
const LINKS: [(u32, i16); 6] = [(6, 0), (6, -8), (3, -16), (3, -24), (2, -32), (2, 8)];

fn generate_one(dice: &mut impl Dice, arch: Arch) -> MemoryEdit {
    let (place, register) = if dice.chance(3, 4) {
        let offset = dice.weighted(&LINKS).unwrap_or(0);
        let register = if offset == 0 { arch.pc() } else { arch.fp() };
        let most = if dice.chance(3, 4) { 4 } else { 32 };
        let selector = dice.below(most);
        (
            Value::new(ValueClass::ReturnAddressSlot, selector as u16, offset),
            register,
        )
    } else {
        let most = if dice.chance(3, 4) { 16 } else { 256 };
        let selector = dice.below(most);
        (
            Value::new(ValueClass::StackSlot, selector as u16, 0),
            arch.fp(),
        )
    };
    let change = match dice.below(8) {
        0 => Change::Flip(dice.below(48) as u8),
        1 | 2 => Change::Nudge(8 * dice.around_zero(8)),
        3 => Change::Nudge(dice.around_zero(64)),
        _ => Change::Set(value_for(dice, arch, register)),
    };
    MemoryEdit::new(place, change)
}

impl fmt::Display for MemoryEdits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, edit) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            edit.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;
    use crate::landscape::LandscapeTable;

    #[test]
    fn generated_edits_survive_their_bytes_and_differ() {
        let mut texts = std::collections::BTreeSet::new();
        for seed in 0..2_000 {
            let edits = MemoryEdits::generate(&mut Rng::new(seed), Arch::X86_64);
            assert!(!edits.is_empty());
            let mut bytes = edits.to_bytes();
            assert!(bytes.len() <= MAX_MEMORY_BYTES);
            bytes.extend_from_slice(b"batch");
            assert_eq!(MemoryEdits::decode(&bytes), Some((edits, &b"batch"[..])));
            texts.insert(edits.to_string());
        }
        assert!(texts.len() > 1_500, "{}", texts.len());
    }

    #[test]
    fn any_bytes_decode_canonically_and_batches_are_left_alone() {
        assert_eq!(MemoryEdits::decode(&[]), None);
        assert_eq!(MemoryEdits::decode(&[0x11, 1, 2, 3]), None);
        for count in 0..=255_u8 {
            for length in 0..64 {
                let mut bytes = vec![HEADER, count];
                bytes.extend((0..length).map(|at: u8| at.wrapping_mul(count | 1)));
                let (edits, _) = MemoryEdits::decode(&bytes).unwrap();
                let again = edits.to_bytes();
                assert_eq!(MemoryEdits::decode(&again), Some((edits, &[][..])));
            }
        }
        assert!(MemoryEdits::decode(&[HEADER]).is_some());
    }

    #[test]
    fn edits_name_a_word_and_what_becomes_of_it() {
        let mut landscape = LandscapeTable::new();
        landscape.set_walked_stack(0x1000, &[1, 0xc0de, 3], |word| word == 0xc0de);
        let at = |class, selector, offset| Value::new(class, selector, offset);
        let set = Change::Set(at(ValueClass::Literal, 7, 0));
        let edit = MemoryEdit::new(at(ValueClass::ReturnAddressSlot, 0, -11), set);
        assert_eq!(edit.address(&landscape), Some(Address(0x1008 - 16)));
        assert_eq!(edit.apply(1, &landscape), Some(7));
        assert_eq!(edit.to_string(), "[return-address-slot[0]-16]=7");
        let flip = MemoryEdit::new(at(ValueClass::StackSlot, 2, 0), Change::Flip(67));
        assert_eq!(flip.address(&landscape), Some(Address(0x1010)));
        assert_eq!(flip.apply(0, &landscape), Some(8));
        assert_eq!(flip.to_string(), "[stack-slot[2]]~bit3");
        let nudge = MemoryEdit::new(at(ValueClass::Heap, 0, 0), Change::Nudge(-8));
        assert_eq!(nudge.to_string(), "[stack-slot[0]]-=8");
        assert_eq!(nudge.apply(8, &landscape), Some(0));
        let nothing = MemoryEdit::new(
            at(ValueClass::StackSlot, 0, 0),
            Change::Set(at(ValueClass::Heap, 0, 0)),
        );
        assert_eq!(nothing.apply(8, &landscape), None);
    }
}
