//! Looking a finding up by what people type: its id, a prefix of it, `RUNFOLDER:ID`, the path of its artifact or of its capsule, or an entry of
//! the corpus.
//!
//! Subcommands that need a finding of a run ask [`find_finding`], those that make do with a capsule [`known_finding`], and those that treat
//! entries in their own way [`named`].

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use walkfuzz_harness::quoted;
use walkfuzz_harness::snapshots::CAPSULE;
use walkfuzz_record::{Finding, RunFolder};
use walkfuzz_triage::corpus::Entry;

use crate::failure::Failure;
use crate::finding_of_capsule::finding_of_capsule;
use crate::replay::read;

/// What people point at when they mean a finding.
pub(crate) enum Named {
    /// A finding of a run.
    Finding(RunFolder, Box<Finding>),
    /// An entry of the corpus, and the file that it was read from.
    Entry(PathBuf, Box<Entry>),
    /// A capsule of which neither a run folder nor a corpus around it says more.
    Capsule(PathBuf),
}

/// What `text` names: as [`find_finding`]; or an entry of the corpus (`NAME.toml`); or a capsule, which leads to the finding of its run folder
/// or to the entry beside it, if there is one. A capsule is not read.
///
/// # Errors
/// As [`find_finding`]; or an entry that is none.
pub(crate) fn named(text: &str, runs: &Path) -> Result<Named, Failure> {
    let path = Path::new(text);
    let ends_in = |end: &str| path.extension().is_some_and(|known| known == end);
    if ends_in("toml") {
        let entry = Entry::read(path).map_err(Failure::usage)?;
        return Ok(Named::Entry(path.to_owned(), Box::new(entry)));
    }
    if path.is_file() && is_capsule(path) {
        if let Some((run, finding)) = of_capsule(path)? {
            return Ok(Named::Finding(run, Box::new(finding)));
        }
        let beside = path.with_extension("toml");
        if ends_in(CAPSULE) && beside.is_file() {
            let entry = Entry::read(&beside).map_err(Failure::usage)?;
            return Ok(Named::Entry(beside, Box::new(entry)));
        }
        return Ok(Named::Capsule(path.to_owned()));
    }
    let (run, finding) = find_finding(text, runs)?;
    Ok(Named::Finding(run, Box::new(finding)))
}

/// The finding that `text` names in any of these ways, with its run folder if it is in one: of an entry or a capsule it is what the capsule
/// tells.
///
/// # Errors
/// As [`named`]; an entry without a capsule, a capsule that is none.
pub(crate) fn known_finding(
    text: &str,
    runs: &Path,
) -> Result<(Option<RunFolder>, Finding), Failure> {
    match named(text, runs)? {
        Named::Finding(run, finding) => Ok((Some(run), *finding)),
        Named::Capsule(file) => {
            let finding = finding_of_capsule(&file, &read(&file)?, None)?;
            Ok((None, finding))
        }
        Named::Entry(path, entry) => {
            let file = path.with_extension(CAPSULE);
            if !file.is_file() {
                return Err(Failure::usage(format_args!(
                    "{text} has no capsule beside it, and an entry alone says too little; walkfuzz repro {} makes a finding of it",
                    quoted(text)
                )));
            }
            let finding = finding_of_capsule(&file, &read(&file)?, Some(&entry))?;
            Ok((None, finding))
        }
    }
}

/// The first bytes of a zstd frame (RFC 8878), which a capsule is.
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn is_capsule(path: &Path) -> bool {
    let mut begin = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == ZSTD
}

/// The finding whose capsule the file is: `RUNFOLDER/capsules/ID.wfcap`.
fn of_capsule(path: &Path) -> Result<Option<(RunFolder, Finding)>, Failure> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let run = absolute.parent().and_then(Path::parent);
    let Some(Ok(run)) = run.map(RunFolder::open) else {
        return Ok(None);
    };
    let found = run.findings()?.findings.into_iter().find(|finding| {
        let kept = finding.capsule.path.as_ref();
        kept.is_some_and(|kept| run.path().join(kept) == absolute)
    });
    Ok(found.map(|finding| (run, finding)))
}

