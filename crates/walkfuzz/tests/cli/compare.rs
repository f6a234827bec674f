//! `walkfuzz compare`, and sessions with an oracle.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, is_match};
use walkfuzz_capsule::Capsule;
use walkfuzz_jvm::Jdk;

use crate::support::{fails, folder, jdk, json, nowhere, walkfuzz};

fn compare(jdk: &Jdk, runs: &Path) -> Command {
    let mut command = walkfuzz();
    command
        .args(["compare", "--seconds", "60", "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(runs)
        .timeout(Duration::from_secs(200));
    command
}

#[test]
fn walkers_that_cannot_be_compared_are_named() {
    let home = folder();
    for (walkers, sentence) in [
        ("agct", "names 1 walkers, and two are compared"),
        ("agct,reference,agct", "names 3 walkers"),
        ("agct,agct", "names agct twice"),
        (
            "agct,jfr",
            "no walker is called jfr: there is agct, reference or a library",
        ),
    ] {
        let mut command = nowhere(&home);
        fails(command.args(["compare", "--walkers", walkers]), 2, sentence);
        let mut command = nowhere(&home);
        fails(
            command.args(["compare", "--json", "--walkers", walkers]),
            2,
            sentence,
        );
    }
}

#[test]
fn settings_that_mean_nothing_are_named() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    for (name, value, sentence) in [
        (
            "WALKFUZZ_WALKER",
            "jfr",
            "WALKFUZZ_WALKER=jfr means nothing: wanted agct, reference, agct-remote-env, agct-remote-tid, agct-remote-running, request-stack-trace, asgst-iterator-frame, asgst-minimal-frame or a library",
        ),
        (
            "WALKFUZZ_WALKER",
            "/lib.so@sha256:12",
            "12 is no SHA-256: write PATH@sha256: and 64 hexadecimal digits",
        ),
        (
            "WALKFUZZ_ORACLE",
            "jfr",
            "WALKFUZZ_ORACLE=jfr means nothing: wanted none, agct, reference or a library",
        ),
        (
            "WALKFUZZ_ORACLE",
            "agct",
            "wanted another walker than the one under test",
        ),
    ] {
        let mut command = walkfuzz();
        command
            .args(["step", "--walks", "10", "--jdk"])
            .arg(&jdk.home)
            .arg("--runs")
            .arg(runs.path())
            .env(name, value);
        fails(&mut command, 2, sentence);
    }
}

#[test]
fn a_dry_run_says_what_would_be_run() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    compare(&jdk, runs.path())
        .args([
            "--dry-run",
            "--walkers",
            "reference,agct",
            "--contexts",
            "7",
        ])
        .assert()
        .code(0)
        .stdout(contains("WALKFUZZ_WALKER=reference WALKFUZZ_ORACLE=agct"))
        .stdout(contains("walkfuzz in-jvm compare"))
        .stdout(contains("\"contexts\":7"));
    assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 0);
}

