//! Why a file is no capsule that can be used.

/// What is wrong with a file that should be a capsule. Each says which field and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The outermost layer is not zstd, is damaged or is cut off.
    #[error("the file is no zstd stream, or is damaged or cut off: {0}")]
    Compression(std::io::Error),
    /// Unpacking gives more than [`limits::UNPACKED`](crate::limits::UNPACKED).
    #[error("the file unpacks to more than {limit} bytes")]
    TooBig {
        /// The limit.
        limit: u64,
    },
    /// The ELF structure is broken.
    #[error("what is inside is no ELF core: {0}")]
    Elf(object::read::Error),
    /// It is an ELF file, but no core.
    #[error("what is inside is an ELF file of type {0}, and not a core (4)")]
    NotACore(u16),
    /// A core without our notes.
    #[error("the core has no {0} note: it is no capsule")]
    NoNote(&'static str),
    /// A note is there twice.
    #[error("the core has two {0} notes")]
    TwoNotes(&'static str),
    /// Made for another processor.
    #[error("the capsule is for {found}, and this program for {ours}")]
    Architecture {
        /// What the file says.
        found: String,
        /// What this program runs on.
        ours: &'static str,
    },
    /// Made on a machine with other pages.
    #[error("the capsule has pages of {found} bytes; only {ours} are supported")]
    PageSize {
        /// What the file says.
        found: u64,
        /// What is supported.
        ours: u64,
    },
    /// Made by another version of this program.
    #[error("the capsule has format version {found}; this program reads version {known}")]
    Version {
        /// What the file says.
        found: u32,
        /// What this program reads.
        known: u32,
    },
    /// The note with the facts is not what it should be.
    #[error("the note of facts cannot be read: {0}")]
    Facts(serde_json::Error),
    /// A field of the facts makes no sense.
    #[error("the facts make no sense: {0}")]
    BadFacts(&'static str),
    /// A binary note is cut off or holds what it must not.
    #[error("the {note} note is damaged: {what}")]
    BadNote {
        /// Which note.
        note: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// More of something than is allowed.
    #[error("the capsule declares {found} {what}; at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// How many at most.
        limit: u64,
    },
    /// A segment begins or ends within a page, or lies where no program can be.
    #[error("the segment at {address:#x} of {length:#x} bytes is not made of whole pages of user space")]
    Segment {
        /// Its address.
        address: u64,
        /// Its length.
        length: u64,
    },
    /// Two segments claim the same page.
    #[error("two segments overlap at {address:#x}")]
    Overlap {
        /// The page.
        address: u64,
    },
    /// A segment lies where the replayer needs to be.
    #[error("the segment at {address:#x} lies over the replayer's own page")]
    OverReplayer {
        /// The page.
        address: u64,
    },
    /// A page has no bytes in the file and is in no file that the facts name.
    #[error("the page at {address:#x} has no content")]
    NoContent {
        /// The page.
        address: u64,
    },
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// The kernel's reason.
        source: std::io::Error,
    },
}

impl From<object::read::Error> for FormatError {
    fn from(error: object::read::Error) -> Self {
        Self::Elf(error)
    }
}
