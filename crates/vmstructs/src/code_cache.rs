//! The code cache: its heaps and every blob in them.

use std::sync::Arc;

use walkfuzz_context::Address;

use crate::blob::{Blob, BlobLayout, Names};
use crate::cursor::{Cursor, Slot};
use crate::hotspot::HotSpot;
use crate::interpreter::Codelet;
use crate::memory::{Memory, Unreadable};
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// Segmented code caches have three heaps (four with a hot heap); more is garbage.
const MAX_HEAPS: u32 = 16;
/// More than any code cache may reserve (2 GB by HotSpot's own limit).
const MAX_HEAP: u64 = 4 << 30;
/// `CodeHeap::free_sentinel` in the segment map.
const FREE_SEGMENT: u8 = 0xff;

/// Why the code cache could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeCacheError {
    /// The tables do not say where something is.
    #[error("cannot find the code cache")]
    Missing(#[from] MissingEntry),
    /// The list of heaps cannot be read.
    #[error("cannot read the code cache's heaps")]
    Unreadable(#[from] Unreadable),
    /// The list of heaps makes no sense.
    #[error("JDK {jdk} claims to have {count} code heaps")]
    Heaps {
        /// The number read.
        count: u32,
        /// The JDK's version string.
        jdk: Box<str>,
    },
    /// A heap's bounds make no sense.
    #[error(
        "the code heap at {heap} claims to span {committed} in segments of 2^{log2_segment_size} bytes"
    )]
    Heap {
        /// The `CodeHeap*`.
        heap: Address,
        /// What was read as its committed range.
        committed: Span,
        /// What was read as its segment size.
        log2_segment_size: i32,
    },
}

/// One `CodeHeap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeHeap {
    /// The `CodeHeap*`.
    pub address: Address,
    /// What is committed: blobs lie only here.
    pub committed: Span,
    /// What is reserved.
    pub reserved: Span,
    /// Blocks start at multiples of `1 << log2_segment_size` from the heap's start.
    pub log2_segment_size: u32,
}

/// What a walk over the live code cache had to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Blocks with an impossible length; the walk went on at the next block that the segment map knows.
    pub blocks: u32,
    /// Blocks in use whose blob made no sense (one that is just being written, say).
    pub blobs: u32,
}

/// Where this JDK keeps the code cache's fields.
#[derive(Clone, Debug)]
pub struct CodeCacheLayout {
    heaps: HeapsPlace,
    memory_low: u64,
    memory_high: u64,
    reserved_low: u64,
    reserved_high: u64,
    pub(crate) segment_map_low: u64,
    log2_segment_size: u64,
    pub(crate) block_length: Slot,
    pub(crate) block_used: Slot,
    pub(crate) block_size: u64,
    pub(crate) blob: BlobLayout,
}

#[derive(Clone, Copy, Debug)]
enum HeapsPlace {
    /// `CodeCache::_heaps`, a `GrowableArray<CodeHeap*>*` (since 9).
    Several {
        list: Address,
        length: u64,
        data: u64,
    },
    /// `CodeCache::_heap` (8).
    One(Address),
}

impl CodeCacheLayout {
    /// Looks the fields up.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that is in no known place.
    pub fn resolve(
        tables: &Tables,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, MissingEntry> {
        let offset = |type_name: &str, field: &str| {
            tables.require(type_name, field).map(|field| field.offset)
        };
        let memory = offset("CodeHeap", "_memory")?;
        let segment_map = offset("CodeHeap", "_segmap")?;
        let heaps = match tables.field("CodeCache", "_heaps") {
            Some(list) => HeapsPlace::Several {
                list: list.address,
                length: tables
                    .require_any(&[
                        ("GrowableArrayBase", "_len"),
                        ("GenericGrowableArray", "_len"),
                    ])?
                    .offset,
                data: offset("GrowableArray<int>", "_data")?,
            },
            None => HeapsPlace::One(tables.require("CodeCache", "_heap")?.address),
        };
        // The header stands at the block's start, so that the offsets inside it are offsets inside the block.
        Ok(Self {
            heaps,
            memory_low: memory + offset("VirtualSpace", "_low")?,
            memory_high: memory + offset("VirtualSpace", "_high")?,
            reserved_low: memory + offset("VirtualSpace", "_low_boundary")?,
            reserved_high: memory + offset("VirtualSpace", "_high_boundary")?,
            segment_map_low: segment_map + offset("VirtualSpace", "_low")?,
            log2_segment_size: offset("CodeHeap", "_log2_segment_size")?,
            block_length: Slot::require(tables, "HeapBlock::Header", "_length")?,
            block_used: Slot::require(tables, "HeapBlock::Header", "_used")?,
            block_size: tables.require_size("HeapBlock")?,
            blob: BlobLayout::resolve(tables, symbol)?,
        })
    }

    pub(crate) fn heap_addresses(
        &self,
        memory: &dyn Memory,
        jdk: &str,
    ) -> Result<Vec<Address>, CodeCacheError> {
        match self.heaps {
            HeapsPlace::One(heap) => Ok(vec![memory.read_pointer(heap)?]),
            HeapsPlace::Several { list, length, data } => {
                let list = memory.read_pointer(list)?;
                let count = memory.read_u32(at(list, length))?;
                if count == 0 || count > MAX_HEAPS {
                    return Err(CodeCacheError::Heaps {
                        count,
                        jdk: jdk.into(),
                    });
                }
                let data = memory.read_pointer(at(list, data))?;
                (0..u64::from(count))
                    .map(|index| Ok(memory.read_pointer(at(data, index * 8))?))
                    .collect()
            }
        }
    }

    pub(crate) fn heap(
        &self,
        memory: &dyn Memory,
        address: Address,
    ) -> Result<CodeHeap, CodeCacheError> {
        let pointer = |offset| memory.read_pointer(at(address, offset));
        let committed = Span::new(pointer(self.memory_low)?, pointer(self.memory_high)?);
        let log2_segment_size = memory.read_i32(at(address, self.log2_segment_size))?;
        if committed.length() > MAX_HEAP || !(4..=16).contains(&log2_segment_size) {
            return Err(CodeCacheError::Heap {
                heap: address,
                committed,
                log2_segment_size,
            });
        }
        Ok(CodeHeap {
            address,
            committed,
            reserved: Span::new(pointer(self.reserved_low)?, pointer(self.reserved_high)?),
            log2_segment_size: log2_segment_size.cast_unsigned(),
        })
    }
}

/// The code cache at one moment (or rather: during one walk over it).
#[derive(Clone, Debug, Default)]
pub struct CodeCache {
    /// The heaps, sorted by address.
    pub heaps: Vec<CodeHeap>,
    /// The blobs, sorted by address.
    pub blobs: Vec<Blob>,
    /// Committed parts that hold no blob, sorted by address.
    pub free: Vec<Span>,
    /// The interpreter's codelets, sorted by address.
    pub codelets: Arc<[Codelet]>,
    /// What was left out.
    pub skipped: Skipped,
}

impl CodeCache {
    /// Walks over the code cache.
    ///
    /// # Errors
    /// [`CodeCacheError`] if the heaps cannot be found. What makes no sense inside a heap is skipped and counted.
    pub fn read(hotspot: &HotSpot, memory: &dyn Memory) -> Result<Self, CodeCacheError> {
        let layout = hotspot.code_cache();
        let mut cache = Self {
            codelets: Arc::clone(hotspot.codelets()),
            ..Self::default()
        };
        for address in layout.heap_addresses(memory, hotspot.tables().jdk())? {
            cache.heaps.push(layout.heap(memory, address)?);
        }
        cache.heaps.sort_by_key(|heap| heap.committed);
        let mut names = Names::new();
        for index in 0..cache.heaps.len() {
            cache.walk_heap(layout, memory, &mut names, cache.heaps[index]);
        }
        Ok(cache)
    }