#[test]
fn two_walkers_are_compared() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    let output = compare(&jdk, runs.path())
        .args([
            "--contexts",
            "20000",
            "--in-copy",
            "2000",
            "--json",
            "--fail-on",
            "bug",
        ])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = json(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{errors}\n{said:#}");
    assert_eq!(said["walkers"][0]["name"], "agct");
    assert_eq!(said["walkers"][1]["name"], "reference");
    let tiers = said["tiers"].as_array().unwrap();
    assert_eq!(tiers[0]["tier"], "T0");
    assert!(tiers[0]["agree"].as_u64() > Some(100), "{said:#}");
    let contexts: u64 = tiers
        .iter()
        .filter_map(|row| row["contexts"].as_u64())
        .sum();
    assert!(contexts >= 20_000, "{said:#}");
    assert!(said["copies"].as_u64() > Some(0));
    let jvmti = &said["jvmti"];
    assert!(jvmti["stood_still"].as_u64() > Some(20), "{jvmti:#}");
    for walker in 0..2 {
        let row = &jvmti["walkers"][walker];
        assert_eq!(row["name"], said["walkers"][walker]["name"]);
        assert!(row["agree"].as_u64() > Some(10), "{jvmti:#}");
    }
    let run = fs::read_dir(runs.path())
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let kept = fs::read(run.join("comparison.json")).unwrap();
    assert_eq!(json(&kept), said);
    let facts = json(&fs::read(run.join("run.json")).unwrap());
    assert_eq!(facts["driver"], "compare");
    assert_eq!(facts["oracle"], "reference");
    assert!(!facts["finished"].is_null(), "{facts:#}");
}

#[test]
fn the_screen_has_tiers_reasons_and_codes() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    compare(&jdk, runs.path())
        .args(["--contexts", "12000", "--in-copy", "2000"])
        .assert()
        .code(0)
        .stdout(contains("walkfuzz compare agct and reference"))
        .stdout(
            is_match(r"agree or differ in a known way \([0-9.]+ %\); equal [0-9,]+ \([0-9.]+ %\)")
                .unwrap(),
        )
        .stdout(contains("T4"))
        .stdout(contains("reference gives frames, unproven"))
        .stdout(contains("threads outside Java: "))
        .stdout(contains("beside jvmti"));
    // Too little to say anything.
    compare(&jdk, runs.path())
        .args(["--contexts", "10", "--in-copy", "10", "--jvmti", "0"])
        .assert()
        .code(4)
        .stdout(contains("jvmti").not());
}

