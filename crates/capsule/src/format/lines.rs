//! Lines: the 64 bytes that minimising keeps or drops, of which a page has 64.

use crate::capsule::PageBytes;

/// Bytes in a line: a cache line.
pub(crate) const LINE: usize = 64;

/// The lines of a page.
pub(crate) fn of(page: &PageBytes) -> impl Iterator<Item = &[u8]> {
    page.chunks_exact(LINE)
}

/// The lines of a page.
pub(crate) fn of_mut(page: &mut PageBytes) -> impl Iterator<Item = &mut [u8]> {
    page.chunks_exact_mut(LINE)
}