    fn walk_heap(
        &mut self,
        layout: &CodeCacheLayout,
        memory: &dyn Memory,
        names: &mut Names,
        heap: CodeHeap,
    ) {
        let segment_size = 1_u64 << heap.log2_segment_size;
        let segments = heap.committed.length() >> heap.log2_segment_size;
        let mut segment_map = vec![0; segments as usize];
        let readable = memory
            .read_pointer(at(heap.address, layout.segment_map_low))
            .and_then(|map| memory.read(map, &mut segment_map));
        if readable.is_err() {
            segment_map.clear();
        }
        let block_size = layout.block_size as usize;
        let mut bytes = vec![0; block_size + layout.blob.header_length()];
        let mut segment = 0;
        while segment < segments {
            let block = at(heap.committed.start, segment * segment_size);
            let left = heap.committed.end.0 - block.0;
            let wanted = bytes.len().min(left as usize);
            let Some(bytes) = bytes.get_mut(..wanted) else {
                break;
            };
            let (length, used) = match memory.read(block, bytes) {
                Ok(()) => {
                    let header = Cursor(bytes);
                    (
                        header.unsigned(layout.block_length),
                        header.unsigned(layout.block_used) != 0,
                    )
                }
                Err(Unreadable { .. }) => (0, false),
            };
            if length == 0 || length > segments - segment {
                let next = next_block(&segment_map, segment);
                if next.is_some() || !is_untouched(&segment_map, segment) {
                    self.skipped.blocks += 1;
                }
                let next = next.unwrap_or(segments);
                self.add_free(block, (next - segment) * segment_size);
                segment = next;
                continue;
            }
            let length = length * segment_size;
            if used {
                let blob = at(block, layout.block_size);
                let header = bytes.get(block_size..).unwrap_or_default();
                match layout.blob.decode(
                    memory,
                    names,
                    blob,
                    header,
                    length.saturating_sub(layout.block_size),
                ) {
                    Some(blob) => self.blobs.push(blob),
                    None => self.skipped.blobs += 1,
                }
            } else {
                self.add_free(block, length);
            }
            segment += length >> heap.log2_segment_size;
        }
    }

    fn add_free(&mut self, start: Address, length: u64) {
        let span = Span::sized(start, length);
        match self.free.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => self.free.push(span),
        }
    }

    /// The blob that holds the address: a binary search; see [`crate::CodeMap`] for something faster.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<&Blob> {
        let behind = self
            .blobs
            .partition_point(|blob| blob.span.start <= address);
        let blob = self.blobs.get(behind.checked_sub(1)?)?;
        blob.span.contains(address).then_some(blob)
    }
}

/// The next segment behind `segment` at which the segment map says that a block begins.
fn next_block(segment_map: &[u8], segment: u64) -> Option<u64> {
    let from = segment as usize + 1;
    let offset = segment_map
        .get(from..)?
        .iter()
        .position(|distance| *distance == 0)?;
    Some((from + offset) as u64)
}

/// Whether no block was ever made at `segment`: that is how a heap ends.
fn is_untouched(segment_map: &[u8], segment: u64) -> bool {
    segment_map
        .get(segment as usize)
        .is_none_or(|distance| *distance == FREE_SEGMENT)
}

fn at(base: Address, offset: u64) -> Address {
    Address(base.0.wrapping_add(offset))
}
