//! What memory a snapshot keeps, and what the rest of the mappings is for.
//!
//! Kept is what perturbed walks were seen to read (docs/snapshots.md has the measurement): the walked stack, the code cache with its
//! tables, class metadata, libjvm and libc, the C heap, the upper ends of other stacks. Not kept are the Java heap and the collector's tables.

use std::ops::Range;

use walkfuzz_vmstructs::{Mapping, Maps, Span, java_heap};

use crate::error::HarnessError;
use crate::snapshots::{Region, scene};
use crate::world::World;

/// Anonymous memory in larger mappings is the heap's or the collector's, and not the metadata's or malloc's.
const LARGE: u64 = 80 << 20;
/// Metadata, malloc's arenas and the like.
const ANONYMOUS: &str = "anonymous memory";
/// Nothing of a user's is below (`vm.mmap_min_addr`); JDK 25's Shenandoah maps its collection set's table there where it may.
const LOWEST: u64 = 64 << 10;
/// Libraries that walks run through or read.
const LIBRARIES: [&str; 2] = ["libjvm.so", "libc.so.6"];
/// Class data archives.
const ARCHIVE: &str = ".jsa";
/// Stacks of other threads.
const OTHER_STACKS: &str = "other stacks";
/// What is kept of each: registers are made to point there, where its thread has frames.
const STACK_END: u64 = 128 << 10;

/// Ranges to be kept whole.
pub(crate) fn extent(regions: &[Region]) -> Vec<Range<u64>> {
    let mut kept: Vec<&Region> = regions.iter().filter(|region| region.kept).collect();
    // A file holds so many pages: large memory of unknown purpose comes last.
    kept.sort_by_key(|region| match &*region.name {
        ANONYMOUS => region.end - region.start,
        _ => 0,
    });
    kept.into_iter()
        .map(|region| region.start..region.end)
        .collect()
}

/// What each mapping of this process is for. `walked` is the walked thread's stack.
pub(crate) fn regions(world: &World, walked: Span) -> Result<Vec<Region>, HarnessError> {
    let maps = Maps::read_own().map_err(|error| HarnessError::VmStructs(error.to_string()))?;
    let heap = java_heap(&world.hotspot, world.memory(), &maps);
    let heap = heap.map(|heap| heap.spans).unwrap_or_default();
    let context = Context {
        world,
        walked,
        heap,
    };
    let mut before: Option<&Mapping> = None;
    let mut regions = Vec::new();
    for mapping in maps.all().iter().filter(|mapping| !mapping.is_forbidden()) {
        let (name, kept) = context.purpose(mapping, before);
        let (start, end) = (mapping.span.start.0, mapping.span.end.0);
        let mut region = |start, end, kept| {
            regions.push(scene::Region {
                start,
                end,
                name: name.to_owned(),
                kept,
            });
        };
        let middle = end.saturating_sub(STACK_END).max(start);
        if name == OTHER_STACKS && middle > start {
            region(start, middle, false);
            region(middle, end, true);
        } else {
            region(start, end, kept);
        }
        before = Some(mapping);
    }
    Ok(regions)
}

struct Context<'a> {
    world: &'a World,
    walked: Span,
    heap: Vec<Span>,
}

impl Context<'_> {
    fn purpose<'m>(&self, mapping: &'m Mapping, before: Option<&'m Mapping>) -> (&'m str, bool) {
        let span = mapping.span;
        let overlaps = |other: &Span| other.start < span.end && span.start < other.end;
        let in_library =
            |mapping: &Mapping| LIBRARIES.iter().any(|name| mapping.path.ends_with(name));
        if overlaps(&self.walked) {
            return ("walked stack", true);
        }
        if span.start.0 < LOWEST {
            return ("collector's table at zero", false);
        }
        if self.heap.iter().any(overlaps) {
            return ("java heap", false);
        }
        let mut heaps = self.world.code.cache().heaps.iter();
        if heaps.any(|heap| overlaps(&heap.committed)) {
            return ("code cache", true);
        }
        if self.world.stacks().iter().any(|(_, stack)| overlaps(stack)) {
            return (OTHER_STACKS, true);
        }
        if in_library(mapping) {
            return ("libjvm and libc", true);
        }
        if mapping.path.ends_with(ARCHIVE) {
            return ("class data archive", true);
        }
        // A library's zeroed data has no file.
        let continues =
            before.is_some_and(|before| before.span.end == span.start && in_library(before));
        if mapping.path.is_empty() && continues {
            return ("libjvm and libc", true);
        }
        if &*mapping.path == "[stack]" {
            return (OTHER_STACKS, true);
        }
        if &*mapping.path == "[heap]" {
            return ("c heap", true);
        }
        if !mapping.path.is_empty() {
            return ("other files", false);
        }
        if !mapping.writable || span.length() > LARGE {
            return ("large anonymous memory", false);
        }
        (ANONYMOUS, true)
    }
}
