//! What code an address lies in right now, as HotSpot itself looks it up: through the code heap's segment map.
//!
//! For walkers. A [`crate::CodeMap`] is faster, and tells of the moment it was made at; a walker in a running JVM meets code that is younger.
//! Signal-safe: allocates nothing, reads through [`Memory`] only, always ends.

use walkfuzz_context::Address;

use crate::blob::LiveBlob;
use crate::code_cache::{CodeCacheError, CodeCacheLayout};
use crate::cursor::Cursor;
use crate::hotspot::HotSpot;
use crate::memory::Memory;
use crate::span::Span;

/// The longest header that is looked at: an nmethod's takes at most 376 bytes in 11 to 25.
const HEADER: usize = 384;
/// How much of a blob's name is read: enough to tell kinds apart.
const NAME: usize = 32;
/// The name of compiled Java code, with its end.
const COMPILED: [u8; 8] = *b"nmethod\0";
/// How often the segment map may point back: once for each 254 segments of a block.
const HOPS: u32 = 8192;
/// `CodeHeap::free_sentinel` (heap.hpp): no block was ever made here.
const FREE_SEGMENT: u8 = 0xff;

/// One code heap; none of this ever changes.
#[derive(Clone, Copy, Debug)]
struct Heap {
    reserved: Span,
    segment_map: Address,
    log2_segment_size: u32,
}

/// What an address lies in.
#[expect(
    clippy::large_enum_variant,
    reason = "made in signal handlers, where there is no box to put a blob in"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAt {
    /// A blob in use.
    Blob(LiveBlob),
    /// A code heap, but no blob that makes sense.
    Free,
    /// No code heap.
    Outside,
    /// A code heap whose tables or blob cannot be read.
    Unreadable,
}

/// Looks up code by its address.
#[derive(Clone, Debug)]
pub struct LiveCode {
    layout: CodeCacheLayout,
    heaps: Box<[Heap]>,
}

impl LiveCode {
    /// Finds the code heaps.
    ///
    /// # Errors
    /// [`CodeCacheError`] if they cannot be found.
    pub fn new(hotspot: &HotSpot, memory: &dyn Memory) -> Result<Self, CodeCacheError> {
        let layout = hotspot.code_cache();
        let addresses = layout.heap_addresses(memory, hotspot.tables().jdk())?;
        let heaps: Result<Box<[Heap]>, CodeCacheError> = addresses
            .into_iter()
            .map(|address| {
                let heap = layout.heap(memory, address)?;
                let map = Address(address.0.wrapping_add(layout.segment_map_low));
                Ok(Heap {
                    reserved: heap.reserved,
                    segment_map: memory.read_pointer(map)?,
                    log2_segment_size: heap.log2_segment_size,
                })
            })
            .collect();
        Ok(Self {
            layout: layout.clone(),
            heaps: heaps?,
        })
    }

    /// Whether some code heap has reserved the address.
    #[inline]
    #[must_use]
    pub fn reserves(&self, address: Address) -> bool {
        self.heaps
            .iter()
            .any(|heap| heap.reserved.contains(address))
    }

    /// What `address` lies in.
    #[inline]
    pub fn find<M: Memory + ?Sized>(&self, memory: &M, address: Address) -> CodeAt {
        let mut heaps = self.heaps.iter();
        let Some(heap) = heaps.find(|heap| heap.reserved.contains(address)) else {
            return CodeAt::Outside;
        };
        let Some(block) = block_of(heap, memory, address) else {
            return CodeAt::Free;
        };
        self.blob_in(memory, heap, block, address)
            .unwrap_or(CodeAt::Unreadable)
    }

    /// `None` if something cannot be read.
    #[inline]
    fn blob_in<M: Memory + ?Sized>(
        &self,
        memory: &M,
        heap: &Heap,
        block: u64,
        address: Address,
    ) -> Option<CodeAt> {
        let layout = &self.layout;
        let mut bytes = [0; HEADER];
        let block_size = layout.block_size as usize;
        let header = bytes.get_mut(..block_size)?;
        memory.read(Address(block), header).ok()?;
        let header = Cursor(header);
        let length = header
            .unsigned(layout.block_length)
            .checked_shl(heap.log2_segment_size)?;
        let used = header.unsigned(layout.block_used) & 0xff != 0;
        let left = heap.reserved.end.0 - block;
        if !used || length > left || length <= layout.block_size {
            return Some(CodeAt::Free);
        }
        let blob = Address(block + layout.block_size);
        let limit = length - layout.block_size;
        let wanted = layout.blob.header_length().min(HEADER).min(limit as usize);
        let header = bytes.get_mut(..wanted)?;
        memory.read(blob, header).ok()?;
        let header = Cursor(header);
        let name_at = layout.blob.name_at(header);
        let mut name = [0; NAME];
        let name = match memory.read_u64(name_at).map(u64::to_le_bytes) {
            // Nearly all code that is walked has this name, and ends here.
            Ok(COMPILED) => "nmethod",
            _ => {
                let name = memory.read_cstring(name_at, &mut name);
                // Garbage, or cut off inside a character: none of the names that tell kinds apart.
                std::str::from_utf8(name.ok()?).unwrap_or_default()
            }
        };
        Some(match layout.blob.decode_known(blob, header, limit, name) {
            Some(blob) if blob.span.contains(address) => CodeAt::Blob(blob),
            _ => CodeAt::Free,
        })
    }
}

/// Where the block begins that holds the address.
#[inline]
fn block_of<M: Memory + ?Sized>(heap: &Heap, memory: &M, address: Address) -> Option<u64> {
    let mut segment = (address.0 - heap.reserved.start.0) >> heap.log2_segment_size;
    for _ in 0..HOPS {
        let entry = Address(heap.segment_map.0.wrapping_add(segment));
        match memory.read_u8(entry).ok()? {
            0 => return Some(heap.reserved.start.0 + (segment << heap.log2_segment_size)),
            FREE_SEGMENT => return None,
            back => segment = segment.checked_sub(u64::from(back))?,
        }
    }
    None
}
