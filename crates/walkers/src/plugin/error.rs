//! Why a library is refused. Each is one sentence that names what is wrong and, where it helps, what to do.

use std::path::PathBuf;

use super::abi::ABI;

/// A library that cannot be a walker here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No such file, or none that can be read.
    #[error("cannot read the walker {path}: {reason}")]
    File {
        /// The path.
        path: PathBuf,
        /// What the kernel says.
        reason: String,
    },
    /// Where a path should stand there is none.
    #[error("no library is named: write its path, as in plugin:/PATH/LIB.so")]
    NoPath,
    /// `@sha256:` is followed by something else than 64 digits.
    #[error("{given} is no SHA-256: write PATH@sha256: and 64 hexadecimal digits")]
    Pin {
        /// What follows.
        given: String,
    },
    /// The file is another than the one that was pinned.
    #[error("the walker {path} has the SHA-256 {found}, and {wanted} was asked for")]
    Checksum {
        /// The path.
        path: PathBuf,
        /// The file's.
        found: String,
        /// As pinned.
        wanted: String,
    },
    /// The linker cannot load it.
    #[error("{path} cannot be loaded as a shared library: {reason}")]
    NoLibrary {
        /// The path.
        path: PathBuf,
        /// What the linker says.
        reason: String,
    },
    /// It exports no `walkfuzz_walker`.
    #[error("{path} exports no function walkfuzz_walker; see walkfuzz_walker.h")]
    NoEntry {
        /// The path.
        path: PathBuf,
    },
    /// Built for another version of the ABI.
    #[error(
        "{path} was built for version {found} of the walker ABI, and this walkfuzz has version {ABI}: build it with this version's walkfuzz_walker.h"
    )]
    OtherAbi {
        /// The path.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// Its description cannot be used.
    #[error("{path} describes its walker wrongly: {what}")]
    Description {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It cannot walk other threads than its own.
    #[error("{path} has no walk_remote, and cannot walk threads from others: use plugin:PATH")]
    NoRemote {
        /// The path.
        path: PathBuf,
    },
    /// It cannot walk from sp, fp and pc.
    #[error("{path} has no walk_from_frame, and cannot walk from frames: use plugin:PATH")]
    NoFrames {
        /// The path.
        path: PathBuf,
    },
    /// `init` said no.
    #[error("the walker {path} does not want to walk this JVM: its init answered {answer}")]
    Unwilling {
        /// The path.
        path: PathBuf,
        /// Its answer.
        answer: i32,
    },
    /// It died while it was loaded, described or initialised.
    #[error("the walker {path} {how} {during}")]
    Died {
        /// The path.
        path: PathBuf,
        /// A signal or an exit.
        how: String,
        /// In which step.
        during: &'static str,
    },
    /// It did not come to an end.
    #[error("the walker {path} did not come to an end {during} within {seconds} s")]
    Hung {
        /// The path.
        path: PathBuf,
        /// In which step.
        during: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// No copy of the process to try it in.
    #[error("cannot try the walker {path} in a copy of this process: {reason}")]
    NoTrial {
        /// The path.
        path: PathBuf,
        /// What the kernel says.
        reason: String,
    },
}

impl PluginError {
    /// The exit code of a program that ends with it: 2 where another argument helps, 3 for the environment.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            PluginError::NoTrial { .. } => 3,
            PluginError::File { .. }
            | PluginError::NoPath
            | PluginError::Pin { .. }
            | PluginError::Checksum { .. }
            | PluginError::NoLibrary { .. }
            | PluginError::NoEntry { .. }
            | PluginError::OtherAbi { .. }
            | PluginError::Description { .. }
            | PluginError::NoRemote { .. }
            | PluginError::NoFrames { .. }
            | PluginError::Unwilling { .. }
            | PluginError::Died { .. }
            | PluginError::Hung { .. } => 2,
        }
    }
}
