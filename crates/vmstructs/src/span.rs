//! A half-open range of addresses.

use std::fmt;

use walkfuzz_context::Address;

/// The addresses from `start` up to, but without, `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First address.
    pub start: Address,
    /// First address behind.
    pub end: Address,
}

impl Span {
    /// From `start` up to, but without, `end`; empty if `end` lies before `start`.
    #[must_use]
    pub const fn new(start: Address, end: Address) -> Self {
        let end = if end.0 < start.0 { start } else { end };
        Self { start, end }
    }

    /// `length` bytes from `start`, cut off at the end of the address space.
    #[must_use]
    pub const fn sized(start: Address, length: u64) -> Self {
        Self {
            start,
            end: Address(start.0.saturating_add(length)),
        }
    }

    /// Whether the address lies inside.
    #[inline]
    #[must_use]
    pub const fn contains(&self, address: Address) -> bool {
        self.start.0 <= address.0 && address.0 < self.end.0
    }

    /// Whether all of `other` lies inside.
    #[must_use]
    pub const fn covers(&self, other: &Span) -> bool {
        self.start.0 <= other.start.0 && other.end.0 <= self.end.0
    }

    /// Length in bytes.
    #[inline]
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether no address lies inside.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end.0 <= self.start.0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({}..{})", self.start, self.end)
    }
}
