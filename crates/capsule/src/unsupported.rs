//! Where capsules cannot be captured and replayed: the same functions, which say so.

/// See the module of this name on x86_64.
pub mod capture {
    use walkfuzz_context::{Address, Registers};

    pub use crate::request::{Effort, Keep, KnownFile, Request};
    use crate::{Capsule, CaptureError, Ended, Facts, PuppetError, ReturnedFrame};

    /// A moment's memory, of which there is none.
    pub struct Ground<'a>(&'a Capsule);

    impl Ground<'static> {
        /// Makes none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn of_process(_: &Request) -> Result<Self, CaptureError> {
            Err(PuppetError::Unsupported.into())
        }
    }

    impl Ground<'static> {
        /// Makes none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn of_copies(_: Copies, _: &Request) -> Result<Self, CaptureError> {
            Err(PuppetError::Unsupported.into())
        }
    }

    /// Copies of a moment, of which there are none.
    #[derive(Debug)]
    pub struct Copies(());

    impl Copies {
        /// Makes none.
        ///
        /// # Errors
        /// Always.
        pub fn fork(_: Meeting) -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
    }

    /// A word that a process and its copies share.
    #[derive(Clone, Copy, Debug)]
    pub struct Meeting(());

    impl Meeting {
        /// Makes none.
        ///
        /// # Errors
        /// Always.
        pub fn new() -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
    }

    impl<'a> Ground<'a> {
        /// Makes none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn of_capsule(_: &'a Capsule) -> Result<Self, CaptureError> {
            Err(PuppetError::Unsupported.into())
        }

        /// What the walks have in common.
        #[must_use]
        pub fn facts(&self) -> &Facts {
            &self.0.facts
        }

        /// Does nothing.
        pub fn limit_depth(&mut self, _: i32) {}

        /// Writes nothing.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn edit(&mut self, _: &[(Address, u64)]) -> Result<(), PuppetError> {
            Err(PuppetError::Unsupported)
        }

        /// Never walks.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn walk(&mut self, _: &Registers) -> Result<Ended, PuppetError> {
            Err(PuppetError::Unsupported)
        }

        /// Has none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn frames(&self) -> Result<Vec<ReturnedFrame>, PuppetError> {
            Err(PuppetError::Unsupported)
        }

        /// Keeps nothing.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn capsule(&mut self, _: &Keep) -> Result<(Capsule, Effort), CaptureError> {
            Err(PuppetError::Unsupported.into())
        }
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
    use crate::{Capsule, Ended, PuppetError, ReturnedFrame};

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

        /// Has none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn frames(&self) -> Result<Vec<ReturnedFrame>, PuppetError> {
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
        /// CPU time meanwhile.
        pub cpu: Duration,
    }

    /// Measures nothing.
    ///
    /// # Errors
    /// Always [`PuppetError::Unsupported`].
    pub fn floor(_: u64) -> Result<Tally, InProcessError> {
        Err(PuppetError::Unsupported.into())
    }

    /// Walks nothing.
    ///
    /// # Errors
    /// Always [`PuppetError::Unsupported`].
    pub fn walk(_: &Capsule, _: u64) -> Result<Tally, InProcessError> {
        Err(PuppetError::Unsupported.into())
    }
}

/// See the module of this name on x86_64.
pub mod resident {
    use walkfuzz_context::{Address, Registers};

    use super::capture::Ground;
    use crate::{Capsule, CaptureError, Ended, PuppetError, ResidentError};

    /// Snapshots in this process, of which there are none.
    #[derive(Debug)]
    pub struct Resident(());

    /// The frames of a walk.
    #[derive(Clone, Copy, Debug)]
    pub struct Frames<'a> {
        /// `num_frames`.
        pub count: i32,
        /// Frames of 16 bytes.
        pub bytes: &'a [u8],
        /// Whether the walker wrote behind the last.
        pub overran: bool,
    }

    impl Resident {
        /// Makes none.
        ///
        /// # Errors
        /// Always [`ResidentError::Unsupported`].
        pub fn new() -> Result<Self, ResidentError> {
            Err(ResidentError::Unsupported)
        }

        /// Takes nothing in.
        ///
        /// # Errors
        /// Always [`ResidentError::Unsupported`].
        pub fn add(&mut self, _: &Capsule) -> Result<usize, ResidentError> {
            Err(ResidentError::Unsupported)
        }

        /// How many there are.
        #[must_use]
        pub fn len(&self) -> usize {
            0
        }

        /// Whether there is none.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            true
        }

        /// Bytes of all pages.
        #[must_use]
        pub fn bytes(&self) -> u64 {
            0
        }

        /// Shows nothing.
        ///
        /// # Errors
        /// Always [`ResidentError::Unsupported`].
        pub fn show(&mut self, _: usize) -> Result<(), ResidentError> {
            Err(ResidentError::Unsupported)
        }

        /// Makes none.
        ///
        /// # Errors
        /// Always [`PuppetError::Unsupported`].
        pub fn ground(&self, _: usize) -> Result<Ground<'_>, CaptureError> {
            Err(PuppetError::Unsupported.into())
        }

        /// Edits nothing.
        pub fn edit(&mut self, _: Address, _: u64) -> Option<u64> {
            None
        }

        /// Never walks.
        pub fn walk(&mut self, _: &Registers, _: i32) -> Ended {
            Ended::MissingPage(Address(0))
        }

        /// None.
        #[must_use]
        pub fn frames(&self, _: i32) -> Frames<'_> {
            Frames {
                count: 0,
                bytes: &[],
                overran: false,
            }
        }

        /// None.
        #[must_use]
        pub fn untouched(&self) -> Option<Registers> {
            None
        }
    }

    /// Does nothing.
    pub fn with_own_thread_pointer(_: i32) {}
}
