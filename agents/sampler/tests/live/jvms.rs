//! A program for JVMs, and what is recorded of it, for the tests of our agents.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use walkfuzz_record::{Counter, Record, Tally, Totals};

use crate::jdks::compile;
pub(crate) use crate::jdks::{releases, text};

/// The folder of Busy.class, compiled once; `None`, with a word, where nothing compiles.
pub(crate) fn busy() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLASSES
        .get_or_init(|| {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../sampler/tests/java/Busy.java");
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("busy");
            compile(&source, &folder)?;
            Some(folder)
        })
        .as_deref()
        .or_else(|| {
            println!("skip: no JDK here has a javac");
            None
        })
}

pub(crate) fn tally(record: &Record, perturbed: bool) -> Tally {
    Totals::of([record]).outcomes(Some(perturbed))
}

pub(crate) fn counter(record: &Record, counter: Counter) -> u64 {
    Totals::of([record]).counter(counter)
}
