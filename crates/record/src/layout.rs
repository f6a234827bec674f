//! The mapped file's layout, one definition for the writer (atomics) and the reader (plain words).
//!
//! A file is a `FileHeader`, a `LiveHeader` and the lanes. Everything behind the header is 64-bit words: `W` is `AtomicU64`
//! in the live mapping and `u64` in what is read back. docs/record-schema.md describes the same for readers in other languages.
//!
//! Contract: plain old data. Not here: when which word is written (`lane`) and what it means (`reader`).

use bytemuck::{Pod, Zeroable};

use crate::buckets::{DEPTH_BUCKETS, LATENCY_BUCKETS};

/// The first eight bytes of a record. Read as a word it also tells the byte order.
pub const MAGIC: [u8; 8] = *b"WALKREC1";
/// Changes whenever a field moves or changes its meaning.
pub const LAYOUT_VERSION: u32 = 2;
/// Bytes before the first lane.
pub const HEADER_BYTES: usize = 4096;
/// Where the mutable part of the header begins.
pub const LIVE_OFFSET: usize = 2048;
/// Walkers (or modes of walkers) that one process can record.
pub const MAX_WALKERS: usize = 8;
/// More lanes than any process has threads worth sampling.
pub const MAX_LANES: u32 = 1024;
/// Bytes of an input that are kept.
pub const INPUT_BYTES: usize = 4096;
/// Walks that the ring of a lane remembers.
pub const RECENT_WALKS: usize = 64;
/// Register words of a walk, for the architecture with most of them.
pub const REGISTER_WORDS: usize = walkfuzz_context::MAX_REGISTERS;
/// Words of one lane's counters.
pub const COUNTERS: usize = 32;
/// Words of one code table: see `code_slot`.
pub const CODE_SLOTS: usize = 40;
/// Tallies of one lane: each walker's untouched walks, then its perturbed ones.
pub const TALLIES: usize = MAX_WALKERS * 2;
/// Places of faults that a lane counts by themselves.
pub const FAULT_PLACES: usize = 16;

/// One walker of the header's table.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct WalkerEntry {
    /// UTF-8, zero-padded; empty means that the slot is free.
    pub(crate) name: [u8; 32],
    /// UTF-8, zero-padded.
    pub(crate) version: [u8; 24],
    /// [`crate::codes::Generation`] as a number.
    pub(crate) generation: u64,
}

/// What is written once, before the file is mapped.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FileHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// [`walkfuzz_context::Arch`] as a number.
    pub(crate) arch: u32,
    pub(crate) header_bytes: u64,
    pub(crate) lane_bytes: u64,
    pub(crate) lane_count: u64,
    pub(crate) pid: u64,
    /// Nanoseconds since the Unix epoch.
    pub(crate) started: u64,
    /// Ticks per second of the latency histograms.
    pub(crate) tick_hz: u64,
    /// libjvm's build id in hex, zero-padded.
    pub(crate) jvm_build_id: [u8; 64],
    /// The JVM's version as it names itself, zero-padded.
    pub(crate) jvm_version: [u8; 64],
    pub(crate) walkers: [WalkerEntry; MAX_WALKERS],
    /// [`checksum`] of all bytes before it.
    pub(crate) checksum: u64,
}

impl FileHeader {
    pub(crate) fn computed_checksum(&self) -> u64 {
        let bytes = bytemuck::bytes_of(self);
        let covered = bytes.len() - size_of::<u64>();
        checksum(bytes.get(..covered).unwrap_or_default())
    }
}

/// The part of the header that changes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LiveHeader<W> {
    /// [`STATE_OPEN`] or [`STATE_CLOSED`].
    pub(crate) state: W,
    /// Nanoseconds since the Unix epoch when the process last said that it lives.
    pub(crate) alive: W,
    /// Nanoseconds since the Unix epoch of an orderly end; 0 without one.
    pub(crate) ended: W,
    /// Recoveries after which the process no longer counts as sane; 0 while it does.
    pub(crate) tainted_after: W,
}

pub(crate) const STATE_OPEN: u64 = 1;
pub(crate) const STATE_CLOSED: u64 = 2;

