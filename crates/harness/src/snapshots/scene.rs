//! What is known of a snapshot's JVM.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use walkfuzz_context::{Address, BlobKind, LandscapeTable, ValueClass};
use walkfuzz_record::{JvmFacts, read_file};
use walkfuzz_vmstructs::{Blob, CodeCache, CodeHeap, CodeMap, FRAME_NEVER_SAFE, Span};

use crate::error::HarnessError;
use crate::world::World;

/// How the files of a snapshot end.
pub const CAPSULE: &str = "wfcap";
/// Far more than a scene has.
const MOST_BYTES: u64 = 256 << 20;
/// See [`CAPSULE`].
pub const SCENE: &str = "scene.json";

/// What a mapping was for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its begin.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// In words.
    pub name: String,
    /// Whether the snapshot has it whole.
    pub kept: bool,
}

/// A stretch of generated code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its begin.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// The blob kind's name; for a code heap empty.
    pub kind: String,
    /// For a code heap: how large its segments are, as a power of two.
    pub segment: u32,
}

/// What is known of a snapshot's JVM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scene {
    /// What the thread was doing.
    pub kind: String,
    /// The JVM.
    pub jvm: JvmFacts,
    /// Committed code heaps.
    pub heaps: Vec<Place>,
    /// Generated code.
    pub blobs: Vec<Place>,
    /// libjvm's text.
    pub libjvm: Option<(u64, u64)>,
    /// The page that HotSpot touches when a check fails.
    pub assert_poison: Option<u64>,
    /// The value classes, by name.
    pub values: BTreeMap<String, Vec<u64>>,
    /// What the mappings were for.
    pub regions: Vec<Region>,
}

/// A snapshot that was just taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// What the thread was doing.
    pub kind: String,
    /// The capsule.
    pub path: String,
    /// Frames of its walk.
    pub frames: i32,
    /// Pages that it holds, and bytes of the file.
    pub pages: usize,
    /// See `pages`.
    pub bytes: u64,
}

impl Scene {
    /// Of the moment that the world has met last.
    pub(crate) fn of(world: &World, kind: String, jvm: JvmFacts, regions: Vec<Region>) -> Self {
        let cache = world.code.cache();
        let values = ValueClass::ALL
            .into_iter()
            .filter(|class| !world.landscape.values(*class).is_empty())
            .map(|class| {
                (
                    class.name().to_owned(),
                    world.landscape.values(class).to_vec(),
                )
            });
        Self {
            kind,
            jvm,
            heaps: cache
                .heaps
                .iter()
                .map(|heap| Place {
                    start: heap.committed.start.0,
                    end: heap.committed.end.0,
                    kind: String::new(),
                    segment: heap.log2_segment_size,
                })
                .collect(),
            blobs: cache
                .blobs
                .iter()
                .map(|blob| Place {
                    start: blob.span.start.0,
                    end: blob.span.end.0,
                    kind: blob.kind.name().to_owned(),
                    segment: 0,
                })
                .collect(),
            libjvm: world.libjvm_text().map(|text| (text.start.0, text.end.0)),
            assert_poison: world.assert_poison,
            values: values.collect(),
            regions,
        }
    }

    /// Reads a scene.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, HarnessError> {
        let failed =
            |what: String| HarnessError::SnapshotFile(format!("{}: {what}", path.display()));
        let bytes = read_file(path, MOST_BYTES).map_err(|error| failed(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), HarnessError> {
        let failed = |what: String| HarnessError::Snapshot(format!("{}: {what}", path.display()));
        let bytes = serde_json::to_vec(self).map_err(|error| failed(error.to_string()))?;
        std::fs::write(path, bytes).map_err(|error| failed(error.to_string()))
    }

    /// What the value classes resolve to.
    #[must_use]
    pub fn landscape(&self) -> LandscapeTable {
        let mut table = LandscapeTable::new();
        for (name, values) in &self.values {
            if let Some(class) = ValueClass::from_name(name) {
                table.set(class, values.clone());
            }
        }
        table
    }

    /// What an address lies in.
    #[must_use]
    pub fn code(&self) -> CodeMap {
        let span = |place: &Place| Span::new(Address(place.start), Address(place.end));
        let heaps = self.heaps.iter().map(|heap| CodeHeap {
            address: Address(heap.start),
            committed: span(heap),
            reserved: span(heap),
            log2_segment_size: heap.segment.min(20),
        });
        let name: Arc<str> = "".into();
        let blobs = self.blobs.iter().filter_map(|blob| {
            let kind = BlobKind::ALL
                .into_iter()
                .find(|kind| kind.name() == blob.kind)?;
            Some(Blob {
                span: span(blob),
                code: span(blob),
                name: Arc::clone(&name),
                kind,
                frame_size: 0,
                frame_complete: FRAME_NEVER_SAFE,
                nmethod: None,
            })
        });
        let cache = CodeCache {
            heaps: heaps.collect(),
            blobs: blobs.collect(),
            ..CodeCache::default()
        };
        let text = self
            .libjvm
            .map(|(start, end)| Span::new(Address(start), Address(end)));
        CodeMap::new(cache, text)
    }

    /// What the mapping at an address was for.
    #[must_use]
    pub fn region(&self, address: Address) -> &str {
        let behind = self
            .regions
            .partition_point(|region| region.start <= address.0);
        let region = behind
            .checked_sub(1)
            .and_then(|index| self.regions.get(index));
        region
            .filter(|region| address.0 < region.end)
            .map_or("memory without access", |region| &region.name)
    }
}
