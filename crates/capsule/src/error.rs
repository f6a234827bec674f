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
    #[error(
        "the segment at {address:#x} of {length:#x} bytes is not made of whole pages of user space"
    )]
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

/// Why a capsule could not be replayed at all.
#[derive(Debug, thiserror::Error)]
pub enum PuppetError {
    /// ptrace is forbidden.
    #[error("this process may not trace its own child: {why}")]
    NotPermitted {
        /// Who forbids it, and what to do.
        why: String,
    },
    /// A step of the replay failed.
    #[error("cannot {what}: {source}")]
    System {
        /// Which.
        what: &'static str,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The kernel does not give the replayer an address that the capsule needs.
    #[error("cannot map the capsule's page at {address:#x}: {source}")]
    Map {
        /// The page.
        address: u64,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The child ended before its time.
    #[error("the replaying process was ended from outside")]
    Gone,
    /// The pages of a file were not brought.
    #[error("needs build id {identity} ({name} of JDK {jvm})")]
    NeedsFile {
        /// The file's name.
        name: String,
        /// Which build.
        identity: String,
        /// Of which JVM.
        jvm: String,
    },
    /// Not on this architecture.
    #[error("capsules can be captured and replayed on x86_64 only")]
    Unsupported,
}

impl PuppetError {
    /// With the error of the last system call.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::System {
            what,
            source: std::io::Error::last_os_error(),
        }
    }
}

/// Why a capsule could not be walked at full speed.
#[derive(Debug, thiserror::Error)]
pub enum InProcessError {
    /// As for the judge.
    #[error(transparent)]
    Puppet(#[from] PuppetError),
    /// The processor or the kernel does not let user space set its thread pointer.
    #[error(
        "the kernel or the processor lacks the instructions that set the thread pointer (fsgsbase): replay without --in-process"
    )]
    NoThreadPointer,
    /// The kernel does not take the filter of system calls.
    #[error("cannot forbid system calls with seccomp: {0}")]
    Seccomp(String),
    /// This program has something where the capsule's page must be.
    #[error(
        "this program lies where the capsule's page at {address:#x} must be: replay without --in-process"
    )]
    Collision {
        /// The page.
        address: u64,
    },
    /// The walk ended the sandboxed child: by a system call that the child may still make, of another kind, or by spoiling the handler's memory.
    #[error("refused: its walk ended the sandboxed process ({how}), and no walk does that")]
    Refused {
        /// `exit code 0`, `signal 31`.
        how: String,
    },
    /// The sandboxed child ended before its time.
    #[error("the sandboxed process ended early ({0})")]
    Ended(String),
}

/// Why a walk could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The processes that it takes could not be made or watched.
    #[error(transparent)]
    Puppet(#[from] PuppetError),
    /// The mappings of the frozen process could not be read.
    #[error("cannot read the frozen process's mappings: {0}")]
    Maps(String),
    /// There is no free address for the replayer's page.
    #[error("no address is free for the replayer's page")]
    NoRoom,
    /// The walk did not come to an end that a capsule can hold.
    #[error("the walk cannot be kept: {0}")]
    NoOutcome(Box<crate::Ended>),
    /// The puppet did not do what the walk does in the whole process.
    #[error("the capsule does not do what the walk did: {}", .0.join("; "))]
    Unverified(Vec<String>),
}

/// Why a capsule cannot be walked in this process.
#[derive(Debug, thiserror::Error)]
pub enum ResidentError {
    /// As for the judge.
    #[error(transparent)]
    Puppet(#[from] PuppetError),
    /// The processor or the kernel does not let user space set its thread pointer.
    #[error(
        "the kernel or the processor lacks the instructions that set the thread pointer (fsgsbase)"
    )]
    NoThreadPointer,
    /// This program has something where the snapshot's page must be.
    #[error(
        "this program lies where the snapshot's page at {address:#x} must be: start it again, other addresses may be free"
    )]
    Collision {
        /// The page.
        address: u64,
    },
    /// There can be one at a time.
    #[error("snapshots are walked in this process already")]
    Taken,
    /// Not on this architecture.
    #[error("snapshots can be walked on x86_64 only")]
    Unsupported,
}
