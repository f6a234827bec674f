//! The landscape: what the value classes resolve to in this process, now.
//!
//! The engine fills a [`LandscapeTable`] from the JVM's structures every so many parks, and the walked stack's own classes
//! before every batch. What it does not do: notice that an address has gone stale. It counts how often each was used, and whoever fills it anew
//! looks which of those have gone ([`LandscapeTable::take_uses`]).
//!
//! Signal-safe: [`Landscape::resolve`], [`LandscapeTable::set_walked_stack`] and [`LandscapeTable::note`] allocate nothing.
//! [`LandscapeTable::set`] may allocate.

use std::cell::Cell;

use crate::value::{self, ValueClass};

/// Turns value classes into numbers.
///
/// Contract: O(1), allocates nothing, takes no lock, and gives the same answer until the landscape is refreshed.
pub trait Landscape {
    /// The `selector`-th value of `class`, modulo how many there are; `None` if there is none.
    fn resolve(&self, class: ValueClass, selector: u16) -> Option<u64>;
}

impl<L: Landscape + ?Sized> Landscape for &L {
    #[inline]
    fn resolve(&self, class: ValueClass, selector: u16) -> Option<u64> {
        (**self).resolve(class, selector)
    }
}

/// The most words of the walked stack that [`LandscapeTable::set_walked_stack`] takes.
pub const WALKED_STACK_WORDS: usize = 256;

/// How many values [`LandscapeTable::note`] keeps of a class before it overwrites the oldest.
pub const NOTED_VALUES: usize = 1024;

/// A selector reaches no further than this.
const MAX_VALUES: usize = 1 << 16;

/// A landscape of tables, one per class.
#[derive(Clone, Debug)]
pub struct LandscapeTable {
    values: [Vec<u64>; ValueClass::COUNT],
    /// Per class, where [`note`](Self::note) writes next once the class is full.
    oldest: [usize; ValueClass::COUNT],
    /// Per class that [`set`](Self::set) filled, how often each value was resolved since. Empty for the others: they are of the moment.
    uses: [Vec<Cell<u32>>; ValueClass::COUNT],
}

impl Default for LandscapeTable {
    fn default() -> Self {
        Self::new()
    }
}

impl LandscapeTable {
    /// A landscape in which only the computed classes resolve. Allocates all that the signal-safe functions need later.
    #[must_use]
    pub fn new() -> Self {
        let capacity = |class| match class {
            ValueClass::StackWord
            | ValueClass::StackSlot
            | ValueClass::ReturnAddress
            | ValueClass::ReturnAddressSlot
            | ValueClass::CallerFp => WALKED_STACK_WORDS,
            ValueClass::NaturalPc | ValueClass::NaturalSp | ValueClass::NaturalFp => NOTED_VALUES,
            _ => 0,
        };
        Self {
            values: ValueClass::ALL.map(|class| Vec::with_capacity(capacity(class))),
            oldest: [0; ValueClass::COUNT],
            uses: [const { Vec::new() }; ValueClass::COUNT],
        }
    }

    /// The values of a class that resolve from a table.
    #[must_use]
    pub fn values(&self, class: ValueClass) -> &[u64] {
        &self.values[class as usize]
    }

    /// Replaces a class's values; those past what a selector can reach are dropped. May allocate.
    ///
    /// Setting a [computed](ValueClass::is_computed) class has no effect on what it resolves to.
    pub fn set(&mut self, class: ValueClass, mut values: Vec<u64>) {
        values.truncate(MAX_VALUES);
        let table = &mut self.values[class as usize];
        if values.capacity() < table.capacity() {
            // The signal-safe functions rely on the room that `new` made.
            table.clear();
            table.extend_from_slice(&values);
        } else {
            *table = values;
        }
        self.oldest[class as usize] = 0;
        let uses = &mut self.uses[class as usize];
        uses.clear();
        uses.resize(self.values[class as usize].len(), Cell::new(0));
    }

    /// Calls `visit` with each value of the classes that [`set`](Self::set) filled which was resolved since, and how often; forgets it.
    pub fn take_uses(&mut self, mut visit: impl FnMut(ValueClass, u64, u32)) {
        for class in ValueClass::ALL {
            let values = &self.values[class as usize];
            for (value, uses) in values.iter().zip(&self.uses[class as usize]) {
                match uses.take() {
                    0 => {}
                    uses => visit(class, *value, uses),
                }
            }
        }
    }

    /// Adds a value to a class, over the oldest one if the class is full. Allocates nothing: a class holds what
    /// [`new`](Self::new) or [`set`](Self::set) made room for, [`NOTED_VALUES`] for the natural classes.
    pub fn note(&mut self, class: ValueClass, value: u64) {
        let table = &mut self.values[class as usize];
        if table.len() < table.capacity().min(NOTED_VALUES) {
            table.push(value);
            return;
        }
        let oldest = &mut self.oldest[class as usize];
        if let Some(slot) = table.get_mut(*oldest) {
            *slot = value;
        }
        *oldest = if *oldest + 1 < table.len() {
            *oldest + 1
        } else {
            0
        };
    }

