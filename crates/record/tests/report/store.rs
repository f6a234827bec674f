//! Run folders: several writers, kills, full disks.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::thread;

use base64::Engine as _;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;
use walkfuzz_record::{
    FindingVerdict, Folded, Options, ProcessOutcome, RunFolder, StoreError, Totals, WitnessCount,
    fold_lines,
};

use crate::fixture::{Walks, agct, at, facts, finding, process, write_record};

fn folder() -> (tempfile::TempDir, RunFolder) {
    let base = tempfile::tempdir().unwrap();
    let run = RunFolder::create(&base.path().join("runs"), &facts()).unwrap();
    (base, run)
}

#[test]
fn what_a_finding_names_lies_below_its_run() {
    let (base, run) = folder();
    fs::write(run.path().join("artifacts/1"), b"input").unwrap();
    assert_eq!(run.read_named("artifacts/1").unwrap(), b"input");
    fs::write(base.path().join("secret"), b"secret").unwrap();
    let outside = base.path().join("secret");
    for name in ["../../secret", "artifacts/../../../secret", "/dev/zero"] {
        let error = run.read_named(name).unwrap_err();
        assert!(
            error.to_string().contains("out of the run folder"),
            "{name}"
        );
    }
    assert!(run.read_named(outside.to_str().unwrap()).is_err());
    // A pipe that nobody writes to would never be opened.
    nix::unistd::mkfifo(
        &run.path().join("findings.jsonl"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    let error = run.findings().unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}

#[test]
fn runs_at_once_get_folders_of_their_own() {
    let base = tempfile::tempdir().unwrap();
    let paths: BTreeSet<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| RunFolder::create(base.path(), &facts()).unwrap()))
            .collect();
        runs.into_iter()
            .map(|run| run.join().unwrap().path().to_path_buf())
            .collect()
    });
    assert_eq!(paths.len(), 8);
    for path in &paths {
        assert_eq!(RunFolder::open(path).unwrap().facts().unwrap(), facts());
    }
}

#[test]
fn the_latest_run_is_the_one_that_began_last() {
    let base = tempfile::tempdir().unwrap();
    let error = RunFolder::latest(base.path()).unwrap_err();
    assert!(matches!(error, StoreError::NoRun { .. }), "{error}");
    for seconds in [3, 9, 6] {
        let mut facts = facts();
        facts.started = at(seconds);
        RunFolder::create(base.path(), &facts).unwrap();
    }
    fs::create_dir(base.path().join("zzz")).unwrap();
    let latest = RunFolder::latest(base.path()).unwrap();
    assert_eq!(latest.facts().unwrap().started, at(9));
}

#[test]
fn findings_of_several_writers_fold_into_one_per_signature() {
    let (_base, run) = folder();
    let mut first = finding("a", "T4", FindingVerdict::Robustness);
    first.count = 1;
    first.first_seen = at(20);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    run.append_finding(&first).unwrap();
                    run.append_sighting(&first.id, at(59), 2).unwrap();
                }
            });
        }
    });
    // What was minimised later replaces the content; it stands for no occurrence of its own.
    let mut minimised = first.clone();
    minimised.count = 0;
    minimised.tier = "T2".into();
    minimised.first_seen = at(40);
    minimised.input.perturbation = "fp := 0".into();
    run.append_finding(&minimised).unwrap();
    let mut worse = first.clone();
    worse.count = 0;
    run.append_finding(&worse).unwrap();

    let Folded {
        findings,
        damaged_lines,
    } = run.findings().unwrap();
    assert_eq!(damaged_lines, 0);
    let [folded] = &findings[..] else {
        panic!("one signature: {findings:?}")
    };
    assert_eq!(folded.count, 300);
    assert_eq!((folded.first_seen, folded.last_seen), (at(20), at(59)));
    assert_eq!(
        (&*folded.tier, &*folded.input.perturbation),
        ("T2", "fp := 0")
    );
}

#[test]
fn an_untainted_line_speaks_for_its_signature() {
    let (_base, run) = folder();
    let clean = finding("a", "T1", FindingVerdict::Bug);
    let mut tainted = clean.clone();
    tainted.tainted = true;
    run.append_finding(&tainted).unwrap();
    run.append_finding(&clean).unwrap();
    run.append_finding(&tainted).unwrap();
    let folded = run.findings().unwrap().findings;
    assert!(!folded[0].tainted);
    assert_eq!(folded[0].count, 3 * clean.count);
}

#[test]
fn bugs_come_first_then_tiers_then_counts() {
    let (_base, run) = folder();
    let mut rare = finding("d", "T1", FindingVerdict::Bug);
    rare.count = 1;
    let order = [
        finding("a", "T0", FindingVerdict::Bug),
        finding("c", "T1", FindingVerdict::Bug),
        rare,
        finding("b", "T0", FindingVerdict::Robustness),
    ];
    for finding in order.iter().rev() {
        run.append_finding(finding).unwrap();
    }
    assert_eq!(run.findings().unwrap().findings, order);
}

