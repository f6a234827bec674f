//! `walkfuzz export`: the folder that it writes crashes the JVM by itself, in the function that the finding names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Output};

use serde_json::{Value, json};
use walkfuzz_jvm::{Jdk, Places};

use crate::support::{fails, folder, json as parsed, walkfuzz};

const ID: &str = "0123456789ab";

/// The best-known finding: a pc in a deoptimisation handler makes the walker read the original pc from a slot near sp. It is found
/// within seconds on every JDK, and happens at every moment. Returns the runs' folder.
fn run_with(jdk: &Jdk, function: &str, change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let runs = folder();
    let run = runs.path().join("20260101T000000.000Z-1");
    fs::create_dir_all(run.join("artifacts")).unwrap();
    fs::write(run.join("run.json"), "{}").unwrap();
    let mut finding = json!({
        "schema": 1, "id": ID, "signature": format!("SIGSEGV|{function}|agct"),
        "title": format!("SIGSEGV in {function} via agct [T4]"), "verdict": "robustness", "tier": "T4",
        "witness": {"observed": 0, "of": 1},
        "walker": {"name": "agct", "generation": "agct", "version": jdk.version.to_string()},
        "outcome": {"kind": "fault", "signal": "SIGSEGV", "code": 1, "code_name": null, "address": null, "detail": null},
        "registers": {"before": {}, "after": {}, "edited": []},
        "site": {"pc": "0x1", "instruction": null, "function": format!("{function}(frame*, void*, bool)"),
            "module": null, "offset": null, "build_id": null, "backtrace": []},
        "blob": {"kind": "nmethod", "name": null, "offset": null},
        "input": {"perturbation": "pc=deopt-handler[0] sp=1", "bytes": "", "artifact": "artifacts/x",
            "artifact_sha256": "x", "index": 0},
        "engine": "live", "thread": 0, "reliability": {"frozen": null, "portability": null},
        "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-01T00:00:00Z", "count": 1, "tainted": false,
        "jvm": {"version": jdk.version.to_string(), "vendor": "", "build_id": "", "collector": "default", "options": []},
        "machine": {"arch": jdk.arch.name(), "kernel": "6", "cpus": 2, "emulated": false},
        "commands": [format!("WALKFUZZ_JDK={} cargo fuzz run", jdk.home.display())],
    });
    change(&mut finding);
    fs::write(run.join("findings.jsonl"), format!("{finding}\n")).unwrap();
    runs
}

/// Exports the finding and returns what was said.
fn export(runs: &Path, out: &Path) -> Value {
    let output = walkfuzz()
        .args(["export", ID, "--json", "--runs"])
        .arg(runs)
        .arg("--out")
        .arg(out)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    parsed(&output.stdout)
}

/// Runs an export's script.
fn run(out: &Path, jdk: &Jdk, attempts: u32, seconds: u32) -> Output {
    Program::new("sh")
        .arg(out.join("run.sh"))
        .arg(&jdk.home)
        .env("ATTEMPTS", attempts.to_string())
        .env("SECONDS_EACH", seconds.to_string())
        .output()
        .unwrap()
}

/// Whether what an export needs is here.
fn has_compilers(jdks: &[Jdk]) -> bool {
    let javac = jdks.iter().any(|jdk| jdk.home.join("bin/javac").is_file())
        || Program::new("javac").arg("-version").output().is_ok();
    let cc = Program::new("cc").arg("--version").output().is_ok();
    if !javac || !cc {
        eprintln!("skip: an export needs cc ({cc}) and javac ({javac})");
    }
    javac && cc
}

/// The first usable JDK of each feature release.
fn jdks() -> Vec<Jdk> {
    let mut jdks: Vec<Jdk> = Vec::new();
    for candidate in Places::from_env().discover() {
        let Ok(jdk) = candidate.jdk else { continue };
        if !jdks
            .iter()
            .any(|known| known.version.feature() == jdk.version.feature())
        {
            jdks.push(jdk);
        }
    }
    if jdks.is_empty() {
        eprintln!("skip: no JDK");
    }
    jdks
}

