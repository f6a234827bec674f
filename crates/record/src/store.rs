//! A run folder: everything that a run leaves behind, written so that a kill or a full disk loses at most one line.
//!
//! ```text
//! 20260301T093000.123Z-4711/
//!   run.json            facts of the run
//!   findings.jsonl      findings and later sightings, appended
//!   processes.jsonl     what became of each JVM process, appended
//!   record-<pid>.map    mapped records, one per process
//!   histograms/         hdrhistogram exports
//!   artifacts/          inputs by SHA-256
//!   variants/<id>.json  on which JVMs a finding happens again
//! ```
//!
//! Contract: several processes may append to one folder at a time: a line goes out in one `write` to a file that is open for appending.
//! Makes system calls; not for handlers.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{RecordError, StoreError};
use crate::facts::{ProcessEnd, RunFacts};
use crate::finding::{Finding, SCHEMA, Sighting, hex_bytes};
use crate::fold::{Folded, fold_lines};
use crate::histograms::{Metric, interval_log, percentile_table, tagged};
use crate::reader::{Record, RecordReader};
use crate::recorder::{Options, Recorder};
use crate::summary::{Evidence, Summary};
use crate::totals::Totals;
use crate::variants::Variants;

/// Far more than a file of a run folder that is read whole has.
const MOST_BYTES: u64 = 1 << 30;
const RUN: &str = "run.json";
const FINDINGS: &str = "findings.jsonl";
const PROCESSES: &str = "processes.jsonl";
const VARIANTS: &str = "variants";

