//! Decoding fields out of bytes that were read in one go.

use walkfuzz_context::Address;

use crate::tables::{Field, MissingEntry, Tables};

/// A field inside an object: where, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    offset: usize,
    width: usize,
}

impl Slot {
    pub(crate) const fn new(offset: usize, width: usize) -> Self {
        Self { offset, width }
    }

    /// The width follows from the field's C++ type, which changes between versions (`_header_size` was an int and
    /// became a u2, `_comp_level` became an int8_t enum).
    pub(crate) fn of(tables: &Tables, field: &Field) -> Self {
        let width = match field
            .type_name
            .trim_start_matches("volatile ")
            .trim_start_matches("const ")
        {
            "u1" | "jbyte" | "signed char" | "bool" | "uint8_t" => 1,
            "u2" | "int16_t" | "uint16_t" => 2,
            "int" | "jint" | "uint" | "uint32_t" | "u4" | "int32_t" => 4,
            other => match tables.type_size(other) {
                Some(size @ (1 | 2 | 4)) => size as usize,
                _ => 8,
            },
        };
        Self {
            offset: usize::try_from(field.offset).unwrap_or(usize::MAX),
            width,
        }
    }

    pub(crate) fn find(tables: &Tables, type_name: &str, name: &str) -> Option<Self> {
        tables
            .field(type_name, name)
            .map(|field| Self::of(tables, field))
    }

    pub(crate) fn require(
        tables: &Tables,
        type_name: &str,
        name: &str,
    ) -> Result<Self, MissingEntry> {
        Ok(Self::of(tables, tables.require(type_name, name)?))
    }

    pub(crate) fn require_any(
        tables: &Tables,
        candidates: &[(&str, &str)],
    ) -> Result<Self, MissingEntry> {
        Ok(Self::of(tables, tables.require_any(candidates)?))
    }

    /// Where the field is, from the object's begin.
    pub(crate) const fn offset(self) -> u64 {
        self.offset as u64
    }

    /// First byte behind the field.
    pub(crate) const fn end(self) -> usize {
        self.offset.saturating_add(self.width)
    }
}

/// Bytes of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl Cursor<'_> {
    /// The field's value, zero-extended; 0 if it lies behind the bytes.
    #[inline(always)] // A load and a mask; a walk reads dozens of fields.
    pub(crate) fn unsigned(self, slot: Slot) -> u64 {
        let from = self.0.get(slot.offset..).unwrap_or_default();
        if let Some(word) = from.first_chunk()
            && (1..=8).contains(&slot.width)
        {
            // One load, and no copy of a length that only the running program knows.
            return u64::from_le_bytes(*word) & (u64::MAX >> (64 - 8 * slot.width));
        }
        let mut bytes = [0; 8];
        if let (Some(from), Some(into)) = (
            self.0.get(slot.offset..slot.end()),
            bytes.get_mut(..slot.width),
        ) {
            into.copy_from_slice(from);
        }
        u64::from_le_bytes(bytes)
    }

    /// The field's value, sign-extended.
    #[inline]
    pub(crate) fn signed(self, slot: Slot) -> i64 {
        let shift = 64_u32.saturating_sub(8 * slot.width as u32).min(63);
        (self.unsigned(slot) << shift).cast_signed() >> shift
    }

    /// The field as an address.
    #[inline]
    pub(crate) fn pointer(self, slot: Slot) -> Address {
        Address(self.unsigned(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_and_signs() {
        let bytes = [0xff, 0xff, 0x01, 0x80, 0, 0, 0, 0, 0x80];
        let cursor = Cursor(&bytes);
        assert_eq!(cursor.signed(Slot::new(0, 2)), -1);
        assert_eq!(cursor.unsigned(Slot::new(0, 2)), 0xffff);
        assert_eq!(cursor.signed(Slot::new(8, 1)), -128);
        assert_eq!(cursor.pointer(Slot::new(0, 8)), Address(0x8001_ffff));
        assert_eq!(cursor.unsigned(Slot::new(6, 4)), 0, "behind the end");
        assert_eq!(cursor.unsigned(Slot::new(usize::MAX, 4)), 0);
    }
}
