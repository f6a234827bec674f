//! Command lines, right and wrong, and what is said of them.

use std::fs;
use std::path::Path;
use std::process::Command as Program;

use predicates::prelude::*;
use predicates::str::contains;

use crate::support::{fails, folder, jdk, walkfuzz};

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
fn a_budget_has_bounds() {
    for (budget, sentence) in [
        ("999999999999h", "at most 720h"),
        ("721h", "at most 720h"),
        ("0s", "at least 1s"),
        ("soon", "a time such as 90s"),
    ] {
        walkfuzz()
            .args(["repro", "nothing", "--budget", budget])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(sentence));
    }
}

#[test]
fn folders_without_snapshots_are_wrong_usage() {
    let home = folder();
    let walk = |folder: &str| {
        let mut command = walkfuzz();
        command
            .current_dir(&home)
            .args(["snapshots", "walk", "--no-live", "--snapshots", folder]);
        command
    };
    fails(&mut walk("nowhere"), 2, "no snapshots in nowhere: ");
    fs::create_dir(home.path().join("empty")).unwrap();
    fails(&mut walk("empty"), 2, "it holds no .wfcap file");
    if cfg!(target_arch = "x86_64") {
        fs::create_dir(home.path().join("damaged")).unwrap();
        fs::write(home.path().join("damaged/one.wfcap"), "no capsule").unwrap();
        fails(
            &mut walk("damaged"),
            2,
            "one.wfcap: the file is no zstd stream",
        );
    }
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
            .take(if ["jdk", "corpus", "snapshots"].contains(&words[0]) {
                2
            } else {
                1
            })
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
        "variants",
        "corpus check",
        "corpus add",
        "jdk list",
        "jdk install",
        "jdk ensure",
        "fuzz",
        "step",
        "report",
        "repro",
        "stress",
        "merge",
        "replay",
        "explain",
        "export",
        "variants",
        "corpus check",
        "corpus add",
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
