//! Reading a record back: after its process's end, however that came, or while it runs.
//!
//! Contract: total. Any file gives either a [`Record`] or an error; whatever is missing or contradicts itself is named in
//! [`Record::damage`], and the rest is used. The file is read, not mapped, so that cutting it off meanwhile is no SIGBUS. A record that is
//! read while its process runs can be torn in one walk per lane.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytemuck::Zeroable;
use jiff::Timestamp;
use walkfuzz_context::Arch;

use crate::codes::Generation;
use crate::error::RecordError;
use crate::lane::WalkerId;
use crate::lane_record::LaneRecord;
use crate::layout::{
    FileHeader, HEADER_BYTES, LANE_BYTES, LAYOUT_VERSION, LIVE_OFFSET, LaneBlock, LiveHeader,
    MAGIC, MAX_LANES, STATE_CLOSED, file_bytes,
};
use crate::recorder::WalkerInfo;

/// Something in a record that is missing or cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header was changed after it was written.
    #[error("the header's checksum does not match")]
    HeaderChecksum,
    /// Lanes of another size than this layout's.
    #[error("the header claims lanes of {found} bytes, not {LANE_BYTES}")]
    LaneBytes {
        /// What the header says.
        found: u64,
    },
    /// An architecture that this program does not know.
    #[error("architecture {found} is unknown")]
    Arch {
        /// Its number.
        found: u32,
    },
    /// A walker of a generation that this program does not know.
    #[error("walker {slot} is of the unknown generation {number}")]
    Generation {
        /// The walker's place in the table.
        slot: usize,
        /// The generation's number.
        number: u64,
    },
    /// The file is shorter than its header says.
    #[error("cut off: {found} of {expected} bytes")]
    CutOff {
        /// Bytes that the header promises.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// The writer died while it described a walk that had not begun.
    #[error("lane {lane}: died while recording walk {number}")]
    TornWalk {
        /// The lane.
        lane: u32,
        /// The walk's number in its lane.
        number: u64,
    },
    /// The input is incomplete: its writer died while copying it, or it was changed.
    #[error("lane {lane}: the input is torn")]
    TornInput {
        /// The lane.
        lane: u32,
    },
    /// The marks of a lane's walks contradict each other.
    #[error("lane {lane}: {begun} walks begun, mark {sequence}")]
    Marks {
        /// The lane.
        lane: u32,
        /// Walks begun.
        begun: u64,
        /// The open-and-closed mark.
        sequence: u64,
    },
    /// The codes of a lane add up to another number than its walks.
    #[error("lane {lane}: {counted} outcomes for {ended} walks")]
    Outcomes {
        /// The lane.
        lane: u32,
        /// Sum of all codes.
        counted: u64,
        /// Walks ended.
        ended: u64,
    },
}

/// A record, read.
#[derive(Clone, Debug)]
pub struct Record {
    /// The file.
    pub path: PathBuf,
    /// Whose registers it holds; `None` if unknown.
    pub arch: Option<Arch>,
    /// The process.
    pub pid: u64,
    /// When the record was made.
    pub started: Timestamp,
    /// When the process last said that it lives.
    pub alive: Timestamp,
    /// When it ended in good order; `None` if it did not (or runs still).
    pub ended: Option<Timestamp>,
    /// After how many recoveries the process no longer counted as sane.
    pub tainted_after: Option<u64>,
    /// Ticks per second of walker times.
    pub tick_hz: u64,
    /// libjvm's build id in hex.
    pub jvm_build_id: String,
    /// The JVM's version.
    pub jvm_version: String,
    /// Walkers by [`WalkerId`].
    pub walkers: Vec<Option<WalkerInfo>>,
    /// The lanes that the file holds.
    pub lanes: Vec<LaneRecord>,
    /// What is missing or contradicts itself.
    pub damage: Vec<Damage>,
}

impl Record {
    /// The walker in a slot.
    #[must_use]
    pub fn walker(&self, id: WalkerId) -> Option<&WalkerInfo> {
        self.walkers.get(usize::from(id.0))?.as_ref()
    }

    /// Sentences on what was going on when the record was last written: the walks that are open.
    #[must_use]
    pub fn in_flight(&self) -> Vec<String> {
        let open = self.lanes.iter().filter_map(|lane| {
            let walk = lane.open.as_ref()?;
            let walker = self
                .walker(walk.walker)
                .map_or("unknown walker", |w| &w.name);
            Some(format!(
                "lane {}: {}",
                lane.index,
                walk.describe(walker, lane.input.as_ref())
            ))
        });
        open.collect()
    }
}

/// Opens records.
#[derive(Debug)]
pub struct RecordReader;