/// The finding that `text` names, and the run folder it stands in. Ids are looked up in the runs under `runs`, the newest first; folders
/// before a colon are taken as they stand, or as names under `runs`.
///
/// # Errors
/// Wrong usage: nothing, or more than one finding, goes by that name; no such run. Environment: a run cannot be read.
pub(crate) fn find_finding(text: &str, runs: &Path) -> Result<(RunFolder, Finding), Failure> {
    let path = Path::new(text);
    if path.is_file() {
        return of_artifact(path);
    }
    if let Some((folder, id)) = text.rsplit_once(':') {
        let named = PathBuf::from(folder);
        let folder = if named.exists() {
            named
        } else {
            runs.join(named)
        };
        let place = folder.display().to_string();
        return of_id(id, &[RunFolder::open(&folder)?], &place);
    }
    if text.contains('/') {
        return Err(Failure::usage(format_args!(
            "no finding {text}: there is no such file"
        )));
    }
    let place = runs.display().to_string();
    let all = RunFolder::newest_first(runs).map_err(|error| {
        Failure::usage(format_args!(
            "no run to look finding {text} up in: {error}; --runs says where they are"
        ))
    })?;
    if all.is_empty() {
        return Err(Failure::usage(format_args!(
            "no run in {place} to look finding {text} up in; --runs says where they are"
        )));
    }
    of_id(text, &all, &place)
}

/// The finding that an artifact was kept for: `RUNFOLDER/artifacts/SHA256`.
fn of_artifact(path: &Path) -> Result<(RunFolder, Finding), Failure> {
    let stray = || {
        Failure::usage(format_args!(
            "{} is no artifact of a run folder (RUNFOLDER/artifacts/HASH)",
            path.display()
        ))
    };
    let absolute = std::path::absolute(path).map_err(|_| stray())?;
    let hash = absolute.file_name().and_then(|name| name.to_str());
    let run = absolute.parent().and_then(Path::parent);
    let (Some(hash), Some(run)) = (hash, run) else {
        return Err(stray());
    };
    let folder = RunFolder::open(run).map_err(|_| stray())?;
    let Some(id) = folder.finding_of_artifact(hash)? else {
        return Err(Failure::usage(format_args!(
            "no finding of {} has the artifact {hash}",
            run.display()
        )));
    };
    of_id(&id, &[folder], &run.display().to_string())
}

/// The finding whose id begins with `prefix`, of the first run that has it.
fn of_id(prefix: &str, runs: &[RunFolder], place: &str) -> Result<(RunFolder, Finding), Failure> {
    /// Digits of a whole id: see `Finding::id_of`.
    const WHOLE: usize = 12;
    if prefix.is_empty() {
        return Err(Failure::usage(
            "no finding named: give its id, or the beginning of it",
        ));
    }
    let mut found: Vec<(RunFolder, Finding)> = Vec::new();
    let mut there: Vec<String> = Vec::new();
    let mut damaged = 0;
    for run in runs {
        let folded = run.findings()?;
        damaged += folded.damaged_lines;
        for finding in folded.findings {
            if !there.contains(&finding.id) {
                there.push(finding.id.clone());
            }
            let known = found.iter().any(|(_, known)| known.id == finding.id);
            if finding.id.starts_with(prefix) && !known {
                found.push((run.clone(), finding));
            }
        }
        if prefix.len() == WHOLE && !found.is_empty() {
            break;
        }
    }
    if found.len() > 1 {
        let ids: Vec<&str> = found.iter().map(|(_, finding)| &*finding.id).collect();
        return Err(Failure::usage(format_args!(
            "{prefix} is the beginning of more than one finding's id: {}",
            ids.join(", ")
        )));
    }
    found.pop().ok_or_else(|| {
        let n = runs.len();
        let runs = if n == 1 { "run" } else { "runs" };
        Failure::usage(format_args!(
            "no finding {prefix} in {place} ({n} {runs}); {}",
            instead(prefix, &there, damaged)
        ))
    })
}

