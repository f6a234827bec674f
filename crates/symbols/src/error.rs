//! What can go wrong while reading symbols.

use std::path::PathBuf;

/// Why symbols could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The file is not an ELF file that this crate understands.
    #[error("{path} is not a usable 64-bit little-endian ELF file")]
    Elf {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        #[source]
        source: object::Error,
    },
    /// The machine type is neither x86_64 nor aarch64.
    #[error("{path} is for machine type {machine}, neither x86_64 nor aarch64")]
    Machine {
        /// The file.
        path: PathBuf,
        /// `e_machine`.
        machine: u16,
    },
    /// The bytes asked for lie in no file-backed segment.
    #[error("{path} holds no {length} bytes at offset {offset:#x}")]
    NotInFile {
        /// The file.
        path: PathBuf,
        /// Address as linked.
        offset: u64,
        /// How many bytes were wanted.
        length: u64,
    },
}