    /// Fills the five classes of the walked stack from the words above `sp`, at most [`WALKED_STACK_WORDS`] of them.
    /// `is_code` says whether a word is a pc in the code cache. Allocates nothing.
    pub fn set_walked_stack(&mut self, sp: u64, words: &[u64], is_code: impl Fn(u64) -> bool) {
        for class in [
            ValueClass::StackWord,
            ValueClass::StackSlot,
            ValueClass::ReturnAddress,
            ValueClass::ReturnAddressSlot,
            ValueClass::CallerFp,
        ] {
            self.values[class as usize].clear();
        }
        let mut slot = sp;
        let mut below = 0;
        for &word in words.iter().take(WALKED_STACK_WORDS) {
            self.values[ValueClass::StackWord as usize].push(word);
            self.values[ValueClass::StackSlot as usize].push(slot);
            if is_code(word) {
                self.values[ValueClass::ReturnAddress as usize].push(word);
                self.values[ValueClass::ReturnAddressSlot as usize].push(slot);
                self.values[ValueClass::CallerFp as usize].push(below);
            }
            below = word;
            slot = slot.wrapping_add(8);
        }
    }
}

impl Landscape for LandscapeTable {
    #[inline]
    fn resolve(&self, class: ValueClass, selector: u16) -> Option<u64> {
        if class.is_computed() {
            return value::computed(class, selector);
        }
        let table = &self.values[class as usize];
        let selector = usize::from(selector);
        // Most selectors are small: spare them the division.
        let index = if selector < table.len() {
            selector
        } else {
            selector.checked_rem(table.len())?
        };
        if let Some(uses) = self.uses[class as usize].get(index) {
            uses.set(uses.get().wrapping_add(1));
        }
        table.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_wrap_and_empty_classes_do_not_resolve() {
        let mut landscape = LandscapeTable::new();
        assert_eq!(landscape.resolve(ValueClass::Heap, 0), None);
        assert_eq!(landscape.resolve(ValueClass::Heap, 9), None);
        landscape.set(ValueClass::Heap, vec![10, 20, 30]);
        for (selector, value) in [(0, 10), (2, 30), (3, 10), (65535, 10)] {
            assert_eq!(landscape.resolve(ValueClass::Heap, selector), Some(value));
        }
    }

    #[test]
    fn the_walked_stack_fills_four_classes_in_place() {
        let mut landscape = LandscapeTable::new();
        landscape.set(ValueClass::StackWord, vec![1]);
        let room: Vec<_> = landscape.values.iter().map(Vec::capacity).collect();
        let words: Vec<u64> = (0..300).collect();
        landscape.set_walked_stack(0x1000, &words, |word| word % 5 == 3);
        assert_eq!(
            landscape.values(ValueClass::StackWord).len(),
            WALKED_STACK_WORDS
        );
        assert_eq!(landscape.resolve(ValueClass::StackWord, 7), Some(7));
        assert_eq!(
            landscape.resolve(ValueClass::StackSlot, 7),
            Some(0x1000 + 56)
        );
        assert_eq!(landscape.resolve(ValueClass::ReturnAddress, 1), Some(8));
        assert_eq!(
            landscape.resolve(ValueClass::ReturnAddressSlot, 1),
            Some(0x1000 + 64)
        );
        landscape.set_walked_stack(0x2000, &[3], |_| true);
        assert_eq!(landscape.values(ValueClass::StackWord), [3]);
        let room_after: Vec<_> = landscape.values.iter().map(Vec::capacity).collect();
        assert_eq!(room, room_after, "filling must not allocate");
    }

    #[test]
    fn uses_are_counted_per_value_and_forgotten_when_taken() {
        let mut landscape = LandscapeTable::new();
        let taken = |landscape: &mut LandscapeTable| {
            let mut taken = Vec::new();
            landscape.take_uses(|class, value, uses| taken.push((class, value, uses)));
            taken
        };
        landscape.set(ValueClass::Heap, vec![10, 20, 30]);
        landscape.set(ValueClass::FreeCode, vec![7]);
        landscape.set_walked_stack(0x1000, &[1, 2], |_| true);
        landscape.note(ValueClass::NaturalPc, 5);
        for selector in [0, 2, 3, 3] {
            landscape.resolve(ValueClass::Heap, selector);
        }
        landscape.resolve(ValueClass::StackWord, 0);
        landscape.resolve(ValueClass::NaturalPc, 0);
        landscape.resolve(ValueClass::Unmapped, 0);
        assert_eq!(
            taken(&mut landscape),
            [(ValueClass::Heap, 10, 3), (ValueClass::Heap, 30, 1)]
        );
        assert_eq!(taken(&mut landscape), []);
        landscape.resolve(ValueClass::Heap, 0);
        landscape.set(ValueClass::Heap, vec![40]);
        assert_eq!(taken(&mut landscape), [], "a new table is unused");
    }

    #[test]
    fn noting_overwrites_the_oldest_and_never_grows() {
        let mut landscape = LandscapeTable::new();
        for value in 0..NOTED_VALUES as u64 + 2 {
            landscape.note(ValueClass::NaturalPc, value);
        }
        let values = landscape.values(ValueClass::NaturalPc);
        assert_eq!(values.len(), NOTED_VALUES);
        assert_eq!(values[..3], [1024, 1025, 2]);
        landscape.note(ValueClass::Heap, 1);
        assert_eq!(
            landscape.values(ValueClass::Heap),
            [],
            "nobody made room for it"
        );
    }
}
