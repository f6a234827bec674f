//! What is wrong with an entry.

use std::path::PathBuf;

/// What is wrong with an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path} is no entry of the corpus: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, on one line.
        reason: String,
    },
    /// A name that could lead elsewhere.
    #[error(
        "`{0}` is no name for an entry: letters, digits, `-`, `_`, `.` and `#`, beginning with a letter or digit"
    )]
    Name(String),
}