/// A run folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes a new folder under `base` (which is made too) and writes `run.json`.
    ///
    /// The name is the start's time and this process's id, so that two runs at once do not meet.
    ///
    /// # Errors
    /// `base` cannot be written, or there is no room.
    pub fn create(base: &Path, facts: &RunFacts) -> Result<Self, StoreError> {
        fs::create_dir_all(base).map_err(|source| StoreError::write(base, source))?;
        let time = facts.started.strftime("%Y%m%dT%H%M%S.%3fZ");
        let name = format!("{time}-{}", std::process::id());
        let mut path = base.join(&name);
        // The same process can start two runs in one millisecond.
        for attempt in 2.. {
            match fs::create_dir(&path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path = base.join(format!("{name}-{attempt}"));
                }
                Err(source) => return Err(StoreError::write(&path, source)),
            }
        }
        let folder = Self { path };
        for sub in [folder.artifacts(), folder.histograms()] {
            fs::create_dir(&sub).map_err(|source| StoreError::write(&sub, source))?;
        }
        folder.write_facts(facts)?;
        Ok(folder)
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    /// It has no `run.json`.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.join(RUN).is_file() {
            return Err(StoreError::NotARun {
                path: path.to_path_buf(),
            });
        }
        Ok(Self {
            path: path.to_path_buf(),
        })
    }

    /// The newest run under `base`.
    ///
    /// # Errors
    /// `base` cannot be read or has no run.
    pub fn latest(base: &Path) -> Result<Self, StoreError> {
        let newest = Self::newest_first(base)?.into_iter().next();
        newest.ok_or(StoreError::NoRun {
            path: base.to_path_buf(),
        })
    }

    /// Every run under `base`, the newest first; may be none.
    ///
    /// # Errors
    /// `base` cannot be read.
    pub fn newest_first(base: &Path) -> Result<Vec<Self>, StoreError> {
        let entries = fs::read_dir(base).map_err(|source| StoreError::read(base, source))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut runs: Vec<Self> = paths
            .filter(|path| path.join(RUN).is_file())
            .map(|path| Self { path })
            .collect();
        // Names begin with the time of the start.
        runs.sort_by(|a, b| b.path.cmp(&a.path));
        Ok(runs)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where inputs are kept.
    #[must_use]
    pub fn artifacts(&self) -> PathBuf {
        self.path.join("artifacts")
    }

    /// Where capsules are kept. Made by whoever writes the first one.
    #[must_use]
    pub fn capsules(&self) -> PathBuf {
        self.path.join("capsules")
    }

    /// Where histograms are exported to.
    #[must_use]
    pub fn histograms(&self) -> PathBuf {
        self.path.join("histograms")
    }

    /// Writes `run.json` anew, in one piece.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_facts(&self, facts: &RunFacts) -> Result<(), StoreError> {
        let path = self.path.join(RUN);
        let mut text = serde_json::to_vec_pretty(facts).map_err(|source| StoreError::Json {
            path: path.clone(),
            source,
        })?;
        text.push(b'\n');
        replace(&path, &text)
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// It cannot be read, is damaged or of another schema.
    pub fn facts(&self) -> Result<RunFacts, StoreError> {
        let path = self.path.join(RUN);
        let text = fs::read_to_string(&path).map_err(|source| StoreError::read(&path, source))?;
        parse_facts(&path, &text)
    }

    /// Makes this process's record in the folder.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_record(&self, options: &Options) -> Result<Recorder, RecordError> {
        let pid = std::process::id();
        let mut path = self.path.join(format!("record-{pid}.map"));
        // Process ids come round again, in containers quickly.
        for attempt in 2.. {
            if !path.exists() {
                break;
            }
            path = self.path.join(format!("record-{pid}-{attempt}.map"));
        }
        Recorder::create(&path, options)
    }

    /// Reads all records; one that cannot be read is an error of its own and hides no other.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn records(&self) -> Result<Vec<Result<Record, RecordError>>, StoreError> {
        let entries =
            fs::read_dir(&self.path).map_err(|source| StoreError::read(&self.path, source))?;
        let paths: BTreeSet<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with("record-") && name.ends_with(".map"))
            })
            .collect();
        Ok(paths.iter().map(|path| RecordReader::open(path)).collect())
    }

    /// Appends a finding. Lines of one signature are folded when read: see [`crate::fold`].
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append_finding(&self, finding: &Finding) -> Result<(), StoreError> {
        let file = self.append(FINDINGS, finding)?;
        // A crash of the machine should not take the one full line of a signature. Where syncing is impossible (a pipe, an odd file
        // system) the line is written all the same.
        let _ = file.sync_data();
        Ok(())
    }

    /// Appends a later sighting of a finding.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append_sighting(&self, id: &str, at: Timestamp, count: u64) -> Result<(), StoreError> {
        let line = Sighting {
            schema: SCHEMA,
            again: id.to_owned(),
            last_seen: at,
            count,
        };
        self.append(FINDINGS, &line).map(drop)
    }

    /// Reads and folds the findings; no file is no finding.
    ///
    /// # Errors
    /// The file cannot be read. Lines that are damaged are counted, not errors.
    pub fn findings(&self) -> Result<Folded, StoreError> {
        Ok(fold_lines(&self.lines(FINDINGS)?))
    }

    /// The id of the finding that an artifact was kept for. A finding's line names its smallest input alone; earlier lines name those
    /// before it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn finding_of_artifact(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        let text = self.lines(FINDINGS)?;
        let mut lines = text.split(|&byte| byte == b'\n').rev();
        Ok(lines.find_map(|line| {
            let finding: Finding = serde_json::from_slice(line).ok()?;
            (finding.input.artifact_sha256.as_deref() == Some(sha256)).then_some(finding.id)
        }))
    }

    /// Writes the variants of a finding; returns the file. What an earlier file knows better stays: see [`Variants::with_earlier`].
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_variants(&self, variants: &Variants) -> Result<PathBuf, StoreError> {
        let path = self.variants_path(&variants.finding);
        let folder = self.path.join(VARIANTS);
        fs::create_dir_all(&folder).map_err(|source| StoreError::write(&folder, source))?;
        // A file that cannot be read knows nothing.
        let earlier = self.variants(&variants.finding).ok().flatten();
        let variants = match earlier {
            Some(earlier) => &variants.clone().with_earlier(earlier),
            None => variants,
        };
        let mut text = serde_json::to_vec_pretty(variants).map_err(|source| StoreError::Json {
            path: path.clone(),
            source,
        })?;
        text.push(b'\n');
        replace(&path, &text)?;
        Ok(path)
    }

    /// The variants of a finding, if they were ever tried.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn variants(&self, finding: &str) -> Result<Option<Variants>, StoreError> {
        let path = self.variants_path(finding);
        match read_file(&path, MOST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::read(&path, source)),
            Ok(text) => parse(&path, &String::from_utf8_lossy(&text)).map(Some),
        }
    }

    fn variants_path(&self, finding: &str) -> PathBuf {
        // An id read from a file may be anything: it must not lead out of the folder.
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let name: String = finding.chars().take(64).map(plain).collect();
        self.path.join(VARIANTS).join(format!("{name}.json"))
    }

    /// Appends what became of a process.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append_process(&self, end: &ProcessEnd) -> Result<(), StoreError> {
        self.append(PROCESSES, end).map(drop)
    }

    /// What became of the run's processes; damaged lines are left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn processes(&self) -> Result<Vec<ProcessEnd>, StoreError> {
        let text = self.lines(PROCESSES)?;
        let lines = text.split(|&byte| byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    /// Keeps an input under its SHA-256; returns its path relative to the folder, and the hash in hex.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_artifact(&self, bytes: &[u8]) -> Result<(String, String), StoreError> {
        let hash = hex_bytes(&Sha256::digest(bytes));
        let path = self.artifacts().join(&hash);
        if !path.exists() {
            replace(&path, bytes)?;
        }
        Ok((format!("artifacts/{hash}"), hash))
    }

    /// Exports depth and latency: an interval log of each, and a percentile table per walker and nature.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn export_histograms(&self, totals: &Totals, started: Timestamp) -> Result<(), StoreError> {
        for metric in Metric::ALL {
            let stem = metric.file_stem();
            let path = self.histograms().join(format!("{stem}.hlog"));
            let log =
                interval_log(totals, metric, started).map_err(|reason| StoreError::Histogram {
                    path: path.clone(),
                    reason,
                })?;
            replace(&path, &log)?;
            for (tag, histogram) in tagged(totals, metric) {
                let tag = tag.replace('/', "_");
                let path = self.histograms().join(format!("{stem}.{tag}.hgrm"));
                replace(&path, percentile_table(&histogram).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Reads everything and sums it up.
    ///
    /// # Errors
    /// `run.json` or the folder cannot be read.
    pub fn summary(&self) -> Result<Summary, StoreError> {
        let facts = self.facts()?;
        let records = self.records()?;
        let readable = records.iter().filter_map(|record| record.as_ref().ok());
        let totals = Totals::of(readable);
        Ok(Summary::of(Evidence {
            facts: &facts,
            totals: &totals,
            findings: &self.findings()?,
            processes: &self.processes()?,
            unreadable_records: records.iter().filter(|record| record.is_err()).count() as u64,
            folder: &self.path.to_string_lossy(),
        }))
    }

    /// Reads a file that a finding names, such as its input: one below this folder, whatever the finding says.
    ///
    /// # Errors
    /// It leads elsewhere, or is no file that can be read.
    pub fn read_named(&self, name: &str) -> io::Result<Vec<u8>> {
        read_file(&self.named(name)?, MOST_BYTES)
    }

    /// Where a file lies that a finding names.
    ///
    /// # Errors
    /// Not below this folder.
    pub fn named(&self, name: &str) -> io::Result<PathBuf> {
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if Path::new(name).components().all(inside) {
            return Ok(self.path.join(name));
        }
        let wrong = "it leads out of the run folder";
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }

    fn lines(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.path.join(name);
        match read_file(&path, MOST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            result => result.map_err(|source| StoreError::read(&path, source)),
        }
    }

    fn append(&self, name: &str, value: &impl Serialize) -> Result<File, StoreError> {
        let path = self.path.join(name);
        let json = serde_json::to_vec(value).map_err(|source| StoreError::Json {
            path: path.clone(),
            source,
        })?;
        append_line(&path, &json).map_err(|source| StoreError::write(&path, source))
    }
}

/// Reads `run.json`'s text: the schema first, since another schema's fields need not fit.
pub(crate) fn parse_facts(path: &Path, text: &str) -> Result<RunFacts, StoreError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema: u32,
    }
    let Versioned { schema } = parse(path, text)?;
    if schema != SCHEMA {
        return Err(StoreError::Schema {
            path: path.to_path_buf(),
            found: schema,
            known: SCHEMA,
        });
    }
    parse(path, text)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Json {
        path: path.to_path_buf(),
        source,
    })
}

