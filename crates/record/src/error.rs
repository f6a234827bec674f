//! What can go wrong with a record or a run folder, each with the path it went wrong at.

use std::io;
use std::path::{Path, PathBuf};

/// Why a mapped record cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Creating, sizing or mapping failed for another reason than a full disk.
    #[error("cannot create record {}: {source}", path.display())]
    Create {
        /// The record.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file system (or a quota, or a file-size limit) has no room for the whole file.
    #[error("no room for record {} of {bytes} bytes: {source}", path.display())]
    DiskFull {
        /// The record; it was removed again.
        path: PathBuf,
        /// Bytes it needs.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A number of lanes that no record has.
    #[error("a record has 1 to {max} lanes, not {asked}")]
    Lanes {
        /// What was asked for.
        asked: u32,
        /// [`crate::layout::MAX_LANES`].
        max: u32,
    },
    /// More walkers than the header's table holds.
    #[error("a record has 1 to {max} walkers, not {asked}")]
    Walkers {
        /// What was asked for.
        asked: usize,
        /// [`crate::layout::MAX_WALKERS`].
        max: usize,
    },
    /// The file cannot be read.
    #[error("cannot read record {}: {source}", path.display())]
    Read {
        /// The record.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else, or its first bytes are gone.
    #[error("{} is not a walkfuzz record", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
    },
    /// The file ends within its header.
    #[error("record {} is cut off in its header: {bytes} bytes", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Bytes that are left.
        bytes: usize,
    },
    /// The layout is another one.
    #[error("record {} has layout version {found}; this program reads {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// [`crate::layout::LAYOUT_VERSION`].
        known: u32,
    },
}

/// Why a run folder cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder, or a file in it, cannot be made or written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file system is full.
    #[error("no room to write {}: {source}", path.display())]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A folder without a `run.json`.
    #[error("{} is not a run folder: it has no run.json", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A base folder without any run.
    #[error("no run in {}", path.display())]
    NoRun {
        /// The base folder.
        path: PathBuf,
    },
    /// A file whose content is not what its name promises.
    #[error("{} is damaged: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and how.
        source: serde_json::Error,
    },
    /// A file of another schema.
    #[error("{} has schema {found}; this program reads {known}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// [`crate::SCHEMA`].
        known: u32,
    },
    /// A histogram cannot be exported.
    #[error("cannot export histogram {}: {reason}", path.display())]
    Histogram {
        /// The file.
        path: PathBuf,
        /// hdrhistogram's reason.
        reason: String,
    },
    /// A record of this process cannot be made.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Whether the system says that there is no room: the device, the quota, or the limit on file sizes.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl StoreError {
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if is_disk_full(&source) {
            StoreError::DiskFull { path, source }
        } else {
            StoreError::Write { path, source }
        }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        StoreError::Read {
            path: path.to_path_buf(),
            source,
        }
    }
}