impl RecordReader {
    /// Reads the record at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no record, ends within the header or has another layout version.
    pub fn open(path: &Path) -> Result<Record, RecordError> {
        let read_error = |source: io::Error| RecordError::Read {
            path: path.to_path_buf(),
            source,
        };
        let mut file = File::open(path).map_err(read_error)?;
        let about = file.metadata().map_err(read_error)?;
        if !about.is_file() {
            return Err(RecordError::NotARecord {
                path: path.to_path_buf(),
            });
        }
        let mut bytes = Vec::new();
        let most = file_bytes(MAX_LANES).min(about.len());
        let mut head = file.by_ref().take(HEADER_BYTES as u64);
        head.read_to_end(&mut bytes).map_err(read_error)?;
        // Only what is a record at all is read in full.
        parse_header(path, &bytes)?;
        let rest = most.saturating_sub(bytes.len() as u64);
        file.take(rest)
            .read_to_end(&mut bytes)
            .map_err(read_error)?;
        Self::parse(path, &bytes)
    }

    /// Reads a record from bytes; `path` is only for messages.
    ///
    /// # Errors
    /// As [`RecordReader::open`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Record, RecordError> {
        let header = parse_header(path, bytes)?;
        let mut damage = Vec::new();
        if header.checksum != header.computed_checksum() {
            damage.push(Damage::HeaderChecksum);
        }
        if header.lane_bytes != LANE_BYTES as u64 {
            damage.push(Damage::LaneBytes {
                found: header.lane_bytes,
            });
        }
        let arch = [Arch::X86_64, Arch::Aarch64]
            .into_iter()
            .find(|&arch| arch as u32 == header.arch);
        if arch.is_none() {
            damage.push(Damage::Arch { found: header.arch });
        }
        let walkers = walkers(&header, &mut damage);
        let lane_count = header.lane_count.min(u64::from(MAX_LANES)) as u32;
        let live: LiveHeader<u64> = bytes
            .get(LIVE_OFFSET..LIVE_OFFSET + size_of::<LiveHeader<u64>>())
            .map_or_else(LiveHeader::zeroed, bytemuck::pod_read_unaligned);
        let closed = live.state == STATE_CLOSED;
        let lanes = lanes(bytes, lane_count, arch, closed, &mut damage);
        Ok(Record {
            path: path.to_path_buf(),
            arch,
            pid: header.pid,
            started: timestamp(header.started),
            alive: timestamp(live.alive.max(header.started)),
            ended: closed.then(|| timestamp(live.ended)),
            tainted_after: (live.tainted_after != 0).then_some(live.tainted_after),
            tick_hz: header.tick_hz,
            jvm_build_id: text(&header.jvm_build_id),
            jvm_version: text(&header.jvm_version),
            walkers,
            lanes,
            damage,
        })
    }
}

fn parse_header(path: &Path, bytes: &[u8]) -> Result<FileHeader, RecordError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(RecordError::NotARecord {
            path: path.to_path_buf(),
        });
    }
    let Some(head) = bytes
        .get(..HEADER_BYTES)
        .and_then(|head| head.get(..size_of::<FileHeader>()))
    else {
        return Err(RecordError::CutOff {
            path: path.to_path_buf(),
            bytes: bytes.len(),
        });
    };
    let header: FileHeader = bytemuck::pod_read_unaligned(head);
    if header.version != LAYOUT_VERSION {
        return Err(RecordError::Version {
            path: path.to_path_buf(),
            found: header.version,
            known: LAYOUT_VERSION,
        });
    }
    Ok(header)
}

fn walkers(header: &FileHeader, damage: &mut Vec<Damage>) -> Vec<Option<WalkerInfo>> {
    let entries = header.walkers.iter().enumerate().map(|(slot, entry)| {
        let name = text(&entry.name);
        if name.is_empty() {
            return None;
        }
        let generation = u8::try_from(entry.generation)
            .ok()
            .and_then(Generation::from_number);
        if generation.is_none() {
            damage.push(Damage::Generation {
                slot,
                number: entry.generation,
            });
        }
        Some(WalkerInfo {
            name,
            generation: generation?,
            version: text(&entry.version),
        })
    });
    entries.collect()
}

fn lanes(
    bytes: &[u8],
    count: u32,
    arch: Option<Arch>,
    closed: bool,
    damage: &mut Vec<Damage>,
) -> Vec<LaneRecord> {
    let expected = file_bytes(count);
    if (bytes.len() as u64) < expected {
        damage.push(Damage::CutOff {
            expected,
            found: bytes.len() as u64,
        });
    }
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    // Words, because bytes need not be aligned; a lane that is cut off is read as if zeros followed.
    let mut words = vec![0_u64; LANE_BYTES / 8];
    let mut lanes = Vec::new();
    for (index, chunk) in (0..count).zip(body.chunks(LANE_BYTES)) {
        words.fill(0);
        let raw: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        for (to, from) in raw.iter_mut().zip(chunk) {
            *to = *from;
        }
        if let Ok(block) = bytemuck::try_from_bytes::<LaneBlock<u64>>(bytemuck::cast_slice(&words))
        {
            lanes.push(LaneRecord::read(index, block, arch, closed, damage));
        }
    }
    lanes
}

fn timestamp(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Zero-padded bytes as text; what is no UTF-8 is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let used = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
    String::from_utf8_lossy(used).into_owned()
}
