//! How big a capsule may be. Real ones have some hundred pages.

/// Bytes in a page.
pub const PAGE: u64 = 4096;
/// Pages in a capsule.
pub const PAGES: u64 = 32 << 10;
/// Bytes that a file may unpack to: the pages twice, and notes.
pub const UNPACKED: u64 = 2 * PAGES * PAGE + (16 << 20);
/// Ranges in the layout.
pub const RANGES: u64 = 200_000;
/// Bytes of the note of facts.
pub const FACTS: u64 = 1 << 20;
/// End of user space. (Five-level page tables are given to those who ask; JVMs do not.)
pub const USER_SPACE: u64 = 0x7fff_ffff_f000;
/// Begin of what can be mapped: below lies what the kernel keeps free (`vm.mmap_min_addr`).
pub const LOWEST: u64 = 0x1_0000;
/// Pages that are the replayer's and the debugger's.
pub const STUB_PAGES: u64 = 2;
/// Depth of walks.
pub const DEPTH: i32 = 1 << 16;
/// Words of memory that a second opinion read.
pub const OPINION_WORDS: u64 = 1 << 20;
/// SafeFetch loads.
pub const SAFEFETCH: u64 = 64;
