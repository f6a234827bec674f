//! Walkers from libraries beside another walker: what can be compared and judged, and what is refused before a run folder is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

use crate::compile;
use crate::support::{fails, folder, jdk, json, walkfuzz};

/// A compiler, or a visible reason to skip.
fn has_compiler() -> bool {
    let found = std::process::Command::new("cc").arg("--version").output();
    if found.is_err() {
        eprintln!("skip: no C compiler, as cc");
    }
    found.is_ok()
}

/// AsyncGetCallTrace, called from a library: it gives method ids.
fn around_agct(folder: &Path) -> PathBuf {
    compile::library(folder, "mutant", "mutants/mutants.c", &["-DAROUND_AGCT"])
}

/// It gives pcs.
fn frame_pointers(folder: &Path) -> PathBuf {
    let source = "c-frame-pointers/frame_pointers.c";
    compile::library(folder, "frame_pointers", source, &[])
}

fn walking(words: &[&str], home: &Path, runs: &Path) -> Command {
    let mut command = walkfuzz();
    command
        .args(words)
        .arg("--jdk")
        .arg(home)
        .arg("--runs")
        .arg(runs)
        .timeout(Duration::from_secs(300));
    command
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_library_is_compared_and_reported() {
    let Some(jdk) = jdk() else { return };
    if !has_compiler() {
        return;
    }
    let (libraries, runs) = (folder(), folder());
    let library = around_agct(libraries.path());
    let walkers = format!("agct,{}", library.display());
    let words = [
        "compare",
        "--json",
        "--contexts",
        "4000",
        "--in-copy",
        "0",
        "--seconds",
        "120",
        "--walkers",
        &walkers,
    ];
    let output = walking(&words, &jdk.home, runs.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = json(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{errors}\n{said:#}");
    assert_eq!(said["walkers"][0]["name"], "agct");
    assert_eq!(said["walkers"][1]["name"], "mutant");
    let untouched = &said["tiers"][0];
    assert!(untouched["agree"].as_u64() > Some(100), "{said:#}");
    // Both are AsyncGetCallTrace.
    assert_eq!(untouched["differ"], 0, "{said:#}");
    let run = fs::read_dir(runs.path()).unwrap().next().unwrap();
    let run = run.unwrap().path();
    walkfuzz()
        .arg("report")
        .arg(&run)
        .assert()
        .code(0)
        .stdout(contains("walkfuzz compare agct and mutant"))
        .stdout(contains("vacuous").not());
    let again = walkfuzz().args(["report", "--json"]).arg(&run).output();
    assert_eq!(json(&again.unwrap().stdout), said);
    let mut findings = walkfuzz();
    findings.args(["report", "--findings"]).arg(&run);
    fails(&mut findings, 2, "is a comparison of two walkers");
    fs::remove_file(run.join("comparison.json")).unwrap();
    let mut unfinished = walkfuzz();
    unfinished.arg("report").arg(&run);
    fails(&mut unfinished, 2, "did not come to its end");
}

#[test]
fn what_cannot_walk_or_judge_is_refused_without_a_run_folder() {
    let Some(jdk) = jdk() else { return };
    if !has_compiler() {
        return;
    }
    let (libraries, runs) = (folder(), folder());
    let ids = around_agct(libraries.path()).display().to_string();
    let pcs = frame_pointers(libraries.path()).display().to_string();
    let [from_frame, from_outside] = ["frame:", "plugin-remote:"].map(|how| format!("{how}{ids}"));
    let absent = "cannot read the walker /nowhere/lib.so";
    let gives_pcs = "the walker c-frame-pointers gives pcs and no method ids";
    for (second, sentence) in [("/nowhere/lib.so", absent), (&pcs, gives_pcs)] {
        for walkers in [format!("agct,{second}"), format!("{second},reference")] {
            let words = ["compare", "--walkers", &walkers];
            let mut command = walking(&words, &jdk.home, runs.path());
            // What the environment says is not what is compared.
            command.env("WALKFUZZ_ORACLE", "agct-remote-running");
            fails(&mut command, 2, sentence);
        }
    }
    let step = ["step", "--walks", "10"];
    for (walker, oracle, sentence) in [
        ("/nowhere/lib.so", "none", absent),
        ("agct", "/nowhere/lib.so", absent),
        (&pcs, "agct", gives_pcs),
        ("agct", &pcs, gives_pcs),
        (&ids, &ids, "wanted another walker than the one under test"),
        (&from_frame, "none", "has no walk_from_frame"),
        (&from_outside, "none", "has no walk_remote"),
        ("agct", &from_frame, "wanted none, agct, reference or a lib"),
    ] {
        let mut command = walking(&step, &jdk.home, runs.path());
        command
            .env("WALKFUZZ_WALKER", walker)
            .env("WALKFUZZ_ORACLE", oracle);
        fails(&mut command, 2, sentence);
    }
    assert_eq!(count(runs.path()), 0);
}

/// The library judges wrongly, and AsyncGetCallTrace is accused: that comes back where the library judges again, and nowhere else.
#[test]
fn what_a_library_has_judged_is_reproduced_with_it() {
    let Some(jdk) = jdk() else { return };
    if !has_compiler() || !walkfuzz_engine::can_step() {
        eprintln!("skip: no compiler, or a processor that cannot step itself");
        return;
    }
    let (libraries, runs) = (folder(), folder());
    let flags = ["-DMUTANT_WRONG_BCI"];
    let library = compile::library(libraries.path(), "mutant", "mutants/mutants.c", &flags);
    let other = frame_pointers(libraries.path());
    let words = ["step", "--json", "--walks", "20000"];
    let output = walking(&words, &jdk.home, runs.path())
        .env("WALKFUZZ_ORACLE", &library)
        .output()
        .unwrap();
    let summary = json(&output.stdout);
    let findings = summary["findings"].as_array().unwrap();
    let title = "wrong frames of agct: other bci at frame 0, mutant disagrees";
    // No reason is known: the two are not AsyncGetCallTrace and the reference.
    let found = findings
        .iter()
        .find(|finding| finding["title"].as_str().unwrap().starts_with(title));
    let id = found.unwrap_or_else(|| panic!("{summary:#}"))["id"]
        .as_str()
        .unwrap();
    let words = ["repro", id, "--budget", "120s"];
    let runs_before = count(runs.path());
    let repro = || walking(&words, &jdk.home, runs.path());
    fails(&mut repro(), 2, "judged it is mutant, which is none");
    fails(
        repro().env("WALKFUZZ_ORACLE", "reference"),
        2,
        "set WALKFUZZ_ORACLE to the path",
    );
    fails(
        repro().env("WALKFUZZ_ORACLE", &other),
        2,
        "is the library of c-frame-pointers",
    );
    assert_eq!(count(runs.path()), runs_before);
    repro()
        .env("WALKFUZZ_ORACLE", &library)
        .assert()
        .code(0)
        .stdout(contains("reproduced"));
}
