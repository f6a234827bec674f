//! What the tests share: the program, folders, a JDK.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;
use walkfuzz_jvm::{Jdk, Places};

/// The program with an environment in which there is no JDK.
pub(crate) fn nowhere(home: &TempDir) -> Command {
    let mut command = Command::cargo_bin("walkfuzz").expect("the program is built");
    command
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", home.path())
        .current_dir(home.path());
    command
}

pub(crate) fn walkfuzz() -> Command {
    let mut command = Command::cargo_bin("walkfuzz").expect("the program is built");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WALKFUZZ_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// One sentence on stderr, and nothing on stdout; with `--json` an answer that says no more.
pub(crate) fn fails(command: &mut Command, code: i32, sentence: &str) {
    let errors = contains("error: ").count(1).and(contains(sentence));
    let json = command.get_args().any(|word| word == "--json");
    let ended = command.assert().code(code).stderr(errors);
    if json {
        let answer = self::json(&ended.get_output().stdout);
        assert_eq!(answer["exit_code"], code, "{answer}");
    } else {
        ended.stdout("");
    }
}

/// A JDK to walk, or a visible reason to skip.
pub(crate) fn jdk() -> Option<Jdk> {
    match Places::from_env().choose(None) {
        Ok(jdk) => Some(jdk),
        Err(error) => {
            eprintln!("skip: {error}");
            None
        }
    }
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}
