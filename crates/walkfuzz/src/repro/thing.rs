//! What `repro` was given: recognised by its contents, not by its name.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use walkfuzz_context::Batch;
use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_record::{Finding, Record, RecordError, RecordReader, RunFolder};
use walkfuzz_triage::CrashLog;
use walkfuzz_triage::corpus::Entry;

use crate::failure::Failure;
use crate::finding::{ZSTD, find_finding};

/// The most that is read of a crash log: real ones have some hundred kilobytes.
const MOST: u64 = 16 << 20;

/// Something to reproduce.
pub(crate) enum Thing {
    /// A finding of a run.
    Finding(RunFolder, Box<Finding>),
    /// All findings of a run.
    Run(RunFolder),
    /// An input of the fuzzer that belongs to no run, and what is odd about it.
    Artifact {
        path: PathBuf,
        bytes: Vec<u8>,
        note: Option<String>,
    },
    /// An entry of the corpus.
    Entry(Box<Entry>),
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
        match RecordReader::open(path) {
            Ok(record) => return Ok(Thing::Record(Box::new(record))),
            Err(RecordError::NotARecord { .. }) => {}
            Err(error) => return Err(Failure::usage(error)),
        }
        let log = CrashLog::parse(&bytes);
        if log.is_crash_log() {
            if log.another_follows {
                eprintln!("walkfuzz: {text} holds more than one crash log; the first is meant");
            }
            return Ok(Thing::CrashLog(path.to_owned(), Box::new(log)));
        }
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            return entry(path);
        }
        if bytes.is_empty() || bytes.len() > MAX_BATCH_BYTES {
            return Err(Failure::usage(format_args!(
                "{text} is no finding, run folder, input, capsule, record, corpus entry or crash log"
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
    let batch = Batch::decode(bytes);
    if batch.walks().iter().all(|walk| walk.is_untouched()) {
        return Err(Failure::usage(format_args!(
            "{} says nothing to do to a context: it is no input of the fuzzer, or an untouched one",
            path.display()
        )));
    }
    // The fuzzer's own mutator writes nothing else; another fuzzer's may, and any bytes are an input. A text is none on purpose.
    let ours = batch.to_bytes() == bytes;
    if !ours && is_text(bytes) {
        return Err(Failure::usage(format_args!(
            "{} is a text, and no finding, run folder, input, capsule, record, corpus entry or crash log",
            path.display()
        )));
    }
    let note = "it is not written as walkfuzz writes inputs: it may be none, or another fuzzer's";
    Ok(Thing::Artifact {
        path: absolute,
        bytes: bytes.to_vec(),
        note: (!ours).then(|| note.to_owned()),
    })
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        !text
            .chars()
            .any(|c| c.is_control() && !"\n\r\t".contains(c))
    })
}

fn entry(path: &Path) -> Result<Thing, Failure> {
    let entry = Entry::read(path).map_err(Failure::usage)?;
    if entry.signature.is_empty() {
        return Err(Failure::usage(format_args!(
            "{} is walked without harm: there is nothing to reproduce (`walkfuzz corpus check` walks it)",
            entry.name
        )));
    }
    Ok(Thing::Entry(Box::new(entry)))
}