/// Who writes a lane; a cache line of its own, because others read it while they look for a free lane.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Owner<W> {
    /// 0: free. Otherwise the owner's number (a thread id), plus one.
    pub(crate) holder: W,
    /// How often the lane was claimed.
    pub(crate) claims: W,
    pub(crate) spare: [W; 6],
}

/// The walk that is open now, or was when the process died.
///
/// `begun` is raised first, then the data are written, then `sequence` becomes odd; at the end it becomes even. So an odd
/// `sequence` with `begun == (sequence + 1) / 2` is an open walk with good data, and an even one with `begun > sequence / 2` is a
/// writer that died while it wrote the data.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct InFlight<W> {
    pub(crate) begun: W,
    pub(crate) sequence: W,
    /// Walker, index in the batch, blob kind, perturbed: see [`crate::lane`].
    pub(crate) meta: W,
    pub(crate) spare: [W; 5],
    /// What the walker gets.
    pub(crate) registers: [W; REGISTER_WORDS],
    /// The sample that `registers` were made from.
    pub(crate) untouched: [W; REGISTER_WORDS],
    pub(crate) pad: [W; 6],
}

/// The last fault that the guard recovered from.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LastFault<W> {
    /// The walk's number (`begun`); 0: no fault yet.
    pub(crate) walk: W,
    /// Signal in the upper half, `si_code` in the lower.
    pub(crate) signal_code: W,
    pub(crate) pc: W,
    pub(crate) address: W,
    pub(crate) spare: [W; 4],
}

/// Faults at one place, from which the guard recovered.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct FaultPlace<W> {
    /// 0: free. Written last.
    pub(crate) pc: W,
    /// Of the first: signal in the upper half, `si_code` in the lower.
    pub(crate) signal_code: W,
    pub(crate) untouched: W,
    pub(crate) perturbed: W,
}

/// One of the last walks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RecentWalk<W> {
    pub(crate) pc: W,
    pub(crate) sp: W,
    pub(crate) fp: W,
    /// As [`InFlight::meta`], with the outcome once there is one.
    pub(crate) meta: W,
}

/// The input that the walks come from; `begun != written` is a writer that died while it copied.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Input<W> {
    pub(crate) begun: W,
    pub(crate) written: W,
    /// Bytes of the whole input, also of what was not kept.
    pub(crate) length: W,
    /// [`checksum`] of the kept bytes.
    pub(crate) hash: W,
    pub(crate) bytes: [W; INPUT_BYTES / 8],
}

/// Codes, depth and latency of one walker's untouched or perturbed walks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Tally<W> {
    pub(crate) codes: [W; CODE_SLOTS],
    pub(crate) depth: [W; DEPTH_BUCKETS],
    pub(crate) latency: [W; LATENCY_BUCKETS],
}

/// Everything that one writer writes. What matters most for a dead process comes first.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LaneBlock<W> {
    pub(crate) owner: Owner<W>,
    pub(crate) in_flight: InFlight<W>,
    pub(crate) last_fault: LastFault<W>,
    pub(crate) counters: [W; COUNTERS],
    pub(crate) recent: [RecentWalk<W>; RECENT_WALKS],
    pub(crate) input: Input<W>,
    pub(crate) spare: [W; 4],
    pub(crate) tallies: [Tally<W>; TALLIES],
    pub(crate) faults: [FaultPlace<W>; FAULT_PLACES],
    pub(crate) tail: [W; 8],
}

/// Bytes of one lane.
pub const LANE_BYTES: usize = size_of::<LaneBlock<u64>>();

const _: () = {
    assert!(size_of::<FileHeader>() <= LIVE_OFFSET);
    assert!(LIVE_OFFSET + size_of::<LiveHeader<u64>>() <= HEADER_BYTES);
    assert!(LANE_BYTES.is_multiple_of(64), "lanes share no cache line");
    assert!(size_of::<LaneBlock<std::sync::atomic::AtomicU64>>() == LANE_BYTES);
};

/// Bytes of a file with so many lanes.
#[must_use]
pub const fn file_bytes(lanes: u32) -> u64 {
    HEADER_BYTES as u64 + lanes as u64 * LANE_BYTES as u64
}

