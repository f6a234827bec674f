//! Where capsules cannot be captured and replayed: the same functions, which say so.

/// See the module of this name on x86_64.
pub mod capture {
    use std::path::PathBuf;
    use std::time::Duration;

    use walkfuzz_context::{Address, Pc};

    use crate::{Capsule, CaptureError, PuppetError, SafeFetch};

    /// A file that a capsule names.
    #[derive(Clone, Debug)]
    pub struct KnownFile {
        /// Where it is.
        pub path: PathBuf,
        /// Which build it is.
        pub identity: String,
    }

    /// What is to be captured.
    #[derive(Clone, Debug)]
    pub struct Request {
        /// The walker.
        pub function: Pc,
        /// An `ASGCT_CallTrace`.
        pub trace: Address,
        /// The most frames.
        pub depth: i32,
        /// A `ucontext_t`.
        pub context: Address,
        /// SafeFetch loads of the JVM.
        pub safefetch: Vec<SafeFetch>,
        /// Libraries that a debugger should know.
        pub files: Vec<KnownFile>,
        /// Whether lines that the outcome does not need become zeros.
        pub minimise: bool,
        /// The walker's name.
        pub walker: String,
        /// The finding's signature.
        pub signature: String,
        /// The perturbation's text form.
        pub perturbation: String,
        /// The JVM's version.
        pub jvm: String,
    }

    /// How much a capture took.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Effort {
        /// Until source and verifier stood.
        pub fork: Duration,
        /// Until the walk was verified.
        pub verify: Duration,
        /// Minimising.
        pub minimise: Duration,
        /// Walks that minimising took.
        pub walks: u64,
        /// Lines that are not zero, before minimising and after.
        pub lines: (usize, usize),
    }

    /// Captures nothing.
    ///
    /// # Errors
    /// Always [`PuppetError::Unsupported`].
    pub fn capture(_: &Request) -> Result<(Capsule, Effort), CaptureError> {
        Err(PuppetError::Unsupported.into())
    }
}

/// See the module of this name on x86_64.
pub mod puppet {
    use crate::{Capsule, Ended, PuppetError};

    /// A capsule in a process, of which there is none.
    #[derive(Debug)]
    pub struct Puppet(());

    impl Puppet {
        /// Makes none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn new(_: &Capsule) -> Result<Self, PuppetError> {
            Err(PuppetError::Unsupported)
        }

        /// Never walks.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn walk(&mut self) -> Result<Ended, PuppetError> {
            Err(PuppetError::Unsupported)
        }
    }
}

/// See the module of this name on x86_64.
pub mod in_process {
    use std::time::Duration;

    use crate::{Capsule, Ended, InProcessError, PuppetError};

    /// What came of many walks.
    #[derive(Clone, Copy, Debug)]
    pub struct Tally {
        /// How many walks there were.
        pub walks: u64,
        /// How many ended as the capsule says.
        pub identical: u64,
        /// What came of the first that did not.
        pub first_other: Option<Ended>,
        /// From the first walk to the last.
        pub took: Duration,
    }

    /// Walks nothing.
    ///
    /// # Errors
    /// Always [`PuppetError::Unsupported`].
    pub fn walk(_: &Capsule, _: u64) -> Result<Tally, InProcessError> {
        Err(PuppetError::Unsupported.into())
    }
}
