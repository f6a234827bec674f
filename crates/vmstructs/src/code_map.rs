//! What code an address lies in, in constant time.

use walkfuzz_context::{Address, BlobKind};

use crate::blob::Blob;
use crate::code_cache::CodeCache;
use crate::interpreter::Codelet;
use crate::span::Span;

/// A direct-mapped table over one code heap: each segment belongs to at most one block, hence to at most one blob.
#[derive(Clone, Debug)]
struct Region {
    start: u64,
    length: u64,
    shift: u32,
    /// Index of the blob plus one; 0 for none.
    blobs: Box<[u32]>,
    /// Its kind; free code for none. A quarter of the memory that a handler has to bring to its core.
    kinds: Box<[BlobKind]>,
}

/// A [`CodeCache`] with lookups from addresses.
///
/// Lookups allocate nothing, lock nothing and read no memory of the JVM: they answer as of the moment the cache was read.
#[derive(Clone, Debug, Default)]
pub struct CodeMap {
    cache: CodeCache,
    regions: Vec<Region>,
    libjvm: Span,
}

enum Hit<'a> {
    Blob(&'a Blob),
    Free,
    Outside,
}

impl CodeMap {
    /// Builds the tables: 5 bytes per segment of committed code cache (400 KB for 10 MB).
    #[must_use]
    pub fn new(cache: CodeCache, libjvm_text: Option<Span>) -> Self {
        let mut regions: Vec<Region> = cache
            .heaps
            .iter()
            .map(|heap| {
                let segments = (heap.committed.length() >> heap.log2_segment_size) as usize;
                Region {
                    start: heap.committed.start.0,
                    length: heap.committed.length(),
                    shift: heap.log2_segment_size,
                    blobs: vec![0; segments].into(),
                    kinds: vec![BlobKind::FreeCode; segments].into(),
                }
            })
            .collect();
        for (index, blob) in cache.blobs.iter().enumerate() {
            let start = blob.span.start.0;
            let Some(region) = regions
                .iter_mut()
                .find(|region| start.wrapping_sub(region.start) < region.length)
            else {
                continue;
            };
            let first = ((start - region.start) >> region.shift) as usize;
            let last = ((blob.span.end.0.saturating_sub(1).max(start) - region.start)
                >> region.shift) as usize;
            let number = u32::try_from(index + 1).unwrap_or(0);
            for entry in region.blobs.iter_mut().take(last + 1).skip(first) {
                *entry = number;
            }
            for entry in region.kinds.iter_mut().take(last + 1).skip(first) {
                *entry = blob.kind;
            }
        }
        Self {
            cache,
            regions,
            libjvm: libjvm_text.unwrap_or_default(),
        }
    }

    /// The code cache that the tables are about.
    #[must_use]
    pub fn cache(&self) -> &CodeCache {
        &self.cache
    }

    /// The heap that holds the address, and the segment's number.
    #[inline]
    fn segment(&self, address: Address) -> Option<(&Region, usize)> {
        self.regions.iter().find_map(|region| {
            let offset = address.0.wrapping_sub(region.start);
            (offset < region.length).then_some((region, (offset >> region.shift) as usize))
        })
    }

    #[inline]
    fn hit(&self, address: Address) -> Hit<'_> {
        let Some((region, segment)) = self.segment(address) else {
            return Hit::Outside;
        };
        let number = region.blobs.get(segment).copied().unwrap_or(0);
        let blob = self.cache.blobs.get((number as usize).wrapping_sub(1));
        match blob {
            Some(blob) if blob.span.contains(address) => Hit::Blob(blob),
            _ => Hit::Free,
        }
    }

    /// Of an address in no code heap.
    #[inline]
    fn kind_outside(&self, address: Address) -> BlobKind {
        if self.libjvm.contains(address) {
            BlobKind::Libjvm
        } else {
            BlobKind::Outside
        }
    }

    /// The blob that holds the address.
    #[inline]
    #[must_use]
    pub fn blob(&self, address: Address) -> Option<&Blob> {
        match self.hit(address) {
            Hit::Blob(blob) => Some(blob),
            Hit::Free | Hit::Outside => None,
        }
    }

    /// What kind of code the address lies in.
    #[inline]
    #[must_use]
    pub fn kind(&self, address: Address) -> BlobKind {
        match self.hit(address) {
            Hit::Blob(blob) => blob.kind,
            Hit::Free => BlobKind::FreeCode,
            Hit::Outside => self.kind_outside(address),
        }
    }

    /// As [`kind`](Self::kind), by segments: what lies behind a blob's end in its last one counts as the blob's. For handlers, which find none of the
    /// tables in their core's cache.
    #[inline]
    #[must_use]
    pub fn kind_of_segment(&self, address: Address) -> BlobKind {
        match self.segment(address) {
            Some((region, segment)) => {
                let kind = region.kinds.get(segment);
                kind.copied().unwrap_or(BlobKind::FreeCode)
            }
            None => self.kind_outside(address),
        }
    }

    /// The interpreter codelet that holds the address: a binary search over about 280.
    #[must_use]
    pub fn codelet(&self, address: Address) -> Option<&Codelet> {
        let codelets = &self.cache.codelets;
        let behind = codelets.partition_point(|codelet| codelet.span.start <= address);
        codelets
            .get(behind.checked_sub(1)?)
            .filter(|codelet| codelet.span.contains(address))
    }
}