#[test]
fn a_torn_line_costs_itself_alone() {
    let (_base, run) = folder();
    let path = run.path().join("findings.jsonl");
    run.append_finding(&finding("a", "T1", FindingVerdict::Bug))
        .unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"schema\":1,\"id\":\"cut o").unwrap();
    run.append_finding(&finding("b", "T1", FindingVerdict::Bug))
        .unwrap();
    let folded = run.findings().unwrap();
    assert_eq!((folded.findings.len(), folded.damaged_lines), (2, 1));
}

#[test]
fn a_full_disk_is_named() {
    let (_base, run) = folder();
    symlink("/dev/full", run.path().join("findings.jsonl")).unwrap();
    let error = run
        .append_finding(&finding("a", "T1", FindingVerdict::Bug))
        .unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("findings.jsonl"), "{error}");
}

#[test]
fn a_base_that_cannot_be_a_folder_is_named() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    // Not a folder without write permission, since root may write everywhere.
    for bad in [file.clone(), file.join("runs"), "/proc/walkfuzz".into()] {
        let error = RunFolder::create(&bad, &facts()).unwrap_err();
        assert!(matches!(error, StoreError::Write { .. }), "{error}");
        assert!(
            error.to_string().contains(&*bad.to_string_lossy()),
            "{error}"
        );
    }
    let error = RunFolder::open(base.path()).unwrap_err();
    assert!(error.to_string().ends_with("it has no run.json"), "{error}");
}

#[test]
fn another_schema_is_named() {
    let (_base, run) = folder();
    fs::write(run.path().join("run.json"), "{\"schema\": 7}").unwrap();
    let error = run.facts().unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has schema 7; this program reads 1"),
        "{error}"
    );
}

#[test]
fn an_artifact_is_kept_once_under_its_hash() {
    let (_base, run) = folder();
    let (path, hash) = run.add_artifact(b"test").unwrap();
    assert_eq!(run.add_artifact(b"test").unwrap().0, path);
    assert_eq!(
        hash,
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    );
    assert_eq!(fs::read(run.path().join(path)).unwrap(), b"test");
    assert_eq!(fs::read_dir(run.artifacts()).unwrap().count(), 1);
}

#[test]
fn records_of_restarted_processes_add_up() {
    let (_base, run) = folder();
    let walks = Walks {
        untouched: 100,
        controls: 100,
        faults: 2,
    };
    write_record(&run.path().join("record-1.map"), walks);
    write_record(&run.path().join("record-2.map"), walks);
    fs::write(run.path().join("record-3.map"), "no record").unwrap();
    // The same process twice, as after its id came round again.
    let options = Options::new(agct());
    let own = run.create_record(&options).unwrap();
    let again = run.create_record(&options).unwrap();
    assert_ne!(own.path(), again.path());
    run.append_process(&process(ProcessOutcome::Retired))
        .unwrap();

    let summary = run.summary().unwrap();
    assert_eq!(summary.walks, 2 * (100 + 1000 + 2));
    assert_eq!(summary.controls.k, 200);
    assert_eq!(
        (
            summary.evidence.records,
            summary.evidence.unreadable_records
        ),
        (4, 1)
    );
    assert_eq!(summary.processes, [(ProcessOutcome::Retired, 1)]);
    assert!(
        summary.command.starts_with("walkfuzz report "),
        "{}",
        summary.command
    );
}

#[test]
fn exported_histograms_are_read_back_by_hdrhistogram() {
    let (_base, run) = folder();
    let walks = Walks {
        untouched: 400,
        controls: 400,
        faults: 0,
    };
    let record = write_record(&run.path().join("record-1.map"), walks);
    let totals = Totals::of([&record]);
    run.export_histograms(&totals, at(0)).unwrap();
    let log = fs::read(run.histograms().join("depth-frames.hlog")).unwrap();
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        let Ok(LogEntry::Interval(interval)) = entry else {
            continue;
        };
        let bytes = base64::prelude::BASE64_STANDARD
            .decode(interval.encoded_histogram())
            .unwrap();
        let histogram: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .unwrap();
        found.push((interval.tag().unwrap().as_str().to_owned(), histogram));
    }
    let [(tag, histogram)] = &found[..] else {
        panic!("only untouched walks gave frames: {found:?}")
    };
    assert_eq!(
        (&**tag, histogram.len(), histogram.max()),
        ("agct.untouched", 400, 40)
    );
    let outcomes = totals.outcomes(Some(false));
    assert_eq!(*histogram, outcomes.depth_histogram());
    let table = run.histograms().join("latency-ns.agct.perturbed.hgrm");
    let table = fs::read_to_string(table).unwrap();
    assert!(table.contains("Total count    =         4000]"), "{table}");
}

proptest! {
    #[test]
    fn folding_is_total(noise in prop::collection::vec(any::<u8>(), 0..400), at in 0..3000_usize) {
        let mut finding = finding("a", "T1", FindingVerdict::Bug);
        finding.count = u64::MAX;
        finding.witness = WitnessCount { observed: 1, of: 1 };
        let mut text = serde_json::to_vec(&finding).unwrap();
        text.push(b'\n');
        text.extend(text.clone());
        prop_assert_eq!(fold_lines(&text).findings[0].count, u64::MAX);
        let place = at.min(text.len());
        text.splice(place..place, noise);
        let folded = fold_lines(&text);
        prop_assert!(folded.findings.len() <= 1);
    }
}