/// What there is when something else was asked for: the ids that begin most like it.
fn instead(prefix: &str, there: &[String], damaged: u64) -> String {
    /// As many as fit into a sentence.
    const NAMED: usize = 6;
    let broken = match damaged {
        0 => String::new(),
        1 => ", and 1 line of findings is damaged".to_owned(),
        n => format!(", and {n} lines of findings are damaged"),
    };
    if there.is_empty() {
        return format!("none of them has findings{broken}");
    }
    let in_common = |id: &str| {
        let pairs = id.chars().zip(prefix.chars());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let mut nearest: Vec<&str> = there.iter().map(String::as_str).collect();
    // The sort keeps the order of runs, the newest first.
    nearest.sort_by_key(|id| std::cmp::Reverse(in_common(id)));
    nearest.truncate(NAMED);
    let more = match there.len() - nearest.len() {
        0 => String::new(),
        more => format!(" and {more} more (`walkfuzz report --findings` lists those of a run)"),
    };
    format!("it has {}{more}{broken}", nearest.join(", "))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    /// A run folder with findings as lines of JSON: id, artifact hash.
    fn run(base: &Path, name: &str, findings: &[(&str, &str)]) {
        let folder = base.join(name);
        std::fs::create_dir_all(folder.join("artifacts")).unwrap();
        std::fs::write(folder.join("run.json"), "{}").unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let mut text = String::new();
        for (id, hash) in findings {
            std::fs::write(folder.join("artifacts").join(hash), "x").unwrap();
            let line = json!({
                "schema": 1, "id": id, "signature": id, "title": name, "verdict": "robustness", "tier": "T4",
                "witness": {"observed": 0, "of": 1},
                "walker": {"name": "agct", "generation": "agct", "version": "17"},
                "outcome": {"kind": "fault", "signal": "SIGSEGV", "code": 1, "code_name": null, "address": null, "detail": null},
                "registers": {"before": {}, "after": {}, "edited": []}, "site": null,
                "blob": {"kind": "nmethod", "name": null, "offset": null},
                "input": {"perturbation": "", "bytes": "", "artifact": format!("artifacts/{hash}"),
                    "artifact_sha256": hash, "index": 0},
                "engine": "live", "thread": 0, "reliability": {"frozen": null, "portability": null},
                "first_seen": now, "last_seen": now, "count": 1, "tainted": false,
                "jvm": {"version": "17", "vendor": "", "build_id": "", "collector": "g1", "options": []},
                "machine": {"arch": "x86_64", "kernel": "6", "cpus": 2, "emulated": false}, "commands": [],
            });
            text.push_str(&format!("{line}\n"));
        }
        std::fs::write(folder.join("findings.jsonl"), text).unwrap();
    }

    fn two_runs() -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        run(
            base.path(),
            "20260101T000000.000Z-1",
            &[("aaaaaaaaaaa1", "h1"), ("abbbbbbbbbbb", "h2")],
        );
        run(
            base.path(),
            "20260201T000000.000Z-1",
            // The same finding twice: first seen with one input, minimised to another.
            &[("aaaaaaaaaaa1", "h3"), ("aaaaaaaaaaa1", "h4")],
        );
        base
    }

    fn failure(text: &str, base: &Path) -> String {
        let failure = find_finding(text, base).unwrap_err();
        assert_eq!(failure.code, crate::failure::USAGE);
        failure.message
    }

    #[test]
    fn a_prefix_finds_the_newest_run_that_has_it() {
        let base = two_runs();
        for text in ["aaaaaaaaaaa1", "aa"] {
            let (run, finding) = find_finding(text, base.path()).unwrap();
            assert!(run.path().ends_with("20260201T000000.000Z-1"));
            assert_eq!(finding.title, "20260201T000000.000Z-1");
        }
        let (run, _) = find_finding("ab", base.path()).unwrap();
        assert!(run.path().ends_with("20260101T000000.000Z-1"));
        assert!(failure("a", base.path()).contains("aaaaaaaaaaa1, abbbbbbbbbbb"));
        assert!(failure("c", base.path()).contains("(2 runs)"));
        assert!(failure("", base.path()).contains("no finding named"));
        assert!(failure("aa", &base.path().join("nowhere")).contains("--runs"));
    }

    #[test]
    fn a_run_can_be_named_by_path_or_by_name() {
        let base = two_runs();
        let name = "20260101T000000.000Z-1";
        let path = base.path().join(name).display().to_string();
        for text in [format!("{name}:aa"), format!("{path}:aa")] {
            let (run, finding) = find_finding(&text, base.path()).unwrap();
            assert!(run.path().ends_with(name));
            assert_eq!(finding.id, "aaaaaaaaaaa1");
        }
        assert!(failure("20990101:aa", base.path()).contains("not a run folder"));
    }

    #[test]
    fn an_artifact_leads_to_its_finding_even_if_a_smaller_one_came_later() {
        let base = two_runs();
        let artifacts = base.path().join("20260201T000000.000Z-1/artifacts");
        for hash in ["h3", "h4"] {
            let text = artifacts.join(hash).display().to_string();
            let (_, finding) = find_finding(&text, Path::new("nowhere")).unwrap();
            assert_eq!(finding.id, "aaaaaaaaaaa1");
        }
        std::fs::write(artifacts.join("h9"), "x").unwrap();
        let stray = artifacts.join("h9").display().to_string();
        assert!(failure(&stray, base.path()).contains("no finding of"));
        let elsewhere = base.path().join("file");
        std::fs::write(&elsewhere, "x").unwrap();
        let text = elsewhere.display().to_string();
        assert!(failure(&text, base.path()).contains("no artifact of a run folder"));
        assert!(failure("no/such/file", base.path()).contains("no such file"));
    }
}
