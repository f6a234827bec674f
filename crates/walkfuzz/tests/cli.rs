//! The program from outside: what bad input and a poor environment lead to. Tests that need a JVM say so when they skip.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "a test's helpers may fail loudly as well"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;
use walkfuzz_jvm::{Jdk, Places, Source};

/// The program with an environment in which there is no JDK.
fn nowhere(home: &TempDir) -> Command {
    let mut command = Command::cargo_bin("walkfuzz").expect("the program is built");
    command
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", home.path())
        .current_dir(home.path());
    command
}

fn walkfuzz() -> Command {
    let mut command = Command::cargo_bin("walkfuzz").expect("the program is built");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WALKFUZZ_")) {
        command.env_remove(name);
    }
    command
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// One sentence on stderr, and nothing on stdout.
fn fails(command: &mut Command, code: i32, sentence: &str) {
    let errors = contains("error: ").count(1).and(contains(sentence));
    command.assert().code(code).stdout("").stderr(errors);
}

/// The machine's JDKs live in /usr/lib/jvm, which cannot be hidden from the program: name another place.
fn step_with(home: &TempDir, jdk: &Path) -> Command {
    let mut command = nowhere(home);
    command.args(["step", "--walks", "1000", "--jdk"]).arg(jdk);
    command
}

/// A folder that looks like a JDK with this libjvm.
fn fake_jdk(libjvm: Option<&[u8]>) -> TempDir {
    let home = folder();
    fs::write(home.path().join("release"), "JAVA_VERSION=\"17.0.9\"\n").unwrap();
    fs::create_dir_all(home.path().join("lib/server")).unwrap();
    if let Some(bytes) = libjvm {
        fs::write(home.path().join("lib/server/libjvm.so"), bytes).unwrap();
    }
    home
}

/// A shared library that exports only `int NAME(void)`.
fn library(exports: &str) -> Vec<u8> {
    let scratch = folder();
    let (source, target) = (scratch.path().join("a.c"), scratch.path().join("a.so"));
    fs::write(&source, format!("int {exports}(void) {{ return 0; }}\n")).unwrap();
    let done = Program::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&target)
        .arg(&source)
        .status();
    assert!(done.expect("cc can be run").success());
    fs::read(target).unwrap()
}

/// A JDK to walk, or a visible reason to skip.
fn jdk() -> Option<Jdk> {
    match Places::from_env().choose(None) {
        Ok(jdk) => Some(jdk),
        Err(error) => {
            eprintln!("skip: {error}");
            None
        }
    }
}

