//! Line numbers of methods.
//!
//! Contract: signal-safe.

use walkfuzz_context::Address;
use walkfuzz_reference::{CheckedMemory, Encoding};
use walkfuzz_vmstructs::Memory as _;

use super::tables::{MethodAt, MethodTables};
use crate::abi::iterator::LineNumberEntry;

/// Bytes that are read at once, and the most that an entry has.
const CHUNK: usize = 64;
const ENTRY: usize = 11;
/// The byte that says that two whole numbers follow.
const ESCAPE: u8 = 0xff;

/// The entries of a method's table, in its order.
pub(super) struct Lines {
    at: Address,
    bytes: [u8; CHUNK],
    /// Of the bytes, which are still to be decoded.
    next: usize,
    count: usize,
    encoding: Encoding,
    entry: LineNumberEntry,
    /// Bytecodes of the method: no entry begins behind them, and there are no more of them.
    code_size: u16,
    left: u32,
}

impl Lines {
    pub(super) fn of(tables: &MethodTables, method: &MethodAt) -> Option<Self> {
        let (at, code_size) = tables.lines(method)?;
        Some(Self {
            at,
            bytes: [0; CHUNK],
            next: 0,
            count: 0,
            encoding: tables.encoding,
            entry: LineNumberEntry::default(),
            code_size,
            // Compilers write few entries for one bytecode; what has more is no table.
            left: 4 * (u32::from(code_size) + 1),
        })
    }

    /// Reads on; at the end of what can be read there may be fewer bytes.
    fn refill(&mut self) {
        self.at = Address(self.at.0.wrapping_add(self.next as u64));
        (self.next, self.count) = (0, 0);
        // To the end of the page at most, and then beyond it: the table may end where readable memory ends.
        let page = (4096 - self.at.0 % 4096) as usize;
        for until in [CHUNK.min(page), CHUNK] {
            let from = Address(self.at.0.wrapping_add(self.count as u64));
            let Some(into) = self.bytes.get_mut(self.count..until) else {
                return;
            };
            if CheckedMemory.read(from, into).is_err() {
                return;
            }
            self.count = until;
        }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.next..self.count).unwrap_or_default()
    }

    fn signed(&mut self) -> Option<i32> {
        let (value, taken) = self.encoding.decode(self.rest())?;
        self.next += taken;
        // The sign is the lowest bit (code/compressedStream.hpp, `decode_sign`).
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }
}

impl Iterator for Lines {
    type Item = LineNumberEntry;

    fn next(&mut self) -> Option<LineNumberEntry> {
        self.left = self.left.checked_sub(1)?;
        if self.count - self.next < ENTRY {
            self.refill();
        }
        let first = *self.rest().first()?;
        self.next += 1;
        let (bci, line) = match first {
            0 => return None,
            ESCAPE => (self.signed()?, self.signed()?),
            // Five bits and three (code/compressedStream.hpp, `CompressedLineNumberReadStream`).
            both => (i32::from(both >> 3), i32::from(both & 7)),
        };
        self.entry.start_bci = self.entry.start_bci.wrapping_add(bci);
        self.entry.line_number = self.entry.line_number.wrapping_add(line);
        let is_inside = (0..i32::from(self.code_size)).contains(&self.entry.start_bci);
        is_inside.then_some(self.entry)
    }
}

/// The line that `bci` belongs to: that of the entry with the highest begin that is not behind it.
pub(super) fn line_of(lines: Lines, bci: i32) -> Option<i32> {
    let mut best: Option<LineNumberEntry> = None;
    for entry in lines {
        if entry.start_bci <= bci && best.is_none_or(|best| entry.start_bci >= best.start_bci) {
            best = Some(entry);
        }
    }
    best.map(|best| best.line_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &'static [u8], code_size: u16, feature: u32) -> Lines {
        Lines {
            at: Address(bytes.as_ptr() as u64),
            bytes: [0; CHUNK],
            next: 0,
            count: 0,
            encoding: Encoding::of(feature),
            entry: LineNumberEntry::default(),
            code_size,
            left: 100,
        }
    }

    // bci +0, line +100 in whole numbers; bci +5, line +1; bci +2, line -3 in whole numbers; the end.
    static OLD: [u8; 128] = table(&[0xff, 0, 0xc8, 0, 5 << 3 | 1, 0xff, 4, 5, 0]);

    const fn table(bytes: &[u8]) -> [u8; 128] {
        let mut table = [0; 128];
        let mut index = 0;
        while index < bytes.len() {
            table[index] = bytes[index];
            index += 1;
        }
        table
    }

    #[test]
    fn tables_are_decoded() {
        let entry = |start_bci, line_number| LineNumberEntry {
            start_bci,
            line_number,
        };
        let all: Vec<_> = lines(&OLD, 20, 17).collect();
        assert_eq!(all, [entry(0, 100), entry(5, 101), entry(7, 98)]);
        let line = |bci| line_of(lines(&OLD, 20, 17), bci);
        assert_eq!(
            (line(0), line(4), line(5)),
            (Some(100), Some(100), Some(101))
        );
        assert_eq!((line(7), line(19), line(-1)), (Some(98), Some(98), None));
        // What lies behind the method's code ends the table.
        assert_eq!(lines(&OLD, 6, 17).count(), 2);
    }
}