/// Where the JVM dies: a name that changed between releases.
fn function(jdk: &Jdk) -> &'static str {
    match jdk.version.feature() {
        17 => "JavaThread::pd_get_top_frame",
        _ => "JavaThread::pd_get_top_frame_for_signal_handler",
    }
}

fn crash_log(out: &Path) -> PathBuf {
    let attempt = out.join("build/attempt-1");
    let mut logs = fs::read_dir(attempt).unwrap().flatten();
    let found = logs.find(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("hs_err_pid")
    });
    found.expect("the JVM has written a crash log").path()
}

#[test]
fn an_export_crashes_each_jdk_in_the_function_of_the_finding() {
    let jdks = jdks();
    if !has_compilers(&jdks) {
        return;
    }
    for jdk in &jdks {
        let runs = run_with(jdk, function(jdk), |_| {});
        let out = runs.path().join("out");
        let said = export(runs.path(), &out);
        assert_eq!(
            (&said["site"], said["jdk"].as_str()),
            (&Value::from(function(jdk)), jdk.home.to_str())
        );
        assert_eq!(fs::read_dir(&out).unwrap().count(), 4);
        let output = run(&out, jdk, 3, 60);
        let screen = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{jdk}: {screen}{errors}");
        // What the script says is what the JVM wrote, and nobody caught the fault before it.
        let log = fs::read_to_string(crash_log(&out)).unwrap();
        let frame = log.split_once("# Problematic frame:\n# ").unwrap().1;
        let frame = frame.lines().next().unwrap();
        assert!(
            frame.contains(&format!("{}(", function(jdk))),
            "{jdk}: {frame}"
        );
        assert!(
            log.contains("AsyncGetCallTrace") && log.contains("agent.so"),
            "{jdk}"
        );
        assert!(!log.contains("walkfuzz_"), "{jdk}: a guard is in the log");
        assert!(screen.contains("walk: pc=0x") && screen.contains("sp=0x0000000000000001"));
    }
}

#[test]
fn another_crash_or_none_is_no_success() {
    let jdks = jdks();
    if !has_compilers(&jdks) {
        return;
    }
    let Some(jdk) = jdks.first() else { return };
    let runs = run_with(jdk, "Some::other_function", |_| {});
    let out = runs.path().join("out");
    export(runs.path(), &out);
    let output = run(&out, jdk, 1, 60);
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{screen}");
    assert!(screen.contains("attempt 1: another crash"), "{screen}");
    assert!(screen.contains("0 of 1 attempts"), "{screen}");

    let runs = run_with(jdk, function(jdk), |finding| {
        finding["input"]["perturbation"] = "untouched".into();
    });
    let out = runs.path().join("out");
    export(runs.path(), &out);
    let output = run(&out, jdk, 1, 3);
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{screen}");
    assert!(screen.contains("no crash in 3 seconds"), "{screen}");
}

#[test]
fn what_cannot_be_exported_is_wrong_usage() {
    let jdks = jdks();
    let Some(jdk) = jdks.first() else { return };
    let runs = run_with(jdk, "f", |finding| {
        finding["outcome"]["kind"] = "wrote".into()
    });
    let command = |finding: &str| {
        let mut command = walkfuzz();
        command
            .args(["export", finding, "--runs"])
            .arg(runs.path())
            .current_dir(runs.path());
        command
    };
    fails(&mut command(ID), 2, "the walk wrote silently");
    fails(&mut command("ffff"), 2, "no finding ffff in");
    fails(&mut command("nowhere:01"), 2, "is not a run folder");
    assert_eq!(
        fs::read_dir(runs.path()).unwrap().count(),
        1,
        "nothing is written for what cannot be exported"
    );
    let runs = run_with(jdk, "f", |_| {});
    let out = runs.path().join("out");
    export(runs.path(), &out);
    let mut again = walkfuzz();
    again
        .args(["export", &ID[..4], "--runs"])
        .arg(runs.path())
        .arg("--out")
        .arg(&out);
    fails(&mut again, 2, "not empty");
}