fn step(jdk: &Jdk, runs: &Path, walks: u64) -> Command {
    let mut command = walkfuzz();
    command
        .args(["step", "--json", "--walks", &walks.to_string(), "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(runs);
    command.timeout(Duration::from_secs(300));
    command
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

#[test]
fn no_jdk_is_named_with_the_command_that_brings_one() {
    let home = folder();
    let usual = Places {
        java_home: None,
        path: None,
        ..Places::from_env()
    };
    if usual
        .discover()
        .iter()
        .any(|candidate| candidate.jdk.is_ok() && candidate.source == Source::UsualPlace)
    {
        eprintln!(
            "skip: a JDK in a usual place cannot be hidden; a version that nobody has stands in for none at all"
        );
        let mut command = nowhere(&home);
        command.args(["step", "--jdk", "21.0.2"]);
        return fails(
            &mut command,
            3,
            "bring it with: walkfuzz jdk install 21.0.2",
        );
    }
    fails(nowhere(&home).arg("step"), 3, "walkfuzz jdk install");
}

#[test]
fn a_java_home_that_is_none_is_not_passed_over() {
    let home = folder();
    let empty = folder();
    fails(
        nowhere(&home).env("JAVA_HOME", empty.path()).arg("step"),
        3,
        "JAVA_HOME is",
    );
    fails(
        nowhere(&home)
            .env("JAVA_HOME", "/does/not/exist")
            .arg("step"),
        3,
        "JAVA_HOME is /does/not/exist",
    );
    fails(
        &mut step_with(&home, fake_jdk(None).path()),
        3,
        "libjvm.so is missing",
    );
}

#[test]
fn a_libjvm_of_another_architecture_is_refused() {
    let home = folder();
    let mut bytes = library("AsyncGetCallTrace");
    // e_machine: EM_AARCH64 (183), or EM_X86_64 (62) where that is the foreign one.
    bytes[18] = if cfg!(target_arch = "x86_64") {
        183
    } else {
        62
    };
    fails(
        &mut step_with(&home, fake_jdk(Some(&bytes)).path()),
        3,
        "is built for",
    );
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fails(
        &mut step_with(&home, fake_jdk(Some(&bytes)).path()),
        3,
        "is built for Riscv",
    );
}

#[test]
fn a_libjvm_without_the_walker_is_refused() {
    let home = folder();
    let jdk = fake_jdk(Some(&library("JNI_CreateJavaVM")));
    fails(
        &mut step_with(&home, jdk.path()),
        3,
        "does not export AsyncGetCallTrace",
    );
    let jdk = fake_jdk(Some(b"not a library"));
    fails(
        &mut step_with(&home, jdk.path()),
        3,
        "libjvm.so is no usable ELF library",
    );
}

#[test]
fn doctor_and_list_show_what_is_wrong_with_a_jdk() {
    let home = folder();
    let jdk = fake_jdk(Some(&library("JNI_CreateJavaVM")));
    let output = nowhere(&home)
        .env("JAVA_HOME", jdk.path())
        .args(["jdk", "list", "--json"])
        .output()
        .unwrap();
    let listing = json(&output.stdout);
    let row = &listing["found"][0];
    assert_eq!(
        (row["source"].as_str(), row["usable"].as_bool()),
        (Some("JAVA_HOME"), Some(false))
    );
    assert!(
        row["problem"]
            .as_str()
            .is_some_and(|text| text.contains("AsyncGetCallTrace")),
        "{row}"
    );
    assert!(
        listing["installable"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );

    // Nothing is on this PATH: every program is missing, each with the command that brings it.
    let output = nowhere(&home).args(["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let checks = json(&output.stdout)["checks"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for what in [
        "git",
        "C compiler",
        "C++ compiler",
        "cargo",
        "rustc",
        "cargo-fuzz",
        "python3",
        "pip",
    ] {
        let row = checks
            .iter()
            .find(|row| row["what"] == what)
            .unwrap_or_else(|| panic!("no row {what}"));
        assert_eq!(row["state"], "missing", "{row}");
        assert!(row["remedy"].is_string(), "{row}");
    }
}

#[test]
fn wrong_usage_is_code_2() {
    let home = folder();
    walkfuzz()
        .arg("dance")
        .assert()
        .code(2)
        .stderr(contains("unrecognized subcommand 'dance'"));
    walkfuzz().assert().code(2);
    walkfuzz().args(["fuzz", "--seconds", "0"]).assert().code(2);
    walkfuzz()
        .args(["step", "--gc", "none"])
        .assert()
        .code(2)
        .stderr(contains("shenandoah"));
    fails(
        walkfuzz().args(["jdk", "install", "8"]),
        2,
        "the catalogue has",
    );
    fails(
        walkfuzz().args(["step", "--jdk", "newest"]),
        2,
        "a path, or a version",
    );
    fails(
        walkfuzz().arg("fuzz").current_dir(home.path()),
        2,
        "is not in a walkfuzz checkout",
    );
    fails(
        walkfuzz().args(["fuzz", "no_such_target"]),
        2,
        "no target no_such_target",
    );
}

#[test]
fn fuzz_is_found_from_any_folder_of_the_checkout() {
    let Some(jdk) = jdk() else { return };
    if Program::new("cargo")
        .args(["fuzz", "--version"])
        .output()
        .is_ok_and(|output| !output.status.success())
    {
        eprintln!("skip: no cargo-fuzz");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut command = walkfuzz();
    command
        .args([
            "fuzz",
            "--dry-run",
            "--seconds",
            "7",
            "--gc",
            "serial",
            "--jdk",
        ])
        .arg(&jdk.home)
        .current_dir(here);
    let line = contains("cargo fuzz run -s none walk_ucontext -- -max_total_time=7")
        .and(contains("WALKFUZZ_GC=serial"))
        .and(contains("WALKFUZZ_JDK="));
    command.assert().code(0).stdout(line);
}

#[test]
fn folders_that_are_no_run_are_refused() {
    let empty = folder();
    fails(
        walkfuzz().arg("report").arg(empty.path()),
        2,
        "is not a run folder",
    );
    fails(
        walkfuzz().args(["report", "--runs"]).arg(empty.path()),
        2,
        "no run in",
    );
    fails(
        walkfuzz().args(["report", "/does/not/exist"]),
        2,
        "is not a run folder",
    );
    fs::write(empty.path().join("run.json"), "{\"schema\": 1").unwrap();
    fs::write(empty.path().join("record-1.map"), [7; 5000]).unwrap();
    fails(
        walkfuzz().arg("report").arg(empty.path()),
        3,
        "run.json is damaged",
    );
    fs::write(empty.path().join("run.json"), [0xff, 0, 0x80]).unwrap();
    fails(walkfuzz().arg("report").arg(empty.path()), 3, "cannot read");
}

#[test]
fn a_run_folder_that_cannot_be_made_ends_the_run_early() {
    let Some(jdk) = jdk() else { return };
    let home = folder();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    for runs in [file.join("runs"), PathBuf::from("/proc/walkfuzz-runs")] {
        fails(&mut step(&jdk, &runs, 1000), 3, "cannot write");
    }
}

#[test]
fn an_option_that_the_jvm_refuses_is_named() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    let mut command = step(&jdk, runs.path(), 1000);
    fails(
        command.env("WALKFUZZ_JAVA_OPTIONS", "-XX:NoSuchFlag"),
        3,
        "NoSuchFlag",
    );
}

#[test]
fn two_runs_at_once_keep_apart() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    let run = || step(&jdk, runs.path(), 20_000).output().unwrap();
    let outputs = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        [run(), other.join().expect("the other run does not panic")]
    });
    for output in &outputs {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let summary = json(&output.stdout);
        assert!(summary["walks"].as_u64() >= Some(20_000), "{summary}");
        assert_eq!(
            (&summary["driver"], &summary["perturbed_walks"]),
            (&Value::from("step"), &Value::from(0))
        );
    }
    let folders: Vec<_> = fs::read_dir(runs.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in folders {
        walkfuzz()
            .arg("report")
            .arg(&folder)
            .assert()
            .code(0)
            .stdout(contains("walkfuzz step agct"));
        let output = walkfuzz()
            .arg("report")
            .arg("--json")
            .arg(&folder)
            .output()
            .unwrap();
        assert!(json(&output.stdout)["summary"]["walks"].as_u64() >= Some(20_000));
        walkfuzz()
            .arg("report")
            .arg("--findings")
            .arg(&folder)
            .assert()
            .code(0);
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    let mut program = Program::new(assert_cmd::cargo::cargo_bin!("walkfuzz"));
    program
        .args(["step", "--walks", "1000000000", "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(runs.path());
    let mut child = program
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The session's first line says that the JVM runs.
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("collector") {
        line.clear();
        assert_ne!(
            errors.read_line(&mut line).unwrap(),
            0,
            "the run ended by itself"
        );
    }
    std::thread::sleep(Duration::from_secs(2));
    let asked = Instant::now();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(60));
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(screen.contains("walkfuzz step agct"), "{screen}");

    let report = walkfuzz()
        .args(["report", "--json", "--runs"])
        .arg(runs.path())
        .output()
        .unwrap();
    let report = json(&report.stdout);
    assert!(report["summary"]["walks"].as_u64() > Some(1000), "{report}");
    assert_eq!(report["summary"]["finished"], true);
    assert_eq!(report["summary"]["evidence"]["unreadable_records"], 0);
}

#[test]
fn completions_and_manual_name_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        walkfuzz()
            .args(["completions", shell])
            .assert()
            .code(0)
            .stdout(contains("doctor"));
    }
    walkfuzz()
        .arg("man")
        .assert()
        .code(0)
        .stdout(contains("walkfuzz").and(contains("bench")));
    let help = contains("130").and(contains("in-jvm").not());
    walkfuzz().arg("--help").assert().code(0).stdout(help);
}

/// Every command line in docs/program.md is one that the program knows.
#[test]
fn the_reference_names_what_exists() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/program.md"))
            .unwrap();
    let mut seen = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("walkfuzz "))
    {
        let words: Vec<&str> = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let path: Vec<&str> = words
            .iter()
            .copied()
            .take(if words[0] == "jdk" { 2 } else { 1 })
            .collect();
        let help = walkfuzz().args(&path).arg("--help").output().unwrap();
        assert_eq!(help.status.code(), Some(0), "{line}");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        for flag in words
            .iter()
            .filter_map(|word| word.trim_matches(['[', ']']).strip_prefix("--"))
        {
            assert!(
                flag.is_empty() || help.contains(&format!("--{flag}")),
                "{line}: no --{flag}"
            );
        }
        seen.push(path.join(" "));
    }
    let all = [
        "doctor",
        "jdk list",
        "jdk install",
        "jdk ensure",
        "fuzz",
        "step",
        "report",
        "bench",
        "completions",
        "man",
    ];
    for command in all {
        assert!(
            seen.iter().any(|known| known == command),
            "{command} is not in docs/program.md"
        );
    }
}
