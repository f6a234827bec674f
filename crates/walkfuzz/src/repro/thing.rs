//! What `repro` was given: recognised by its contents, not by its name.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use walkfuzz_context::Batch;
use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_record::{Finding, Record, RecordReader, RunFolder};
use walkfuzz_triage::CrashLog;

use crate::failure::Failure;
use crate::finding::find_finding;

/// The most that is read of a crash log: real ones have some hundred kilobytes.
const MOST: u64 = 16 << 20;
/// The first bytes of a zstd frame (RFC 8878), which a capsule is.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Something to reproduce.
pub(crate) enum Thing {
    /// A finding of a run.
    Finding(RunFolder, Box<Finding>),
    /// All findings of a run.
    Run(RunFolder),
    /// An input of the fuzzer that belongs to no run.
    Artifact(PathBuf),
    /// A walk in a file.
    Capsule(PathBuf),
    /// What a killed process has left.
    Record(Box<Record>),
    /// A JVM's crash log.
    CrashLog(PathBuf, Box<CrashLog>),
}

impl Thing {
    /// What `text` names: a path, or a finding in the runs under `runs`.
    pub(crate) fn identify(text: &str, runs: &Path) -> Result<Self, Failure> {
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Thing::Run(RunFolder::open(path)?));
        }
        if !path.exists() {
            let (run, finding) = find_finding(text, runs)?;
            return Ok(Thing::Finding(run, Box::new(finding)));
        }
        let bytes = read(path)?;
        if bytes.starts_with(&ZSTD) {
            return Ok(Thing::Capsule(path.to_owned()));
        }
        if let Ok(record) = RecordReader::open(path) {
            return Ok(Thing::Record(Box::new(record)));
        }
        let log = CrashLog::parse(&bytes);
        if log.is_crash_log() {
            return Ok(Thing::CrashLog(path.to_owned(), Box::new(log)));
        }
        if bytes.is_empty() || bytes.len() > MAX_BATCH_BYTES {
            return Err(Failure::usage(format_args!(
                "{text} is no finding, run folder, input, capsule, record or crash log"
            )));
        }
        artifact(path, &bytes)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| Failure::usage(format_args!("cannot read {}: {error}", path.display()));
    // Before it is opened: a pipe without a writer would never be.
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err(Failure::usage(format_args!(
            "{} is no file",
            path.display()
        )));
    }
    let file = File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// An input: of a finding, if it lies in a run folder that knows it.
fn artifact(path: &Path, bytes: &[u8]) -> Result<Thing, Failure> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let run = absolute
        .parent()
        .and_then(Path::parent)
        .map(RunFolder::open);
    if let Some(Ok(run)) = run {
        let known = run.findings()?.findings.into_iter().find(|finding| {
            let artifact = finding.input.artifact.as_ref();
            artifact.is_some_and(|artifact| run.path().join(artifact) == absolute)
        });
        if let Some(finding) = known {
            return Ok(Thing::Finding(run, Box::new(finding)));
        }
    }
    if Batch::decode(bytes)
        .walks()
        .iter()
        .all(|walk| walk.is_untouched())
    {
        return Err(Failure::usage(format_args!(
            "{} says nothing to do to a context: it is no input of the fuzzer, or an untouched one",
            path.display()
        )));
    }
    Ok(Thing::Artifact(absolute))
}
