//! The corpus of known walks: one TOML file each, in the folder that says what is expected of it, and the rules by which checks move it.
//!
//! docs/corpus.md describes the format and the rules. Contract: an entry is somebody's file; reading one never panics, and its name never
//! leads out of its folder. What replays entries is elsewhere: here are only the file and the rules.

mod entry;
mod error;
mod name;
mod rules;
mod state;

use std::path::{Path, PathBuf};

pub use entry::{Entry, EntryJdk, SCHEMA, bytes_of_hex};
pub use error::EntryError;
pub use name::check_name;
pub use rules::{CheckVerdict, MISSES, Observed, Ruling, rule};
pub use state::{Expected, State};

/// All entries of a state, by name. Other files than `*.toml` are not looked at.
///
/// # Errors
/// One of them is no entry, or stands in the wrong folder.
pub fn entries(corpus: &Path, state: State) -> Result<Vec<Entry>, EntryError> {
    let folder = corpus.join(state.folder());
    let files = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(|source| EntryError::Io {
            what: "read",
            path: folder.clone(),
            source,
        })?,
    };
    let mut paths: Vec<PathBuf> = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    paths.sort();
    let mut entries = Vec::new();
    for path in paths {
        let entry = Entry::read(&path)?;
        if entry.expected != state.expected() {
            return Err(EntryError::Malformed {
                path,
                reason: format!("what it expects does not suit the folder {state}"),
            });
        }
        entries.push(entry);
    }
    Ok(entries)
}
