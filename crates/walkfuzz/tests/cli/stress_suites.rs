//! `walkfuzz stress` with the jar of a benchmark suite. The jar is the test's own: it speaks as the suites' harnesses do.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command as Program;

use serde_json::Value;

use crate::stress_support::Place;
use crate::support::json;

const SOURCE: &str = include_str!("Suite.java");

/// `suite.jar` in the test's folder; `false`, with a word, where there is no compiler.
fn make_jar(place: &Place) -> bool {
    let tool = |name: &str| place.jdk.home.join("bin").join(name);
    if !tool("javac").is_file() || !tool("jar").is_file() {
        println!("skip: {} has no javac and jar", place.jdk.home.display());
        return false;
    }
    fs::write(place.path("Suite.java"), SOURCE).unwrap();
    for (name, words) in [
        ("javac", "-encoding UTF-8 -d classes Suite.java"),
        (
            "jar",
            "--create --file suite.jar --main-class Suite -C classes .",
        ),
    ] {
        let output = Program::new(tool(name))
            .args(words.split(' '))
            .current_dir(place.home.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    true
}

#[test]
fn a_suites_benchmarks_get_on_are_right_or_wrong_and_stand_still() {
    let Some(place) = Place::new() else { return };
    if !make_jar(&place) {
        return;
    }
    let names = [
        "renaissance:stuck",
        "renaissance:finagle-http",
        "renaissance:wrong",
        "renaissance:throws",
        "renaissance:never",
        "dacapo:lusearch",
        "dacapo:invalid",
    ];
    place.profile(
        "suites.toml",
        &format!("inherits = \"tiny\"\n[limits]\nhang = \"4s\"\n[matrix]\nworkload = {names:?}\n"),
    );
    let output = place
        .stress(&[
            "--profile",
            "suites.toml",
            "--jobs",
            "2",
            "--fail",
            "--json",
        ])
        .args(["--renaissance", "suite.jar", "--dacapo", "suite.jar"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report = json(&output.stdout);
    let cells: BTreeMap<&str, &Value> = report["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| (cell["cell"]["workload"].as_str().unwrap(), cell))
        .collect();
    assert_eq!(cells.len(), names.len(), "{said}");
    for (name, verdict, reason) in [
        ("renaissance:finagle-http", "pass", "0 crashes in "),
        ("renaissance:stuck", "fail", "the program stood still"),
        (
            "renaissance:wrong",
            "fail",
            "wrong result: wrong failed result validation: expected 4 but got 5",
        ),
        (
            "renaissance:throws",
            "fail",
            "wrong result: throws failed with exception: java.lang.NullPointerException: gone",
        ),
        // It may need another JVM, or more memory, and would throw without a sampler, too.
        (
            "renaissance:never",
            "unknown",
            "cannot run here: never failed with exception: java.lang.NullPointerException: gone",
        ),
        ("dacapo:lusearch", "pass", "0 crashes in "),
        (
            "dacapo:invalid",
            "fail",
            "wrong result: Validation FAILED for invalid default",
        ),
    ] {
        let cell = cells[name];
        assert_eq!(cell["verdict"], verdict, "{name}: {cell:#}");
        let why = cell["reason"].as_str().unwrap();
        assert!(why.starts_with(reason), "{name}: {why}");
    }
    let done = &cells["dacapo:lusearch"]["workload"];
    assert_eq!((&done["rounds"], &done["checks"]), (&3.into(), &3.into()));
    assert!(cells["renaissance:stuck"]["seconds"].as_f64() < Some(40.0));
}
