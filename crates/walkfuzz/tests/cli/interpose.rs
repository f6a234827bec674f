//! `walkfuzz interpose`: shipped profilers as they are, and what cannot be done.

use std::path::{Path, PathBuf};
use std::process::Command as Program;

use assert_cmd::Command;
use serde_json::Value;
use walkfuzz_jvm::{Jdk, Places};

use crate::support::{fails, folder, jdk, json, walkfuzz};

/// The JDKs of these releases that are here.
fn jdks(releases: &[u32]) -> Vec<Jdk> {
    let found = Places::from_env().discover().into_iter();
    let mut found: Vec<Jdk> = found.filter_map(|candidate| candidate.jdk.ok()).collect();
    found.sort_by(|a, b| b.version.cmp(&a.version));
    found.dedup_by_key(|jdk| jdk.version.feature());
    found.retain(|jdk| releases.contains(&jdk.version.feature()));
    if found.len() < releases.len() {
        eprintln!("skip: of JDK {releases:?} there are {} here", found.len());
    }
    found
}

/// async-profiler's library, or a visible reason to skip.
fn async_profiler() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/get-async-profiler");
    let output = Program::new(script).output().unwrap();
    if !output.status.success() {
        eprintln!("skip: {}", String::from_utf8_lossy(&output.stderr).trim());
        return None;
    }
    Some(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

fn interpose(home: &Path, jdk: &Jdk, words: &[&str]) -> Command {
    let library = std::env::current_exe()
        .unwrap()
        .with_file_name("libwalkfuzz_interposer.so");
    assert!(library.is_file(), "{} was not built", library.display());
    let mut command = walkfuzz();
    command
        // The script that brings async-profiler is looked for in the checkout.
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("WALKFUZZ_INTERPOSER", library)
        .args(["interpose", "--json", "--time", "4s", "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(home)
        .args(words);
    command
}

fn number(answer: &Value, path: &str) -> u64 {
    let value = answer.pointer(path).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("{path}: {answer}"))
}

#[test]
fn async_profiler_is_stood_before_in_two_of_its_modes() {
    if async_profiler().is_none() {
        return;
    }
    for jdk in jdks(&[17]) {
        for (mode, walker) in [("itimer,cstack=vm", "own"), ("itimer,cstack=no", "agct")] {
            let home = folder();
            let words = ["--mode", mode, "--perturb", "16"];
            let output = interpose(home.path(), &jdk, &words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{said}");
            let answer = json(&output.stdout);
            let calls = number(&answer, "/perturbed/perturbed/walks");
            println!(
                "{mode}: {} untouched calls, {calls} perturbed with {} faults, {} dealt with",
                number(&answer, "/untouched/untouched/walks"),
                number(&answer, "/perturbed/perturbed/faults"),
                number(&answer, "/perturbed/self-protected"),
            );
            assert_eq!(answer["verdict"], "ran");
            assert_eq!(answer["version"], "4.0");
            assert_eq!(answer["walker"], walker, "{answer}");
            assert!(calls > 100, "{answer}");
            assert_eq!(number(&answer, "/untouched/perturbed/walks"), 0);
            assert_eq!(number(&answer, "/untouched/untouched/faults"), 0);
            assert_eq!(answer["untouched"]["jvm"]["outcome"], "clean", "{answer}");
            assert!(number(&answer, "/reported/untouched-errors/of") > 20);
            assert!(answer["reported"]["errors"]["[no_Java_frame]"].is_null());
            if walker == "agct" {
                let compared = number(&answer, "/agct/compared");
                assert!(compared > 100);
                assert!(number(&answer, "/agct/same") < compared, "{answer}");
            } else {
                assert!(answer["agct"].is_null(), "{answer}");
                assert!(number(&answer, "/perturbed/self-protected") > 0, "{answer}");
            }
            for finding in answer["findings"].as_array().unwrap() {
                let title = finding["title"].as_str().unwrap();
                assert!(
                    title.contains(&format!("async-profiler 4.0 ({mode}")),
                    "{title}"
                );
                repeats(finding["command"].as_str().unwrap(), &jdk, mode);
            }
            let kept = Path::new(answer["folder"].as_str().unwrap()).join("interpose.json");
            assert_eq!(json(&std::fs::read(kept).unwrap()), answer);
        }
    }
}

/// What a finding says makes it again: the whole of what these tests ask for.
fn repeats(command: &str, jdk: &Jdk, mode: &str) {
    let home = jdk.home.display();
    assert_eq!(
        command,
        format!(
            "walkfuzz interpose --profiler async-profiler --mode {mode} --jdk {home} --workload sorting --time 4000ms --perturb 16 --seed 1"
        )
    );
}

/// What JFR's handler takes down is walked later, at a safepoint, where nobody guards it: the JVM may well die of perturbed contexts.
#[test]
fn jfr_is_stood_before() {
    for jdk in jdks(&[25]) {
        let home = folder();
        let words = ["--profiler", "jfr", "--perturb", "1"];
        let output = interpose(home.path(), &jdk, &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
        let answer = json(&output.stdout);
        println!(
            "{} untouched calls; {} perturbed, then the JVM {}",
            number(&answer, "/untouched/untouched/walks"),
            number(&answer, "/perturbed/perturbed/walks"),
            answer["perturbed"]["jvm"]["words"]
        );
        assert!(number(&answer, "/untouched/untouched/walks") > 20);
        assert_eq!(number(&answer, "/untouched/untouched/faults"), 0);
        assert_eq!(answer["untouched"]["jvm"]["outcome"], "clean");
        assert_eq!(answer["walker"], "own");
        assert!(number(&answer, "/perturbed/perturbed/walks") > 0);
    }
}

#[test]
fn what_means_nothing_is_said_in_a_sentence() {
    let Some(jdk) = jdk() else { return };
    let home = folder();
    for (words, sentence) in [
        (&["--mode", "itimer,interval=0"][..], "interval=0"),
        (&["--mode", "magic"], "`magic` means nothing"),
        (&["--mode", "wall,cstack=best"], "cstack=vm|vmx|dwarf|fp|no"),
        (&["--library", "nowhere.so"], "which is no file"),
        (
            &["--profiler", "jfr", "--mode", "cstack=vm"],
            "`cstack=vm` means nothing",
        ),
    ] {
        fails(&mut interpose(home.path(), &jdk, words), 2, sentence);
    }
    let mut unknown = interpose(home.path(), &jdk, &["--profiler", "perf"]);
    unknown
        .assert()
        .code(2)
        .stderr(predicates::str::contains("perf"));
    for old in jdks(&[17]) {
        let mut command = interpose(home.path(), &old, &["--profiler", "jfr"]);
        fails(&mut command, 3, "samples in no signal handler");
    }
    if async_profiler().is_some() {
        let mut command = interpose(home.path(), &jdk, &["--workload", "nothing"]);
        fails(&mut command, 2, "there is no workload `nothing`");
        for new in jdks(&[25]) {
            let mut command = interpose(home.path(), &new, &["--mode", "itimer,cstack=vm"]);
            fails(
                &mut command,
                3,
                "the profiler did not begin: VMStructs stack walking is not supported",
            );
        }
    }
}