/// AsyncGetCallTrace takes a return address for an instruction, and half a frame for a whole one: an oracle sees that at untouched contexts.
#[test]
fn wrong_frames_are_findings_that_can_be_explained_and_reproduced() {
    let Some(jdk) = jdk() else { return };
    if !walkfuzz_engine::can_step() {
        eprintln!("skip: this processor cannot step itself");
        return;
    }
    let runs = folder();
    let mut step = walkfuzz();
    step.args(["step", "--json", "--walks", "80000", "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(runs.path())
        .env("WALKFUZZ_ORACLE", "reference")
        .timeout(Duration::from_secs(300));
    let output = step.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let summary = json(&output.stdout);
    let oracle = &summary["oracle"];
    assert!(oracle["compared"].as_u64() > Some(10_000), "{oracle}");
    assert!(oracle["wrong"].as_u64() > Some(0), "{oracle}");
    let findings = summary["findings"].as_array().unwrap();
    let wrong = |finding: &&serde_json::Value| {
        let title = finding["title"].as_str().unwrap_or_default();
        title.starts_with("wrong frames of agct: ") && title.ends_with("reference disagrees [T0]")
    };
    // What was seen most often comes back soonest.
    let found = findings.iter().filter(wrong);
    let finding = found
        .max_by_key(|finding| finding["count"].as_u64())
        .unwrap_or_else(|| panic!("{summary:#}"));
    assert_eq!(finding["verdict"], "bug");
    let id = finding["id"].as_str().unwrap();
    walkfuzz()
        .args(["explain", id, "--runs"])
        .arg(runs.path())
        .assert()
        .code(0)
        .stdout(contains("The walk gave frames that are wrong"))
        .stdout(contains("Frames of both walkers"));
    walkfuzz()
        .args(["repro", id, "--budget", "120s", "--runs"])
        .arg(runs.path())
        .args(["--jdk"])
        .arg(&jdk.home)
        .timeout(Duration::from_secs(300))
        .assert()
        .code(0)
        .stdout(contains("reproduced"));
    let run = fs::read_dir(runs.path()).unwrap().flatten();
    let mut capsules = run.map(|run| run.path().join(format!("capsules/{id}.wfcap")));
    let capsule = capsules.find(|path| path.exists());
    compared_without_a_jvm(&capsule.unwrap_or_else(|| panic!("{finding:#}")));
}

/// A capsule of wrong frames says by itself that they are wrong.
fn compared_without_a_jvm(file: &Path) {
    let alone = || {
        let mut command = walkfuzz();
        command.arg("compare").arg(file);
        command
    };
    let output = alone().arg("--json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let said = json(&output.stdout);
    let row = &said["tiers"][0];
    assert_eq!(
        (row["contexts"].as_u64(), row["differ"].as_u64()),
        (Some(1), Some(1))
    );
    let example = &said["examples"][0]["contradiction"];
    assert!(!example["known"].is_null(), "{example}");
    for voice in ["given", "expected"] {
        let method = example[voice][0]["method"].as_str();
        assert!(method.is_some_and(|name| name.contains('(')), "{example}");
    }
    alone()
        .args(["--walkers", "reference,agct", "--fail-on", "bug"])
        .assert()
        .code(0)
        .stdout(contains("walkfuzz compare agct and reference"))
        .stdout(contains("1 of 1 walks in which both give frames"));
    fails(
        alone().args(["--walkers", "agct,./libmine.so"]),
        2,
        "say --walkers agct,reference",
    );
    fails(alone().args(["--seconds", "5"]), 2, "cannot be used with");
    walkfuzz()
        .arg("minimise")
        .arg(file)
        .assert()
        .code(0)
        .stdout(contains("wrong-frames|"));
    let folder = folder();
    let moved = folder.path().join("moved.wfcap");
    fs::copy(file, &moved).unwrap();
    walkfuzz()
        .arg("explain")
        .arg(&moved)
        .assert()
        .code(0)
        .stdout(contains("The walk gave frames that are wrong"))
        .stdout(contains("Frames of both walkers"));
    let mut repro = walkfuzz();
    repro
        .arg("repro")
        .arg(file)
        .assert()
        .code(0)
        .stdout(contains("its oracle was asked again"));
    let other = folder.path().join("other.wfcap");
    let mut capsule = Capsule::read(file).unwrap();
    let signature = capsule.facts.signature.replace("frame 0", "a later frame");
    let other_place = capsule.facts.signature.replace("a later frame", "frame 0");
    capsule.facts.signature = if signature == capsule.facts.signature {
        other_place
    } else {
        signature
    };
    capsule.write(&other).unwrap();
    let mut repro = walkfuzz();
    repro
        .arg("repro")
        .arg(&other)
        .assert()
        .code(1)
        .stdout(contains("the reference walker says wrong-frames|"));
    capsule.opinion = None;
    capsule.write(&other).unwrap();
    for command in ["compare", "minimise"] {
        let mut command_line = walkfuzz();
        fails(
            command_line.arg(command).arg(&other),
            3,
            "WALKFUZZ_ORACLE=reference",
        );
    }
    let mut repro = walkfuzz();
    repro
        .arg("repro")
        .arg(&other)
        .assert()
        .code(0)
        .stdout(contains("nobody was asked"));
    from_another_thread(file, &other);
    let mut capsule = Capsule::read(file).unwrap();
    capsule.facts.walker = "reference".to_owned();
    capsule.opinion = None;
    capsule.write(&other).unwrap();
    fails(
        walkfuzz().arg("compare").arg(&other),
        3,
        "it holds the walk of the reference walker itself",
    );
}

/// The same walk, captured from another thread, is wrong for the same reason.
fn from_another_thread(file: &Path, other: &Path) {
    let mut capsule = Capsule::read(file).unwrap();
    let walker = "agct-remote-env";
    capsule.facts.signature = capsule
        .facts
        .signature
        .replace("|agct|", &format!("|{walker}|"));
    capsule.facts.walker = walker.to_owned();
    capsule.write(other).unwrap();
    let said = |file: &Path| {
        let mut command = walkfuzz();
        let output = command.args(["compare", "--json"]).arg(file).output();
        json(&output.unwrap().stdout)
    };
    let [own, other_said] = [file, other].map(said);
    assert_eq!(other_said["walkers"][0]["name"], walker);
    let known = |said: &serde_json::Value| said["examples"][0]["contradiction"]["known"].clone();
    assert!(known(&own).is_string(), "{own:#}");
    assert_eq!(known(&own), known(&other_said));
    walkfuzz()
        .arg("repro")
        .arg(other)
        .assert()
        .code(0)
        .stdout(contains("its oracle was asked again"));
}
