//! JDKs that are none, or cannot be used.

use std::fs;
use std::path::Path;
use std::process::Command as Program;

use assert_cmd::Command;
use tempfile::TempDir;
use walkfuzz_jvm::{Places, Source};

use crate::support::{fails, folder, json, nowhere};

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
