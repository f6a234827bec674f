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
pub(super) struct Replayed {
    /// Whether it ended as the capsule says; nothing where it cannot be replayed here.
    pub(super) again: Option<bool>,
    pub(super) words: String,
}

impl Replayed {
    pub(super) fn verdict(&self) -> &'static str {
        match self.again {
            Some(true) => "identical",
            Some(false) => "different",
            None => "unknown",
        }
    }
}

/// Replays the capsule of `entry`, if it has one in `folder`.
pub(super) fn replay(folder: &Path, entry: &Entry) -> Result<Option<Replayed>, Failure> {
    let file = path(folder, &entry.name);
    if !file.is_file() {
        return Ok(None);
    }
    let replayed = match replay_file(&file, TIMES) {
        Ok(replayed) => replayed,
        // A file that is no capsule is as wrong as an entry that is none.
        Err(failure) if failure.code == USAGE => return Err(failure),
        Err(failure) => {
            return Ok(Some(Replayed {
                again: None,
                words: format!("capsule: {}", failure.message),
            }));
        }
    };
    if replayed.signature != entry.signature {
        return Err(Failure::usage(format_args!(
            "{} is of another signature than its entry: {}",
            file.display(),
            replayed.signature
        )));
    }
    let KOfN { k, of } = replayed.identical;
    let mut words = format!("capsule {k} of {of}");
    if let Some(first) = replayed.differences.first() {
        words.push_str(&format!(" ({first})"));
    }
    Ok(Some(Replayed {
        again: Some(k == of),
        words,
    }))
}

/// The capsule that goes with a new entry: the finding's, its code by reference; nothing where the finding has none. The libjvm that is
/// referred to has to be here.
pub(super) fn of_finding(run: &RunFolder, finding: &Finding) -> Result<Option<Capsule>, Failure> {
    let Some(file) = &finding.capsule.path else {
        return Ok(None);
    };
    let file = run.path().join(file);
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
