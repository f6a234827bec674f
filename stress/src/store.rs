//! A stress run's folder, written so that a kill or a full disk loses at most the cells that were running.
//!
//! ```text
//! 20260301T093000.123Z-4711/
//!   stress.json     what was planned, by whom, on which machine
//!   cells.jsonl     a line for each finished cell, appended
//!   driver.lock     locked by who runs its cells, and by nobody else
//!   cells/ID/       what a cell left: output.log, record-PID.map, hs_err_pidPID.log
//! ```

use std::collections::BTreeSet;
use std::fs::{self, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use walkfuzz_record::{MachineFacts, append_line};

use crate::cell::Cell;
use crate::result::{CellResult, SCHEMA};

const FACTS: &str = "stress.json";
const CELLS: &str = "cells.jsonl";
const LOCK: &str = "driver.lock";

/// `stress.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StressFacts {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of walkfuzz.
    pub walkfuzz: String,
    /// The command as the user gave it, word by word.
    pub command: Vec<String>,
    /// Name of the profile.
    pub profile: String,
    /// The plan's seed.
    pub seed: u64,
    /// `K/N`; absent for the whole plan.
    pub shard: Option<String>,
    /// When the run began.
    pub started: Timestamp,
    /// When it ended in good order.
    pub finished: Option<Timestamp>,
    /// The machine.
    pub machine: MachineFacts,
    /// All points of the matrix.
    pub points: u64,
    /// Pairs of values that the plan's cells have, and how many there are to have.
    pub pairs: (u64, u64),
    /// Why cells were left out, and how many.
    pub impossible: Vec<(String, u64)>,
    /// The cells that are to run, in their order.
    pub plan: Vec<Cell>,
}

/// What went wrong with a run's folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Its facts mean nothing.
    #[error("{} is no stress run's: {source}", .path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// There is no run in it.
    #[error("{} is no stress run: it has no {FACTS}", .path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A new folder is needed.
    #[error("{} is not empty; name a new folder", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Somebody else runs its cells.
    #[error("{} is under way{}: wait for its end, or end it with Ctrl-C, then resume it", .path.display(), by(.process))]
    UnderWay {
        /// The folder.
        path: PathBuf,
        /// Who runs them, if it says so.
        process: Option<u32>,
    },
    /// An older or newer program wrote it.
    #[error("{} has schema {found}, this program reads {SCHEMA}; use the walkfuzz that wrote it", .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: u64,
    },
}

/// A stress run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StressFolder {
    path: PathBuf,
}

fn by(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" in process {process}"))
}

/// The right to run a folder's cells, as long as it lives; a process that is killed loses it, too.
#[derive(Debug)]
#[must_use]
pub struct Lock {
    _file: Option<fs::File>,
}

/// Finished cells, and the lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// The cells, in the order in which they ended.
    pub cells: Vec<CellResult>,
    /// Lines that were cut off or mean nothing.
    pub damaged_lines: u64,
}

