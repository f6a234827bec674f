//! A second opinion in a capsule: what another walker needs of the moment, which reads memory and is no code of the walked process.
//!
//! Its words stand apart from the pages. Those hold what the walk's outcome needs and zeros elsewhere; these are as they were, and no walk of
//! the puppet sees them.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use walkfuzz_context::{Address, Pc};
use walkfuzz_vmstructs::{Memory, Unreadable};

use crate::capsule::Layout;
use crate::format::hexadecimal;

/// Bytes of a word.
const WORD: u64 = 8;

/// Who was asked, of what, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpinionFacts {
    /// The walker's name, `reference`.
    pub walker: String,
    /// The `JavaThread` that was walked.
    #[serde(with = "hexadecimal::address")]
    pub thread: Address,
    /// Its frames, or an error code below 1.
    pub frames: i32,
    /// Of the frames, as in [`FramesOutcome`](crate::FramesOutcome).
    #[serde(with = "hexadecimal")]
    pub hash: u64,
    /// Symbols of libjvm that it asked for and that there were.
    pub symbols: Vec<KnownSymbol>,
}

/// A symbol, and where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownSymbol {
    /// As the symbol table has it.
    pub name: String,
    /// Its address.
    #[serde(with = "hexadecimal::pc")]
    pub address: Pc,
}

/// A second opinion, and the words of memory that it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// What there is to say.
    pub facts: OpinionFacts,
    /// Aligned words by address.
    pub words: BTreeMap<u64, u64>,
}

impl Opinion {
    /// Where a symbol of libjvm was; `None` if there was none, or nobody asked.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let mut symbols = self.facts.symbols.iter();
        symbols
            .find(|symbol| symbol.name == name)
            .map(|symbol| symbol.address.0)
    }
}

/// The words of an opinion as memory. What the process had and the capsule has not is remembered: nobody can say what a reader would have
/// made of it.
#[derive(Debug)]
pub struct OpinionMemory<'a> {
    words: &'a BTreeMap<u64, u64>,
    layout: &'a Layout,
    missing: Cell<Option<Address>>,
}

impl<'a> OpinionMemory<'a> {
    /// `layout` is the capsule's.
    #[must_use]
    pub fn new(opinion: &'a Opinion, layout: &'a Layout) -> Self {
        Self {
            words: &opinion.words,
            layout,
            missing: Cell::new(None),
        }
    }

    /// The first address since the last time that the process had and that is not here.
    pub fn take_missing(&self) -> Option<Address> {
        self.missing.take()
    }

    fn word(&self, address: u64) -> Option<u64> {
        let known = self.words.get(&address).copied();
        let was_there = || {
            let protection = self.layout.find(Address(address));
            protection.is_some_and(crate::Protection::read)
        };
        if known.is_none() && self.missing.get().is_none() && was_there() {
            self.missing.set(Some(Address(address)));
        }
        known
    }
}

impl Memory for OpinionMemory<'_> {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let unreadable = Unreadable {
            address: at,
            length: into.len(),
        };
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let address = at.0.checked_add(filled as u64).ok_or(unreadable)?;
            let offset = address % WORD;
            let word = self.word(address - offset).ok_or(unreadable)?;
            let bytes = word.to_le_bytes();
            let bytes = bytes.get(offset as usize..).unwrap_or_default();
            let length = bytes.len().min(rest.len());
            for (target, byte) in rest.iter_mut().zip(bytes) {
                *target = *byte;
            }
            filled += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capsule::Protection;

    #[test]
    fn what_is_not_here_is_told_from_what_never_was() {
        let mut layout = Layout::default();
        layout.push(0x1000..0x3000, Protection::new(true, true, false));
        layout.push(0x5000..0x6000, Protection::NONE);
        let opinion = Opinion {
            facts: OpinionFacts {
                walker: "reference".to_owned(),
                thread: Address(0x1000),
                frames: 0,
                hash: 0,
                symbols: Vec::new(),
            },
            words: [(0x1ff8, 0x0807_0605_0403_0201), (0x2000, 0x0c0b_0a09)].into(),
        };
        let memory = OpinionMemory::new(&opinion, &layout);
        assert_eq!(memory.read_u32(Address(0x1ffe)), Ok(0x0a09_0807));
        assert_eq!(memory.take_missing(), None);
        for address in [0, 0x4000, 0x5000, u64::MAX - 3] {
            assert!(memory.read_u64(Address(address)).is_err());
        }
        assert_eq!(memory.take_missing(), None);
        assert!(memory.read_u64(Address(0x2004)).is_err());
        assert_eq!(memory.take_missing(), Some(Address(0x2008)));
        assert_eq!(memory.take_missing(), None);
    }
}
