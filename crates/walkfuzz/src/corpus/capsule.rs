//! An entry's capsule: the walk itself, in the file of the same name beside the entry. libjvm's code is by reference: none of it is in the corpus.

use std::path::{Path, PathBuf};

use walkfuzz_capsule::Capsule;
use walkfuzz_record::{Finding, KOfN, RunFolder};
use walkfuzz_triage::corpus::Entry;

use crate::failure::{Failure, USAGE};
use crate::replay::{Jdks, replay as replay_file};

/// Fresh processes that a check replays it in.
const TIMES: u64 = 3;

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wfcap"))
}

/// What a check's replay gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Identical,
    Different,
    /// The file is no capsule, or not its entry's.
    Damaged,
    /// It cannot be replayed here.
    Unknown,
}

pub(super) struct Replayed {
    end: End,
    pub(super) words: String,
}

impl Replayed {
    fn new(end: End, words: String) -> Self {
        Self { end, words }
    }

    /// Whether the crash is there.
    pub(super) fn happens(&self) -> bool {
        self.end == End::Identical
    }

    /// Whether the replay or the file is broken: the same code and the same memory, and something else comes of it.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.end, End::Different | End::Damaged)
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.end {
            End::Identical => "identical",
            End::Different => "different",
            End::Damaged => "damaged",
            End::Unknown => "unknown",
        }
    }
}

/// Replays the capsule of `entry`, if it has one in `folder`. A file that is no capsule is that entry's fault, and no other's.
pub(super) fn replay(folder: &Path, entry: &Entry) -> Option<Replayed> {
    let file = path(folder, &entry.name);
    if !file.exists() {
        return None;
    }
    let replayed = match replay_file(&file, TIMES) {
        Ok(replayed) => replayed,
        Err(failure) => {
            let end = if failure.code == USAGE {
                End::Damaged
            } else {
                End::Unknown
            };
            return Some(Replayed::new(end, format!("capsule: {}", failure.message)));
        }
    };
    if replayed.signature != entry.signature {
        let words = format!(
            "capsule: {} is of another signature than its entry: {}",
            file.display(),
            replayed.signature
        );
        return Some(Replayed::new(End::Damaged, words));
    }
    let KOfN { k, of } = replayed.identical;
    let mut words = format!("capsule {k} of {of}");
    if let Some(first) = replayed.differences.first() {
        words.push_str(&format!(" ({first})"));
    }
    let end = if k == of {
        End::Identical
    } else {
        End::Different
    };
    Some(Replayed::new(end, words))
}

/// The capsule that goes with a new entry: the finding's, its code by reference; nothing where the finding has none. The libjvm that is
/// referred to has to be here.
pub(super) fn of_finding(run: &RunFolder, finding: &Finding) -> Result<Option<Capsule>, Failure> {
    let Some(file) = &finding.capsule.path else {
        return Ok(None);
    };
    let file = run
        .named(file)
        .map_err(|error| Failure::usage(format_args!("{file}: {error}")))?;
    let mut capsule = Capsule::read(&file)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", file.display())))?;
    let mut jdks = Jdks::default();
    if capsule.refer(|file| jdks.find(file)) == 0 && !capsule.has_references() {
        return Err(Failure::environment(format_args!(
            "the capsule {} needs JDK {} to be taken by reference: walkfuzz jdk install, or --no-capsule",
            file.display(),
            finding.jvm.version
        )));
    }
    // Where the libraries were is of use to a debugger on that machine alone.
    for file in &mut capsule.facts.files {
        file.path.clone_from(&file.name);
    }
    Ok(Some(capsule))
}

/// Writes the capsule of the entry `name`.
pub(super) fn write(capsule: &Capsule, folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = path(folder, name);
    capsule.write(&file).map_err(Failure::environment)?;
    Ok(file)
}

/// Moves the capsule of `name`, if there is one, after its entry.
pub(super) fn follow(here: &Path, there: &Path, name: &str) -> Result<(), Failure> {
    let (old, new) = (path(here, name), path(there, name));
    if !old.is_file() {
        return Ok(());
    }
    std::fs::rename(&old, &new).map_err(|error| {
        Failure::environment(format_args!(
            "cannot move {} to {}: {error}",
            old.display(),
            new.display()
        ))
    })
}
