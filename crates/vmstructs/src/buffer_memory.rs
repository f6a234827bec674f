//! Memory made of byte buffers: for tests, and for whatever has been copied out of a process.

use std::collections::BTreeMap;

use walkfuzz_context::Address;

use crate::memory::{Memory, Unreadable};

/// Ranges of bytes at addresses of one's choice.
///
/// Ranges may touch; reads across touching ranges work. A range put over another hides it byte by byte.
#[derive(Clone, Debug, Default)]
pub struct BufferMemory {
    ranges: BTreeMap<u64, Vec<u8>>,
}

impl BufferMemory {
    /// Nothing readable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes `bytes` readable at `at`.
    pub fn put(&mut self, at: Address, bytes: &[u8]) {
        let mut rest: Vec<(u64, u8)> = Vec::new();
        for (index, byte) in bytes.iter().enumerate() {
            let address = at.0.wrapping_add(index as u64);
            match self.byte_mut(address) {
                Some(old) => *old = *byte,
                None => rest.push((address, *byte)),
            }
        }
        for (address, byte) in rest {
            match self.ranges.range_mut(..=address).next_back() {
                Some((start, range)) if start.wrapping_add(range.len() as u64) == address => {
                    range.push(byte)
                }
                _ => {
                    self.ranges.insert(address, vec![byte]);
                }
            }
        }
    }

    /// Makes a 64-bit value readable at `at`.
    pub fn put_u64(&mut self, at: Address, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    /// Makes a 32-bit value readable at `at`.
    pub fn put_u32(&mut self, at: Address, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    /// Makes a terminated string readable at `at`.
    pub fn put_cstring(&mut self, at: Address, text: &str) {
        self.put(at, text.as_bytes());
        self.put(Address(at.0.wrapping_add(text.len() as u64)), &[0]);
    }

    fn byte_mut(&mut self, address: u64) -> Option<&mut u8> {
        let (start, range) = self.ranges.range_mut(..=address).next_back()?;
        range.get_mut(usize::try_from(address - start).ok()?)
    }

    /// The bytes from `address` to the end of their range.
    fn from(&self, address: u64) -> Option<&[u8]> {
        let (start, range) = self.ranges.range(..=address).next_back()?;
        range
            .get(usize::try_from(address - start).ok()?..)
            .filter(|bytes| !bytes.is_empty())
    }
}

impl Memory for BufferMemory {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let unreadable = Unreadable {
            address: at,
            length: into.len(),
        };
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let address = at.0.checked_add(filled as u64).ok_or(unreadable)?;
            let bytes = self.from(address).ok_or(unreadable)?;
            let length = bytes.len().min(rest.len());
            rest[..length].copy_from_slice(&bytes[..length]);
            filled += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_touch_overlap_and_end() {
        let mut memory = BufferMemory::new();
        memory.put(Address(10), &[1, 2, 3]);
        memory.put(Address(13), &[4]);
        memory.put(Address(12), &[9, 8, 7]);
        let mut bytes = [0; 5];
        memory.read(Address(10), &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 9, 8, 7]);
        assert!(memory.read(Address(11), &mut bytes).is_err());
        assert!(memory.read(Address(9), &mut bytes[..1]).is_err());
    }
}
