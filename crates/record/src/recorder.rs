//! Making a record: the writer's side outside handlers.
//!
//! Contract: [`Recorder::create`] allocates and makes system calls; [`Recorder::lane`] and [`Recorder::claim`] are signal-safe.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytemuck::Zeroable;
use serde::{Deserialize, Serialize};
use walkfuzz_context::Arch;

use crate::codes::Generation;
use crate::error::RecordError;
use crate::lane::{Lane, WalkerId};
use crate::layout::{
    FileHeader, HEADER_BYTES, LANE_BYTES, LAYOUT_VERSION, MAGIC, MAX_LANES, MAX_WALKERS,
    STATE_CLOSED, STATE_OPEN, WalkerEntry,
};
use crate::mapped::Mapping;

/// A walker (or a mode of one) as records and findings name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WalkerInfo {
    /// Short name, e.g. `agct`; at most 32 bytes of it reach the record.
    pub name: String,
    /// Whose codes it speaks.
    pub generation: Generation,
    /// The walker's version (for a walker inside libjvm, the JVM's); at most 24 bytes of it reach the record.
    pub version: String,
}

/// What a record is made for.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many single writers there can be; at most [`MAX_LANES`].
    pub lanes: u32,
    /// The walkers; position is [`WalkerId`]. At most [`MAX_WALKERS`].
    pub walkers: Vec<WalkerInfo>,
    /// libjvm's build id in hex.
    pub jvm_build_id: String,
    /// The JVM's version as it names itself.
    pub jvm_version: String,
    /// Ticks per second of the times given to [`Lane::end_walk`]; 1e9 for nanoseconds.
    pub tick_hz: u64,
}

impl Options {
    /// 16 lanes, nanoseconds, one walker, an unnamed JVM.
    #[must_use]
    pub fn new(walker: WalkerInfo) -> Self {
        Self {
            lanes: 16,
            walkers: vec![walker],
            jvm_build_id: String::new(),
            jvm_version: String::new(),
            tick_hz: 1_000_000_000,
        }
    }

    /// The place of the walker of that name.
    #[must_use]
    pub fn walker_id(&self, name: &str) -> Option<WalkerId> {
        let position = self.walkers.iter().position(|walker| walker.name == name)?;
        u8::try_from(position).ok().map(WalkerId)
    }
}

/// The writer of a mapped record. Nobody may truncate the file while it lives.
#[derive(Debug)]
pub struct Recorder {
    mapping: Mapping,
    path: PathBuf,
    pid: u32,
    tick_hz: u64,
}

impl Recorder {
    /// Makes a new record at `path`.
    ///
    /// # Errors
    /// A path that exists or cannot be written, a disk without room for the whole file, a number of lanes or walkers out of range.
    pub fn create(path: &Path, options: &Options) -> Result<Self, RecordError> {
        if options.lanes == 0 || options.lanes > MAX_LANES {
            return Err(RecordError::Lanes {
                asked: options.lanes,
                max: MAX_LANES,
            });
        }
        if options.walkers.is_empty() || options.walkers.len() > MAX_WALKERS {
            return Err(RecordError::Walkers {
                asked: options.walkers.len(),
                max: MAX_WALKERS,
            });
        }
        let header = header(options);
        let mapping = Mapping::create(path, &header, options.lanes)?;
        let live = mapping.live();
        live.alive.store(header.started, Ordering::Relaxed);
        live.state.store(STATE_OPEN, Ordering::Release);
        Ok(Self {
            mapping,
            path: path.to_path_buf(),
            pid: std::process::id(),
            tick_hz: options.tick_hz,
        })
    }

    /// Ticks per second of its times ([`Options::tick_hz`]).
    #[must_use]
    pub fn tick_hz(&self) -> u64 {
        self.tick_hz
    }

    /// A lane by number; give each writer its own. Signal-safe.
    #[inline]
    #[must_use]
    pub fn lane(&self, index: u32) -> Option<&Lane> {
        self.mapping.lane(index)
    }

    /// How many lanes there are.
    #[inline]
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.mapping.lanes()
    }

    /// Finds a free lane and takes it for `owner` (a thread id); `None` if all are taken. Signal-safe.
    #[must_use]
    pub fn claim(&self, owner: u32) -> Option<&Lane> {
        (0..self.lanes())
            .filter_map(|index| self.lane(index))
            .find(|lane| lane.claim(owner))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that the process still lives. A driver's loop calls it about once a second, never a handler.
    pub fn alive(&self) {
        self.mapping.live().alive.store(now(), Ordering::Relaxed);
    }

    /// Says that the record has ended in good order. Dropping the recorder does it as well; who cannot drop it, because handlers may still write, calls
    /// this.
    pub fn close(&self) {
        // A forked copy shares the file; its end is not the writer's.
        if std::process::id() == self.pid {
            let live = self.mapping.live();
            let now = now();
            live.alive.store(now, Ordering::Relaxed);
            live.ended.store(now, Ordering::Relaxed);
            live.state.store(STATE_CLOSED, Ordering::Release);
        }
    }

    /// Says that the process no longer counts as sane after so many recoveries. Signal-safe.
    pub fn mark_tainted(&self, recoveries: u64) {
        let word = &self.mapping.live().tainted_after;
        word.store(recoveries.max(1), Ordering::Relaxed);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}

fn header(options: &Options) -> FileHeader {
    let mut header = FileHeader {
        magic: MAGIC,
        version: LAYOUT_VERSION,
        arch: Arch::NATIVE as u32,
        header_bytes: HEADER_BYTES as u64,
        lane_bytes: LANE_BYTES as u64,
        lane_count: u64::from(options.lanes),
        pid: u64::from(std::process::id()),
        started: now(),
        tick_hz: options.tick_hz,
        jvm_build_id: padded(&options.jvm_build_id),
        jvm_version: padded(&options.jvm_version),
        walkers: [WalkerEntry::zeroed(); MAX_WALKERS],
        checksum: 0,
    };
    for (entry, walker) in header.walkers.iter_mut().zip(&options.walkers) {
        entry.name = padded(&walker.name);
        entry.version = padded(&walker.version);
        entry.generation = walker.generation as u64;
    }
    header.checksum = header.computed_checksum();
    header
}

/// As much of `text` as fits, cut between characters, zero-padded.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let fitting = text.floor_char_boundary(N);
    let source = text.as_bytes().get(..fitting).unwrap_or_default();
    for (to, from) in bytes.iter_mut().zip(source) {
        *to = *from;
    }
    bytes
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
