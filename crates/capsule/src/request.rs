//! What a capture is asked for, and what it took: plain values, the same on every machine.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use walkfuzz_context::{Address, Pc, Registers};
use walkfuzz_symbols::Modules;

use crate::capsule::{Perturbed, SafeFetch};

/// See [`KnownFile::libraries`].
const LIBRARIES: [&str; 2] = ["libjvm.so", "libc.so.6"];

/// A file that a capsule names, and may later [refer](crate::Capsule::refer) to.
#[derive(Clone, Debug)]
pub struct KnownFile {
    /// Where it is, as the mappings name it.
    pub path: PathBuf,
    /// Which build it is.
    pub identity: String,
}

impl KnownFile {
    /// Libraries that a debugger should know, libjvm first: those that are mapped and say which build they are.
    #[must_use]
    pub fn libraries(modules: &Modules) -> Vec<Self> {
        let known = LIBRARIES.iter().filter_map(|name| {
            let module = modules.by_name(name)?;
            Some(Self {
                path: module.path.clone(),
                identity: module.table()?.identity()?.to_owned(),
            })
        });
        known.collect()
    }
}

/// What is to be captured: `function(trace, depth, context)`, ready to be called.
#[derive(Clone, Debug)]
pub struct Request {
    /// The walker.
    pub function: Pc,
    /// An `ASGCT_CallTrace`, set up for the call.
    pub trace: Address,
    /// The most frames.
    pub depth: i32,
    /// A `ucontext_t`.
    pub context: Address,
    /// SafeFetch loads of the JVM.
    pub safefetch: Vec<SafeFetch>,
    /// Libraries that a debugger should know, libjvm first.
    pub files: Vec<KnownFile>,
    /// What the capsule says of itself: the walker's name.
    pub walker: String,
    /// The JVM's version.
    pub jvm: String,
    /// What is kept of it.
    pub keep: Keep,
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
    /// Lines that are not zero, before minimising and after, code left out.
    pub lines: (usize, usize),
}

/// What becomes a capsule.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// Where the walk begins; `None`: where the ground was made for.
    pub registers: Option<Registers>,
    /// Of the finding; empty for a healthy walk.
    pub signature: String,
    /// The perturbation's text form.
    pub perturbation: String,
    /// What it was applied to.
    pub perturbed: Option<Perturbed>,
    /// Whether words that the outcome does not need become zeros.
    pub minimise: bool,
    /// Memory that is kept although this walk does not read it: what is mapped in these ranges and may be accessed. Others start there.
    pub whole: Vec<Range<u64>>,
}