/// Reads a regular file of at most `limit` bytes: what waits for a writer or never ends is none.
///
/// # Errors
/// As `std::fs::read`; [`io::ErrorKind::InvalidInput`] for what is no such file.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    // Before it is opened: a pipe without a writer would never be.
    let about = path.metadata()?;
    if !about.is_file() {
        return Err(wrong("it is no regular file".to_owned()));
    }
    if about.len() > limit {
        return Err(wrong(format!(
            "it has {} bytes, more than {limit}",
            about.len()
        )));
    }
    fs::read(path)
}

/// Appends a line, and returns the open file. A line that a kill or a full disk cut off spoils itself alone.
///
/// # Errors
/// The file cannot be written.
pub fn append_line(path: &Path, json: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    let mut line = Vec::with_capacity(json.len() + 2);
    if !ends_in_newline(&mut file)? {
        line.push(b'\n');
    }
    line.extend_from_slice(json);
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(file)
}

fn ends_in_newline(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    // Appending writes at the end whatever the position. A file that got shorter meanwhile gives nothing.
    Ok(file.read(&mut last)? == 0 || last == [b'\n'])
}

/// Writes a file in one piece: readers see the old content or the new.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .map_err(|source| {
            // The cause matters more than the rest of a half-written file.
            let _ = fs::remove_file(&part);
            StoreError::write(path, source)
        })
}
