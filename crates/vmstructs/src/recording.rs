//! Memory that remembers which words were read of it: what a reader needs, found by letting it read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use walkfuzz_context::Address;

use crate::memory::{Memory, Unreadable};

const WORD: u64 = 8;

/// Reads through another memory. Allocates for each new word: not for signal handlers.
#[derive(Debug)]
pub struct RecordingMemory<M> {
    memory: M,
    words: RefCell<BTreeMap<u64, u64>>,
}

impl<M: Memory> RecordingMemory<M> {
    /// Nothing has been read yet.
    #[must_use]
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            words: RefCell::default(),
        }
    }

    /// The aligned words of which some byte was read, by address: as they were at the first time.
    #[must_use]
    pub fn words(&self) -> BTreeMap<u64, u64> {
        self.words.borrow().clone()
    }
}

impl<M: Memory> Memory for RecordingMemory<M> {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.memory.read(at, into)?;
        let end = at.0.saturating_add(into.len() as u64);
        let mut words = self.words.borrow_mut();
        for word in (at.0 & !(WORD - 1)..end).step_by(WORD as usize) {
            if let Entry::Vacant(new) = words.entry(word) {
                // On the page of a byte that could be read.
                new.insert(self.memory.read_u64(Address(word))?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferMemory;

    #[test]
    fn words_that_were_read_are_kept_whole() {
        let mut memory = BufferMemory::new();
        for word in 0..8 {
            memory.put_u64(Address(0x1000 + word * 8), 0x1111 * (word + 1));
        }
        let recording = RecordingMemory::new(&memory);
        assert_eq!(recording.read_u8(Address(0x1003)), Ok(0));
        assert_eq!(recording.read_u16(Address(0x1017)), Ok(0x4400));
        assert!(recording.read_u64(Address(0x103c)).is_err());
        let words: Vec<(u64, u64)> = recording.words().into_iter().collect();
        assert_eq!(
            words,
            [(0x1000, 0x1111), (0x1010, 0x3333), (0x1018, 0x4444)]
        );
    }
}
