//! Whole runs that something is in the way of, with a JVM and without a fuzzer: `walkfuzz step` has the session, the record and
//! the parent process that `walkfuzz fuzz` has.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use predicates::str::contains;
use serde_json::Value;
use walkfuzz_jvm::Jdk;

use crate::support::{fails, folder, jdk, json, walkfuzz};

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

/// A run that would take all day, as soon as its JVM runs.
fn endless(jdk: &Jdk, runs: &Path) -> Child {
    let mut program = Program::new(assert_cmd::cargo::cargo_bin!("walkfuzz"));
    program
        .args(["step", "--walks", "100000000000", "--jdk"])
        .arg(&jdk.home)
        .arg("--runs")
        .arg(runs);
    await_jvm(
        program
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    )
}

/// Waits for the session's first line, which says that the JVM runs, and for some walks.
fn await_jvm(mut child: Child) -> Child {
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
    // Nothing that matters is buffered yet.
    child.stderr = Some(errors.into_inner());
    child
}

/// Everything below a process, in the order of starting: the program again, and below it the JVM.
fn below(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let mut found = Vec::new();
    for task in tasks.flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let child = child.parse().unwrap();
            found.push(child);
            found.extend(below(child));
        }
    }
    found
}

/// Whether a process still does something; one that nobody has waited for does not.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

#[test]
fn a_killed_run_leaves_no_jvm() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    let endless = |words: &[&str]| {
        let mut program = Program::new(assert_cmd::cargo::cargo_bin!("walkfuzz"));
        program.args(words).arg("--jdk").arg(&jdk.home);
        program.arg("--runs").arg(runs.path());
        let piped = program.stdout(Stdio::null()).stderr(Stdio::piped());
        await_jvm(piped.spawn().unwrap())
    };
    for words in [
        ["step", "--walks", "100000000000"],
        ["compare", "--seconds", "86000"],
    ] {
        let mut run = endless(&words);
        let pid = run.id().cast_signed();
        let started = below(pid);
        assert!(!started.is_empty(), "{words:?}");
        assert!(started.iter().all(|pid| is_alive(*pid)));
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        run.wait().unwrap();
        let began = Instant::now();
        while started.iter().any(|pid| is_alive(*pid)) {
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(120),
                "{words:?} left {started:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let Some(jdk) = jdk() else { return };
    let runs = folder();
    // Once; twice at once, which is once for a process group; and again for those who cannot wait.
    for pauses in [&[][..], &[5], &[600]] {
        interrupted(&jdk, runs.path(), pauses);
    }
}

fn interrupted(jdk: &Jdk, runs: &Path, pauses: &[u64]) {
    let child = endless(jdk, runs);
    let asked = Instant::now();
    interrupt(&child);
    for pause in pauses {
        std::thread::sleep(Duration::from_millis(*pause));
        // It may have ended: then there is nobody to tell.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(asked.elapsed() < Duration::from_secs(60));
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(screen.contains("walkfuzz step agct"), "{screen}");

    let report = walkfuzz()
        .args(["report", "--json", "--runs"])
        .arg(runs)
        .output()
        .unwrap();
    let report = json(&report.stdout);
    assert!(report["summary"]["walks"].as_u64() > Some(1000), "{report}");
    assert_eq!(report["summary"]["finished"], true);
    assert_eq!(report["summary"]["evidence"]["unreadable_records"], 0);
}

/// A run in a file system of its own, so small that it fills up; `fill` in that file system when the JVM runs. None: not allowed here.
fn on_a_small_disk(jdk: &Jdk, kilobytes: u32, fill: bool) -> Option<(Option<i32>, String, String)> {
    let disk = folder();
    let allowed = Program::new("unshare")
        .args(["-r", "-m", "mount", "-t", "tmpfs", "none"])
        .arg(disk.path())
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("skip: no file system may be mounted here (unshare -r -m mount -t tmpfs)");
        return None;
    }
    let script = format!(
        r#"mount -t tmpfs -o size={kilobytes}k none "$1" || exit 99
        {} "$2" step --walks 200000 --jdk "$3" --runs "$1/runs"; code=$?
        rm -f "$1/ballast"
        "$2" report "$1"/runs/* >&2
        exit $code"#,
        if fill {
            r#"(until cat "$1"/runs/*/record-*.map >/dev/null 2>&1; do sleep 0.05; done; sleep 0.5
                cat /dev/zero >"$1/ballast") 2>/dev/null &"#
        } else {
            ""
        }
    );
    let output = Program::new("unshare")
        .args(["-r", "-m", "sh", "-c", &script, "sh"])
        .arg(disk.path())
        .arg(assert_cmd::cargo::cargo_bin!("walkfuzz"))
        .arg(&jdk.home)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    ))
}

#[test]
fn a_full_disk_is_said_and_what_is_recorded_stays() {
    let Some(jdk) = jdk() else { return };
    // No room for a record: nothing begins.
    let Some((code, out, errors)) = on_a_small_disk(&jdk, 64, false) else {
        return;
    };
    assert_eq!(code, Some(3), "{out}{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");

    // It fills up on the way: the record, which has its room, is complete; what is missing is named.
    let Some((code, out, errors)) = on_a_small_disk(&jdk, 8192, true) else {
        return;
    };
    assert_eq!(code, Some(3), "{out}{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
    assert!(out.contains("walkfuzz step agct"), "{out}{errors}");
    assert!(
        errors.contains("walkfuzz step agct"),
        "the report afterwards: {errors}"
    );
}
