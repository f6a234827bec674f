//! Why a finding cannot be exported.

use std::path::PathBuf;

use walkfuzz_context::text::TextError;

/// Why a finding cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It leaves no crash log that names a function.
    #[error(
        "{id} cannot be exported: {what}; only faults in a function of the JVM can, since the JVM then writes a crash log"
    )]
    NotAFault {
        /// The finding.
        id: String,
        /// What it is instead.
        what: &'static str,
    },
    /// Its walker is not AsyncGetCallTrace.
    #[error(
        "{id} cannot be exported: its walker is {walker}, and agents are written for AsyncGetCallTrace alone"
    )]
    Walker {
        /// The finding.
        id: String,
        /// The walker.
        walker: String,
    },
    /// An edit needs a value that an agent cannot find.
    #[error(
        "{id} cannot be exported: an agent cannot find a value of class {class} without HotSpot's own structures"
    )]
    Class {
        /// The finding.
        id: String,
        /// The value class.
        class: &'static str,
    },
    /// Its edits or its architecture cannot be read.
    #[error("{id} cannot be exported: its architecture is {arch}")]
    Arch {
        /// The finding.
        id: String,
        /// What stands there.
        arch: String,
    },
    /// Its edits cannot be read.
    #[error("{id} cannot be exported: its edits cannot be read: {source}")]
    Edits {
        /// The finding.
        id: String,
        /// Where and how.
        source: TextError,
    },
    /// The folder holds something.
    #[error("{} is there and not empty; --out names another folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder or a file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
