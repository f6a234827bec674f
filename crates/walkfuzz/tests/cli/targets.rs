//! The scripts' `--target aarch64`: what is missing on the machine is one sentence with the command that brings it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

use crate::support::folder;

fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts").join(name));
    command
        .env("WALKFUZZ_NO_INSTALL", "1")
        .env_remove("JAVA_HOME");
    command
}

/// A machine with everything but an emulator: its programs, and folders with what is made up.
struct Machine {
    programs: TempDir,
    libraries: TempDir,
}

impl Machine {
    fn new() -> Self {
        let programs = folder();
        let libraries = folder();
        let library = libraries.path().join("lib");
        std::fs::create_dir(&library).unwrap();
        std::fs::write(library.join("libc.so.6"), "").unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        for entry in std::env::split_paths(&path)
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("qemu-") {
                // The first one of a name is the one that is found.
                let _ = symlink(entry.path(), programs.path().join(name));
            }
        }
        let machine = Self {
            programs,
            libraries,
        };
        for compiler in ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"] {
            machine.program(compiler, "exit 0");
        }
        machine
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.programs.path().join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }

    fn run(&self) -> Command {
        let mut command = script("run");
        command
            .args(["--target", "aarch64", "--dry-run"])
            .env("PATH", self.programs.path())
            .env("QEMU_LD_PREFIX", PathBuf::from(self.libraries.path()));
        command
    }
}

#[test]
fn an_emulator_that_is_missing_or_too_old_is_named_with_what_brings_it() {
    if std::env::consts::ARCH != "x86_64" {
        eprintln!("skip: nothing is emulated here");
        return;
    }
    let machine = Machine::new();
    machine.run().assert().code(3).stderr(
        contains("missing: qemu for programs of aarch64\n")
            .and(contains("bring it with: apt-get install"))
            .and(contains("qemu-user\n")),
    );
    machine.program("qemu-aarch64", "echo qemu-aarch64 version 6.2.0");
    let too_old = "missing: qemu-user 7.2 or newer (";
    machine
        .run()
        .assert()
        .code(3)
        .stderr(contains(too_old).and(contains("qemu-aarch64 is 6.2.0)")));
    machine.program("qemu-aarch64", "exit 1");
    machine
        .run()
        .assert()
        .code(3)
        .stderr(contains(too_old).and(contains("of no version that it says")));
}

#[test]
fn a_target_that_is_none_is_wrong_usage() {
    for name in ["run", "test"] {
        script(name)
            .args(["--target", "mips", "--dry-run"])
            .assert()
            .code(2)
            .stderr(contains("x86_64 or aarch64, not 'mips'"));
    }
    script("on-aarch64")
        .assert()
        .code(2)
        .stderr(contains("which command?"));
}

#[test]
fn a_dry_run_says_what_it_would_build_for_the_target() {
    let machine = Machine::new();
    machine.program("qemu-aarch64", "echo qemu-aarch64 version 9.2.0");
    let mut run = machine.run();
    // Without Rust's libraries for it there is a sentence instead.
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        assert!(
            complained.contains("Rust's libraries for aarch64"),
            "{complained}"
        );
        return;
    }
    assert!(output.status.success(), "{complained}");
    let target = match std::env::consts::ARCH {
        "x86_64" => " --target aarch64-unknown-linux-gnu",
        _ => "",
    };
    for words in ["-- jdk ensure", "-- fuzz walk_ucontext --seconds 60"] {
        let line = format!("{target} --package walkfuzz {words}");
        assert!(said.lines().any(|said| said.ends_with(&line)), "{said}");
    }
}
