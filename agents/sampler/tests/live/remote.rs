//! Walks that another thread makes.

use serde_json::Value;
use walkfuzz_record::{Counter, Record, RecordReader, Tally};

use crate::support::{Run, counter, load_into, releases, tally, text, wait_for};

/// The walks of the record's walker of that name.
pub(crate) fn walks_of(record: &Record, walker: &str, perturbed: bool) -> Tally {
    let mut sum = Tally::default();
    for lane in &record.lanes {
        for (id, nature, tally) in &lane.tallies {
            let named = record.walker(*id).is_some_and(|known| known.name == walker);
            if named && *nature == perturbed {
                sum.add(tally);
            }
        }
    }
    sum
}

pub(crate) fn number(summary: &Value, field: &str) -> u64 {
    summary["remote"][field].as_u64().unwrap()
}

#[test]
fn a_thread_that_waits_is_walked_as_it_walks_itself() {
    for jdk in releases() {
        for walker in ["agct-remote-env", "agct-remote-tid"] {
            let options = format!("walker={walker},interval=300us");
            let Some(mut run) = Run::new(&jdk, &options, "2 spin spin sleep threads") else {
                return;
            };
            let record = run.record();
            let summary = run.summary();
            println!("{} {walker}: {}", jdk.version, summary["remote"]);
            let (outside, own) = (
                walks_of(&record, walker, false),
                walks_of(&record, "agct", false),
            );
            assert!(outside.frames() > 100, "{:?}", outside.codes());
            assert!(own.walks() >= outside.walks());
            assert_eq!(outside.wrong_frames() + outside.faults(), 0);
            assert!(number(&summary, "pairs") > 100);
            assert_eq!(number(&summary, "different"), 0);
            assert_eq!(
                number(&summary, "equal") + number(&summary, "ignored"),
                number(&summary, "pairs")
            );
            assert_eq!(number(&summary, "exits-unwaited"), 0);
            assert_eq!(
                summary["remote"]["sets-key"],
                Value::Bool(jdk.version.feature() >= 17)
            );
            assert!(summary["remote"]["held"]["median"]["ns"].as_f64().unwrap() > 0.0);
            assert_eq!(tally(&record, true).walks(), number(&summary, "left"));
        }
    }
}

#[test]
fn a_thread_that_runs_on_is_walked_and_survives_it() {
    for jdk in releases() {
        let options = "walker=agct-remote-running,interval=200us";
        let Some(mut run) = Run::new(&jdk, options, "2 spin spin threads threads") else {
            return;
        };
        let record = run.record();
        let summary = run.summary();
        println!("{}: {}", jdk.version, summary["remote"]);
        let outside = walks_of(&record, "agct-remote-running", true);
        assert!(outside.frames() > 100, "{:?}", outside.codes());
        assert_eq!(
            outside.wrong_frames(),
            number(&summary, "silently-different")
        );
        assert_eq!(outside.faults(), number(&summary, "faults"));
        assert_eq!(
            walks_of(&record, "agct-remote-running", false).walks(),
            0,
            "no context of theirs is untouched"
        );
        assert_eq!(tally(&record, false).faults(), 0, "the handlers' own walks");
        assert_eq!(number(&summary, "exits-unwaited"), 0);
        assert_eq!(summary["remote"]["held"], Value::Null);
        assert!(summary["threads"].as_u64().unwrap() > 20);
    }
}

#[test]
fn a_jvm_may_end_while_its_threads_are_walked() {
    for jdk in releases() {
        for walker in ["agct-remote-tid", "agct-remote-running"] {
            let options = format!("walker={walker},interval=200us");
            let Some(mut run) = Run::new(&jdk, &options, "600 spin spin threads leave") else {
                return;
            };
            let output = run.output();
            assert_eq!(output.status.code(), Some(0), "{}", text(&output));
            let record = run.read();
            assert!(record.ended.is_some(), "the record was not closed");
            let walks = walks_of(&record, walker, walker.ends_with("running"));
            println!("{} {walker}: {} walks", jdk.version, walks.walks());
            assert!(walks.walks() > 20);
        }
    }
}

#[test]
fn walking_from_outside_begins_and_ends_again_and_again_in_a_running_jvm() {
    for jdk in releases() {
        if !jdk.home.join("bin/jcmd").is_file() {
            println!("skip: {} has no jcmd", jdk.home.display());
            continue;
        }
        let Some(mut run) = Run::new(&jdk, "", "600 spin spin threads threads") else {
            return;
        };
        let (mut child, pid) = run.start();
        let modes = ["agct-remote-running", "agct-remote-env", "agct-remote-tid"];
        for (round, walker) in modes.iter().cycle().take(4).enumerate() {
            let path = run.record_path().with_extension(round.to_string());
            let options = format!(
                "record={},walker={walker},interval=300us,churn=20ms",
                path.display()
            );
            let loaded = load_into(&jdk, pid, &options);
            assert!(
                text(&loaded).contains("return code: 0"),
                "{}",
                text(&loaded)
            );
            let read = || RecordReader::open(&path).unwrap();
            wait_for("50 samples", || counter(&read(), Counter::Samples) > 50);
            let stopped = load_into(&jdk, pid, "stop");
            assert!(
                text(&stopped).contains("return code: 0"),
                "{}",
                text(&stopped)
            );
            assert!(read().ended.is_some(), "{}", jdk.version);
        }
        // SAFETY: a process that this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        child.wait().unwrap();
    }
}

/// A thread that ends waits for a walk of it also while the sampling comes to its end: its `JavaThread` is gone afterwards.
#[test]
fn threads_may_end_while_walking_from_outside_is_stopped() {
    const ROUNDS: usize = 8;
    for jdk in releases() {
        if !jdk.home.join("bin/jcmd").is_file() {
            println!("skip: {} has no jcmd", jdk.home.display());
            continue;
        }
        let Some(mut run) = Run::new(&jdk, "", &format!("600 spin{}", " threads".repeat(8))) else {
            return;
        };
        let (mut child, pid) = run.start();
        let (mut ended, mut walked) = (0, 0);
        for round in 0..ROUNDS {
            let path = run.record_path().with_extension(round.to_string());
            let options = format!(
                "record={},walker=agct-remote-running,interval=50us",
                path.display()
            );
            let loaded = text(&load_into(&jdk, pid, &options));
            assert!(loaded.contains("return code: 0"), "{loaded}");
            let read = || RecordReader::open(&path).unwrap();
            wait_for("50 samples", || counter(&read(), Counter::Samples) > 50);
            let stopped = text(&load_into(&jdk, pid, "stop"));
            assert!(stopped.contains("return code: 0"), "{stopped}");
            let summary = std::fs::read(format!("{}.json", path.display())).unwrap();
            let summary: Value = serde_json::from_slice(&summary).unwrap();
            assert_eq!(number(&summary, "exits-unwaited"), 0, "{summary}");
            ended += summary["threads"].as_u64().unwrap();
            walked += number(&summary, "walks");
        }
        println!(
            "{}: {ended} threads, {walked} walks, {ROUNDS} ends",
            jdk.version
        );
        assert!(ended > 20 * ROUNDS as u64 && walked > 20 * ROUNDS as u64);
        assert_eq!(run.crash_log(), None);
        // SAFETY: a process that this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        child.wait().unwrap();
    }
}
