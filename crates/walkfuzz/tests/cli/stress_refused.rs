//! `walkfuzz stress`, `merge` and `report` of stress runs: what is refused, and how it is said.

use std::fs;
use std::process::Command as Program;

use predicates::prelude::*;
use predicates::str::contains;

use crate::stress_support::{Place, TINY, programs};
use crate::support::{fails, folder, walkfuzz};

#[test]
fn what_names_no_profile_or_filter_is_told_before_anything_starts() {
    let home = folder();
    let stress = |words: &[&str], sentence: &str| {
        let mut command = walkfuzz();
        command.current_dir(home.path()).arg("stress").args(words);
        fails(&mut command, 2, sentence);
    };
    stress(&["--profile", "nosuch"], "there is no profile `nosuch`");
    fs::write(
        home.path().join("broken.toml"),
        "[limits]\nsampled = \"5s\n",
    )
    .unwrap();
    let broken = ["--profile", "broken.toml"];
    stress(&broken, "broken.toml: TOML parse error at line 2, column ");
    fs::write(home.path().join("axis.toml"), "[matrix]\ngc = [\"g1\"]\n").unwrap();
    stress(&["--profile", "axis.toml"], "`gc` is no axis");
    fs::write(home.path().join("tiny.toml"), TINY).unwrap();
    let filter = ["--profile", "tiny.toml", "--filter", "jdk ="];
    stress(&filter, "the filter `jdk =` is wrong");
    stress(&["--cells", "0"], "a run has at least 1 cell");
    fs::write(home.path().join("none.toml"), "[limits]\ncells = 0\n").unwrap();
    stress(
        &["--profile", "none.toml"],
        "none.toml: TOML parse error at line 2, column 9",
    );
    assert!(!home.path().join("walkfuzz-runs").exists());
}

#[test]
fn what_no_cell_can_be_made_of_is_told() {
    let Some(place) = Place::new() else { return };
    fails(
        &mut place.stress(&["--filter", "collector=g1"]),
        2,
        "no cell of profile tiny matches the filter `collector=g1`",
    );
    let flags = "inherits = \"tiny\"\n[flags]\nodd = [\"-XX:+NoSuchOption\"]\n[matrix]\nflags = [\"odd\"]\n";
    place.profile("odd.toml", flags);
    fails(
        &mut place.stress(&["--profile", "odd.toml"]),
        3,
        "does not take the flags odd: Unrecognized VM option 'NoSuchOption'",
    );
    fails(
        &mut place.stress(&["--renaissance", "/nowhere/renaissance.jar"]),
        2,
        "there is no jar /nowhere/renaissance.jar",
    );
    let other = programs().display().to_string();
    fails(
        &mut place.stress(&["--renaissance", &other]),
        2,
        "is no jar of renaissance: asked for its benchmarks (--raw-list), it does not name finagle-http",
    );
    fs::write(place.path("prose.jar"), "no jar at all").unwrap();
    fails(
        &mut place.stress(&["--dacapo", "prose.jar"]),
        2,
        "prose.jar is no jar of dacapo",
    );
    assert!(!place.path("runs").exists());
}

#[test]
fn folders_of_another_schema_and_of_nothing_are_refused_everywhere() {
    let home = folder();
    let old = home.path().join("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("stress.json"), "{\"schema\": 0, \"cells\": []}").unwrap();
    let sentence = "has schema 0, this program reads 1; use the walkfuzz that wrote it";
    let old = old.to_str().unwrap();
    for words in [
        vec!["report", old],
        vec!["report", old, "--html"],
        vec!["report", "--compare", old, old],
        vec!["report", "--trend", old],
        vec!["merge", old, "--out", "new"],
        vec!["stress", "--resume", old],
        vec!["repro", old],
    ] {
        let mut command = walkfuzz();
        command.current_dir(home.path()).args(&words);
        fails(&mut command, 2, sentence);
    }
    let usage = |words: &[&str], sentence: &str| {
        let mut command = walkfuzz();
        command.current_dir(home.path()).args(words);
        fails(&mut command, 2, sentence);
    };
    usage(
        &["report", "--compare", old],
        "--compare takes two run folders",
    );
    usage(&["report", "--trend"], "--trend takes the folders");
    usage(&["report", old, old], "one run at a time");
    usage(
        &["merge", "nowhere", "--out", "new"],
        "nowhere is no stress run: it has no stress.json",
    );
    walkfuzz()
        .args(["stress", "--resume", old, "--shard", "1/2"])
        .assert()
        .code(2)
        .stderr(contains("cannot be used with"));
    assert!(!home.path().join("new").exists());
}

/// A file system of its own is the only full disk that behaves like one; making it needs a namespace.
#[test]
fn a_full_disk_is_said_and_ends_the_run() {
    let Some(place) = Place::new() else { return };
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let inside = |size: &str| {
        let stress = place.stress(&["--runs", "disk"]);
        let mut command = Program::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
            .arg(format!(
                "mount -t tmpfs -o size={size} none disk && exec \"$@\""
            ))
            .arg("sh")
            .arg(stress.get_program())
            .args(stress.get_args())
            .current_dir(place.home.path());
        for (name, value) in stress.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    };
    let can = Program::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs none \"$0\"")
        .arg(&disk)
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("skip: no file system can be made here");
        return;
    }
    // No room for the plan; then for the plan, but not for the sampler's record.
    let none = inside("4k").output().unwrap();
    let said = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(3), "{said}");
    assert!(
        said.contains("error: cannot write ") && said.contains("No space left"),
        "{said}"
    );
    let little = inside("2m").output().unwrap();
    let said = String::from_utf8_lossy(&little.stderr);
    let told = contains("No space left").or(contains("the sampler did not start"));
    assert!(told.eval(&said), "{said}");
    assert_eq!(little.status.code(), Some(4), "{said}");
}