/// Slot of [`Tally::codes`] for walks that gave frames.
pub(crate) const SLOT_FRAMES: usize = 0;
/// Slot of code 0; code -n is n further, down to -32.
pub(crate) const SLOT_CODE_0: usize = 1;
/// Slot of all codes below -32.
pub(crate) const SLOT_OTHER_CODE: usize = 34;
pub(crate) const SLOT_FAULT: usize = 35;
pub(crate) const SLOT_HANG: usize = 36;
pub(crate) const SLOT_WRONG_FRAMES: usize = 37;
pub(crate) const SLOT_BREACH: usize = 38;

/// The slot of a code in [`Tally::codes`].
#[inline]
#[must_use]
pub(crate) const fn code_slot(code: i32) -> usize {
    if code > 0 || code < -32 {
        SLOT_OTHER_CODE
    } else {
        SLOT_CODE_0 + code.unsigned_abs() as usize
    }
}

const HASH_SEED: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of [`checksum`].
#[inline]
#[must_use]
pub(crate) const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(HASH_FACTOR).rotate_left(29)
}

/// A hash of bytes, eight at a time, little-endian, the last word padded with zeros; the length goes in first.
/// It recognises torn and cut-off data and is no defence against anybody. Signal-safe.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = hash_start(bytes.len());
    for chunk in bytes.chunks(8) {
        hash = mix(hash, little_endian(chunk));
    }
    hash
}

/// The state of [`checksum`] before the first word.
#[inline]
#[must_use]
pub(crate) const fn hash_start(length: usize) -> u64 {
    mix(HASH_SEED, length as u64)
}

/// At most eight bytes as a little-endian word.
#[inline]
#[must_use]
pub(crate) fn little_endian(chunk: &[u8]) -> u64 {
    if let Ok(whole) = <[u8; 8]>::try_from(chunk) {
        return u64::from_le_bytes(whole);
    }
    chunk
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/record-schema.md and foreign readers rely on these numbers: a change is a new LAYOUT_VERSION.
    #[test]
    fn offsets_of_version_2() {
        use std::mem::offset_of;
        assert_eq!(LAYOUT_VERSION, 2);
        assert_eq!(offset_of!(FileHeader, lane_count), 32);
        assert_eq!(offset_of!(FileHeader, jvm_build_id), 64);
        assert_eq!(offset_of!(FileHeader, walkers), 192);
        assert_eq!(offset_of!(FileHeader, checksum), 704);
        assert_eq!(offset_of!(LaneBlock<u64>, in_flight), 64);
        assert_eq!(offset_of!(LaneBlock<u64>, last_fault), 704);
        assert_eq!(offset_of!(LaneBlock<u64>, counters), 768);
        assert_eq!(offset_of!(LaneBlock<u64>, recent), 1024);
        assert_eq!(offset_of!(LaneBlock<u64>, input), 3072);
        assert_eq!(offset_of!(LaneBlock<u64>, tallies), 7232);
        assert_eq!(size_of::<Tally<u64>>(), 6080);
        assert_eq!(offset_of!(LaneBlock<u64>, faults), 104_512);
        assert_eq!(LANE_BYTES, 105_088);
    }

    #[test]
    fn code_slots_are_distinct() {
        let mut seen: Vec<_> = (-32..=0).map(code_slot).collect();
        seen.extend([SLOT_FRAMES, SLOT_OTHER_CODE, SLOT_FAULT, SLOT_HANG]);
        seen.extend([SLOT_WRONG_FRAMES, SLOT_BREACH]);
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
        assert!(seen.iter().all(|&slot| slot < CODE_SLOTS));
        assert_eq!(code_slot(-33), SLOT_OTHER_CODE);
        assert_eq!(code_slot(i32::MIN), SLOT_OTHER_CODE);
        assert_eq!(code_slot(1), SLOT_OTHER_CODE);
    }

    #[test]
    fn the_checksum_sees_length_order_and_every_byte() {
        assert_ne!(checksum(b""), checksum(b"\0"));
        assert_ne!(checksum(b"abcdefgh12345678"), checksum(b"12345678abcdefgh"));
        let base = [7_u8; 21];
        for position in 0..base.len() {
            let mut other = base;
            other[position] ^= 1;
            assert_ne!(checksum(&base), checksum(&other), "byte {position}");
        }
    }
}
