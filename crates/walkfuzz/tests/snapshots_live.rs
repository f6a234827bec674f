//! Snapshots of a running JVM, walked without it: the same outcomes in three processes, and faults that the puppet confirms.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use serde_json::Value;
use walkfuzz_jvm::Places;
use walkfuzz_record::{CellState, FindingVerdict, RunFolder};

fn walkfuzz(arguments: &[&str], folder: &std::path::Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_walkfuzz"))
        .args(["snapshots"])
        .args(arguments)
        .env("WALKFUZZ_RUNS", folder.join("runs"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    println!("{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Edits of memory change how walks end, the same way each time, and what comes of them has a class of its own.
fn edited_memory_is_counted_apart(snapshots: &str, folder: &std::path::Path) {
    let walked = walkfuzz(
        &[
            "walk",
            "--snapshots",
            snapshots,
            "--walks",
            "200000",
            "--memory",
            "3",
            "--repeat",
            "2",
            "--no-live",
            "--json",
        ],
        folder,
    );
    let (first, second) = (&walked[0], &walked[1]);
    assert_eq!(first["chain"], second["chain"]);
    assert_eq!(first["synthetic"], second["synthetic"]);
    let synthetic = &first["synthetic"];
    let walks = synthetic["walks"].as_u64().unwrap();
    assert!(walks > 50_000, "{synthetic}");
    assert!(
        first["walks"].as_u64().unwrap() < 3 * walks,
        "counted apart"
    );
    let changed = &synthetic["changed"];
    assert!(changed[0].as_u64() > Some(100), "{synthetic}");
    assert!(changed[0].as_u64() < changed[1].as_u64(), "{synthetic}");
    let run = RunFolder::open(std::path::Path::new(first["run"].as_str().unwrap())).unwrap();
    for finding in run.findings().unwrap().findings {
        let synthetic = finding.verdict == FindingVerdict::Synthetic;
        assert_eq!(synthetic, !finding.input.memory.is_empty());
        assert_eq!(synthetic, finding.signature.contains("synthetic memory"));
        println!("note: {} ({})", finding.title, finding.verdict.name());
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn snapshots_are_walked_the_same_three_times() {
    let jdk = match Places::from_env().choose(None) {
        Ok(jdk) => jdk,
        Err(error) => return println!("skip: {error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("snapshots");
    let out = out.to_str().unwrap();
    let home = jdk.home.to_str().unwrap();
    let taken = walkfuzz(
        &[
            "take", "--count", "4", "--jdk", home, "--out", out, "--json",
        ],
        folder.path(),
    );
    let snapshots = taken["snapshots"].as_array().unwrap();
    assert_eq!(snapshots.len(), 4, "{taken}");
    let mut kinds: Vec<&str> = snapshots
        .iter()
        .map(|snapshot| snapshot["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() > 1, "{kinds:?}");
    for snapshot in snapshots {
        let kind = snapshot["kind"].as_str().unwrap();
        let may_fail = kind.contains("deopt") || kind.starts_with("stub-routine");
        assert!(may_fail || snapshot["frames"].as_i64().unwrap() > 0);
        assert!(snapshot["pages"].as_u64().unwrap() > 5_000, "a full one");
    }
    let walked = walkfuzz(
        &[
            "walk",
            "--snapshots",
            out,
            "--walks",
            "400000",
            "--repeat",
            "3",
            "--no-live",
            "--json",
        ],
        folder.path(),
    );
    let walked = walked.as_array().unwrap();
    assert_eq!(walked.len(), 3);
    let first = &walked[0];
    assert_ne!(first["chain"], 0);
    for other in walked {
        for field in ["chain", "walks", "left", "signatures", "features"] {
            assert_eq!(other[field], first[field], "{field}");
        }
    }
    let number = |field: &str| first[field].as_u64().unwrap();
    assert!(number("walks") >= 400_000);
    assert!(number("features") > 50, "feedback is alive: {first}");
    assert!(number("left") * 20 < number("walks"), "{first}");
    // Another seed walks otherwise.
    let other = walkfuzz(
        &[
            "walk",
            "--snapshots",
            out,
            "--walks",
            "400000",
            "--seed",
            "2",
            "--live",
            "40",
            "--json",
        ],
        folder.path(),
    );
    assert_ne!(other[0]["chain"], first["chain"]);
    edited_memory_is_counted_apart(out, folder.path());
    let run = RunFolder::open(std::path::Path::new(other[0]["run"].as_str().unwrap())).unwrap();
    let findings = run.findings().unwrap().findings;
    assert!(
        findings.iter().any(|finding| !finding.live.is_empty()),
        "nothing was tried live"
    );
    for finding in findings {
        assert_eq!(finding.engine, "capsule");
        for live in &finding.live {
            assert_ne!(live.state, CellState::CouldNotRun, "{:?}", live.reason);
            println!("note: {} live: {:?}", finding.signature, live.again);
            // It was walked where it counts, and what happened was examined.
            assert_eq!(live.again.of > 0, live.state == CellState::Tried);
            assert!(live.again.k == 0 || live.run.is_some());
        }
        let capsule = run.path().join(finding.capsule.path.unwrap());
        let status = Command::new(env!("CARGO_BIN_EXE_walkfuzz"))
            .arg("replay")
            .arg(capsule)
            .env("WALKFUZZ_JDK", home)
            .status()
            .unwrap();
        assert!(status.success(), "{}", finding.signature);
        println!("note: {} replays", finding.signature);
    }
}