impl StressFolder {
    /// Makes a new folder under `base`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(base: &Path, facts: &StressFacts) -> Result<Self, StoreError> {
        let time = facts.started.strftime("%Y%m%dT%H%M%S.%3fZ");
        Self::create_at(&base.join(format!("{time}-{}", std::process::id())), facts)
    }

    /// Makes a folder of that path, which must be new or empty.
    ///
    /// # Errors
    /// It holds something, or cannot be written.
    pub fn create_at(path: &Path, facts: &StressFacts) -> Result<Self, StoreError> {
        let path = path.to_owned();
        if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(StoreError::InUse { path });
        }
        let folder = Self { path };
        let cells = folder.path.join(Self::CELLS);
        fs::create_dir_all(&cells).map_err(|source| write_error(&cells, source))?;
        folder.write_facts(facts)?;
        Ok(folder)
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// It holds no stress run, or one of another schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Self {
            path: path.to_owned(),
        };
        folder.facts()?;
        Ok(folder)
    }

    /// Whether a folder holds a stress run.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        path.join(FACTS).is_file()
    }

    /// The newest run under `base`, by its name, which begins with its time.
    #[must_use]
    pub fn latest(base: &Path) -> Option<Self> {
        let entries = fs::read_dir(base).into_iter().flatten().flatten();
        let runs = entries
            .map(|entry| entry.path())
            .filter(|path| Self::is_one(path));
        let path = runs.max_by(|a, b| a.file_name().cmp(&b.file_name()))?;
        Some(Self { path })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same with a path that holds from anywhere.
    ///
    /// # Errors
    /// There is no current folder.
    pub fn absolute(self) -> Result<Self, StoreError> {
        match std::path::absolute(&self.path) {
            Ok(path) => Ok(Self { path }),
            Err(source) => Err(StoreError::Read {
                path: self.path,
                source,
            }),
        }
    }

    /// A cell's folder.
    #[must_use]
    pub fn cell(&self, cell: &Cell) -> PathBuf {
        self.path.join(Self::CELLS).join(cell.id())
    }

    /// The folder of the cells' folders, in a run's folder.
    pub const CELLS: &str = "cells";

    /// What was planned.
    ///
    /// # Errors
    /// The file cannot be read or is another's.
    pub fn facts(&self) -> Result<StressFacts, StoreError> {
        let path = self.path.join(FACTS);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => StoreError::NotARun {
                path: self.path.clone(),
            },
            _ => StoreError::Read {
                path: path.clone(),
                source,
            },
        })?;
        let wrong = |source| StoreError::Facts {
            path: path.clone(),
            source,
        };
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(wrong)?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(SCHEMA) => Err(StoreError::Schema { path, found }),
            _ => serde_json::from_value(value).map_err(wrong),
        }
    }

    /// Writes what is planned, in place of what was.
    ///
    /// # Errors
    /// There is no room, say.
    pub fn write_facts(&self, facts: &StressFacts) -> Result<(), StoreError> {
        let path = self.path.join(FACTS);
        let new = self.path.join("stress.json.new");
        let text = serde_json::to_string_pretty(facts).map_err(|source| StoreError::Facts {
            path: path.clone(),
            source,
        })?;
        fs::write(&new, text + "\n").map_err(|source| write_error(&new, source))?;
        fs::rename(&new, &path).map_err(|source| write_error(&path, source))
    }

    /// Takes the right to run its cells. Who only reads needs none.
    ///
    /// # Errors
    /// Somebody else has it, or the folder cannot be written.
    pub fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.join(LOCK);
        let failed = |source| write_error(&path, source);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut said = String::new();
                let _ = file.read_to_string(&mut said);
                return Err(StoreError::UnderWay {
                    path: self.path.clone(),
                    process: said.trim().parse().ok(),
                });
            }
            // A file system without locks is no reason not to run.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Lock { _file: None });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        // Only for whoever is refused: a full disk is told where it matters.
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Lock { _file: Some(file) })
    }

    /// Adds a finished cell.
    ///
    /// # Errors
    /// There is no room, say.
    pub fn append(&self, result: &CellResult) -> Result<(), StoreError> {
        let path = self.path.join(CELLS);
        let line = serde_json::to_vec(result).map_err(|source| StoreError::Facts {
            path: path.clone(),
            source,
        })?;
        let appended = append_line(&path, &line).map(drop);
        appended.map_err(|source| write_error(&path, source))
    }

    /// The finished cells; of a cell that ran twice, the last.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn finished(&self) -> Result<Finished, StoreError> {
        let path = self.path.join(CELLS);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(StoreError::Read { path, source }),
        };
        let mut finished = Finished::default();
        let mut seen = BTreeSet::new();
        let lines: Vec<&[u8]> = bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        for line in lines.iter().rev() {
            match serde_json::from_slice::<CellResult>(line) {
                Ok(cell) if cell.schema == SCHEMA => {
                    if seen.insert(cell.id.clone()) {
                        finished.cells.push(cell);
                    }
                }
                _ => finished.damaged_lines += 1,
            }
        }
        finished.cells.reverse();
        Ok(finished)
    }
}

fn write_error(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Write {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_driver_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let folder = StressFolder {
            path: home.path().to_owned(),
        };
        let lock = folder.lock().unwrap();
        let refused = folder.lock().unwrap_err();
        let sentence = format!(
            "{} is under way in process {}: wait for its end",
            home.path().display(),
            std::process::id()
        );
        assert!(refused.to_string().starts_with(&sentence), "{refused}");
        drop(lock);
        // What it wrote is no lock.
        assert!(home.path().join(LOCK).is_file());
        let _again = folder.lock().unwrap();
    }
}
