//! `walkfuzz variants` and `walkfuzz corpus` from outside: real JVMs where there are some, and what bad input leads to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use walkfuzz_context::{Arch, Batch};
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::finding::hex_bytes;

use crate::support::{fails, folder, json, walkfuzz};

/// The JDKs of these feature versions, each with a visible reason if it is missing.
fn jdks() -> Vec<Jdk> {
    let places = Places::from_env();
    let choose = |wanted| match places.choose(Some(wanted)) {
        Ok(jdk) => Some(jdk),
        Err(error) => {
            eprintln!("skip: {error}");
            None
        }
    };
    ["17", "25"].into_iter().filter_map(choose).collect()
}

/// A walk that AsyncGetCallTrace does not survive: a deoptimisation handler's pc over an sp that nobody can read.
const DEADLY: &str = "pc=deopt-handler[0] sp=1";

fn entry(corpus: &Path, state: &str, name: &str, walk: &str, rest: &str) -> PathBuf {
    let batch: Batch = format!("{}: {walk}", Arch::NATIVE.name()).parse().unwrap();
    let folder = corpus.join(state);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.toml"));
    let text = format!(
        "schema = 1\ntitle = \"{name}\"\ntier = \"T4\"\nsince = \"2026-03-01\"\nmoments = 300\n\
         input = \"{}\"\nperturbation = \"{walk}\"\n{rest}",
        hex_bytes(&batch.to_bytes())
    );
    fs::write(&path, text).unwrap();
    path
}

/// The signature of [`DEADLY`]: in 17 the compiler leaves the one function in the other.
fn deadly_signature(jdk: &Jdk) -> String {
    let name = if jdk.version.feature() == 17 {
        "JavaThread::pd_get_top_frame"
    } else {
        "JavaThread::pd_get_top_frame_for_signal_handler"
    };
    format!("SIGSEGV|{name}|agct")
}

fn crashing(corpus: &Path, name: &str, walk: &str, jdk: &Jdk) -> PathBuf {
    let rest = format!(
        "expected = \"crash\"\nsignature = \"{}\"\n[jdk]\nversion = \"{}\"\nbuild_id = \"{}\"\n",
        deadly_signature(jdk),
        jdk.version,
        jdk.identity
    );
    entry(corpus, "crashing", name, walk, &rest)
}

fn check(corpus: &Path, options: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = walkfuzz();
    command
        .args(["corpus", "check", "--json", "--corpus"])
        .arg(corpus)
        .args(options)
        .timeout(Duration::from_secs(400));
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.stdout.is_empty(), "{errors}");
    (output.status.code(), json(&output.stdout), errors)
}

fn variants(finding: &Path, options: &[&str]) -> Command {
    let mut command = walkfuzz();
    command.arg("variants").arg(finding).args(options);
    command.timeout(Duration::from_secs(400));
    command
}

#[test]
fn a_crash_shows_in_each_mode_that_has_its_class() {
    let corpus = folder();
    for jdk in jdks() {
        let path = crashing(corpus.path(), "deadly", DEADLY, &jdk);
        // Compiled code alone has that handler: in the interpreter its class does not come up.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("[jdk]", "kind = \"nmethod\"\n[jdk]")).unwrap();
        let home = jdk.home.display().to_string();
        let mut command = variants(
            &path,
            &["--jdks", &home, "--gc", "serial", "--modes", "default,int"],
        );
        let output = command
            .args(["--moments", "50", "--budget", "20s", "--json"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let grid = json(&output.stdout);
        let cells = grid["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2, "{grid}");
        for cell in cells {
            if cell["mode"] == "int" {
                assert_eq!(cell["state"], "not-met", "{cell}");
                assert!(cell["others"].as_u64() > Some(0), "{cell}");
                continue;
            }
            assert_eq!(cell["state"], "tried", "{cell}");
            assert!(cell["again"]["k"].as_u64() > Some(0), "{cell}");
            assert_eq!(cell["again"]["of"], 50, "{cell}");
            assert_eq!(cell["frozen"]["k"], cell["frozen"]["of"], "{cell}");
            assert!(cell["controls"]["k"].as_u64() > Some(0), "{cell}");
        }
    }
}

#[test]
fn a_jvm_that_does_not_start_is_a_cell_with_a_reason() {
    let Some(jdk) = jdks().into_iter().next() else {
        return;
    };
    let corpus = folder();
    let path = crashing(corpus.path(), "deadly", DEADLY, &jdk);
    let home = jdk.home.display().to_string();
    let mut command = variants(
        &path,
        &["--jdks", &home, "--gc", "g1", "--modes", "default"],
    );
    let output = command
        .args(["--json"])
        .env("WALKFUZZ_JAVA_OPTIONS", "-XX:+UseNoSuchGC")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let grid = json(&output.stdout);
    assert_eq!(grid["cells"][0]["state"], "could-not-run", "{grid}");
    assert_eq!(grid["cells"][0]["reason"], "no such collector", "{grid}");
}

#[test]
fn a_check_moves_entries_by_the_rules() {
    for jdk in jdks() {
        let corpus = folder();
        let corpus = corpus.path();
        crashing(corpus, "deadly", DEADLY, &jdk);
        crashing(corpus, "harmless", "untouched", &jdk);
        entry(
            corpus,
            "seeds",
            "untouched",
            "untouched",
            "expected = \"walks\"\n",
        );
        entry(corpus, "seeds", "bad", DEADLY, "expected = \"walks\"\n");
        // Somebody put what still crashes there; and a fix that is none.
        let back = crashing(corpus, "back", DEADLY, &jdk);
        fs::create_dir_all(corpus.join("incubating")).unwrap();
        fs::rename(&back, corpus.join("incubating/back.toml")).unwrap();
        let this = format!(
            "version = \"{}\"\nbuild_id = \"{}\"\n",
            jdk.version, jdk.identity
        );
        let broken = format!(
            "expected = \"fixed\"\nsignature = \"{}\"\n[jdk]\n{this}[fixed]\n{this}",
            deadly_signature(&jdk)
        );
        entry(corpus, "regression", "broken", DEADLY, &broken);
        let home = jdk.home.display().to_string();
        let of = |report: &Value, name: &str| {
            let all = report["entries"].as_array().unwrap();
            all.iter().find(|one| one["entry"] == name).unwrap().clone()
        };

        let (code, report, errors) = check(corpus, &["--jdk", &home, "--dry-run"]);
        assert_eq!(code, Some(1), "{report} {errors}");
        let verdicts = ["deadly", "harmless", "untouched", "bad", "back", "broken"]
            .map(|name| of(&report, name)["verdict"].clone());
        assert_eq!(
            verdicts,
            ["pass", "unknown", "pass", "fail", "pass", "fail"],
            "{report}"
        );
        assert_eq!(of(&report, "back")["moves_to"], "crashing");
        // Nothing has moved yet.
        assert!(corpus.join("incubating/back.toml").is_file());
        let harmless = corpus.join("crashing/harmless.toml");
        assert!(!fs::read_to_string(&harmless).unwrap().contains("misses"));

        check(corpus, &["--jdk", &home, "back", "broken"]);
        assert!(corpus.join("crashing/back.toml").is_file());
        assert!(corpus.join("crashing/broken.toml").is_file());
        for folder in ["incubating", "regression"] {
            assert_eq!(fs::read_dir(corpus.join(folder)).unwrap().count(), 0);
        }
        // Three misses in a row.
        for misses in 1..=3 {
            assert!(harmless.is_file());
            let (code, report, _) = check(corpus, &["--jdk", &home, "harmless"]);
            assert_eq!(
                (code, &of(&report, "harmless")["misses"]),
                (Some(4), &Value::from(misses))
            );
        }
        assert!(!harmless.exists());
        let (code, report, _) = check(corpus, &["--jdk", &home, "harmless"]);
        assert_eq!(
            (code, &report["verdict"]),
            (Some(0), &Value::from("pass")),
            "{report}"
        );
    }
}

#[test]
fn a_missing_jdk_is_unknown_and_changes_nothing() {
    let corpus = folder();
    let rest =
        "expected = \"crash\"\nsignature = \"SIGSEGV|x|agct\"\n[jdk]\nversion = \"11.0.99\"\n";
    let path = entry(corpus.path(), "crashing", "old", "untouched", rest);
    let before = fs::read_to_string(&path).unwrap();
    let (code, report, _) = check(corpus.path(), &[]);
    assert_eq!(code, Some(4), "{report}");
    assert_eq!(report["entries"][0]["why"], "unknown: needs JDK 11.0.99");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    let (code, report, _) = check(corpus.path(), &["--installed"]);
    assert_eq!(
        (code, &report["verdict"]),
        (Some(4), &Value::from("unknown"))
    );
}

/// One capsule that is none is its entry's fault; the others are judged.
#[test]
fn a_damaged_capsule_fails_its_entry_alone() {
    let corpus = folder();
    let rest =
        "expected = \"crash\"\nsignature = \"SIGSEGV|x|agct\"\n[jdk]\nversion = \"11.0.99\"\n";
    for name in ["a", "b", "c"] {
        entry(corpus.path(), "crashing", name, "untouched", rest);
    }
    fs::write(corpus.path().join("crashing/b.wfcap"), "no capsule").unwrap();
    let (code, report, _) = check(corpus.path(), &[]);
    assert_eq!(code, Some(1), "{report}");
    let entries = report["entries"].as_array().unwrap();
    let verdicts: Vec<&Value> = entries.iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, ["unknown", "fail", "unknown"], "{report}");
    assert_eq!(entries[1]["capsule"], "damaged");
    let why = entries[1]["why"].as_str().unwrap();
    assert!(why.contains("b.wfcap: the file is no zstd stream"), "{why}");
}

/// The corpus's capsules can be minimised: they say what their context was before it was perturbed.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the capsules are of x86_64")]
fn the_corpus_has_capsules_that_can_be_minimised() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/crashing");
    let mut looked = 0;
    for file in fs::read_dir(corpus).unwrap().flatten() {
        let path = file.path();
        if path.extension().is_none_or(|end| end != "wfcap") {
            continue;
        }
        let facts = walkfuzz_capsule::Capsule::read(&path).unwrap().facts;
        assert!(facts.perturbed.is_some(), "{}", path.display());
        looked += 1;
        let output = walkfuzz().args(["minimise", "--json"]).arg(&path).output();
        let output = output.unwrap();
        if output.status.code() == Some(4) {
            eprintln!("skip: {}", String::from_utf8_lossy(&output.stderr).trim());
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = json(&output.stdout);
        // A perturbation that changes nothing would be no finding.
        assert_ne!(said["after"]["perturbation"], "fp+=0", "{said}");
        assert!(said["walks"].as_u64().unwrap() > 0, "{said}");
    }
    assert!(looked > 0);
}

#[test]
fn bad_entries_and_names_are_wrong_usage() {
    let home = folder();
    let corpus = home.path().join("corpus");
    let good = entry(
        &corpus,
        "seeds",
        "good",
        "untouched",
        "expected = \"walks\"\n",
    );
    let corpus_check = |names: &[&str]| {
        let mut command = walkfuzz();
        command
            .current_dir(&home)
            .args(["corpus", "check"])
            .args(names);
        command
    };
    for name in ["../../etc/passwd", "..", "a/b", ""] {
        fails(&mut corpus_check(&[name]), 2, "is no name for an entry");
    }
    fails(&mut corpus_check(&["nobody"]), 2, "no entry nobody");
    fails(
        &mut corpus_check(&["--corpus", "nowhere"]),
        2,
        "nowhere is no folder",
    );
    fails(&mut corpus_check(&["--jdk", "17.0.99"]), 2, "17.0.99");
    let text = fs::read_to_string(&good).unwrap();
    for (bad, why) in [
        (text.replace("schema = 1", "schema = 7"), "schema 7"),
        (text.replace("input = \"", "input = \"0"), "no hex"),
        (text.replace("\"walks\"", "\"crash\""), "needs a signature"),
        ("][".to_owned(), "is no entry of the corpus"),
        (String::new(), "is no entry of the corpus"),
    ] {
        fs::write(&good, bad).unwrap();
        fails(&mut corpus_check(&[]), 2, why);
        fails(&mut variants(&good, &[]), 2, why);
    }
    fs::remove_file(&good).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &good).unwrap();
    fails(&mut corpus_check(&[]), 2, "not a regular file");
}

#[test]
fn unknown_findings_and_jdks_are_wrong_usage() {
    let home = folder();
    let runs = home.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let run = |words: &[&str]| {
        let mut command = walkfuzz();
        command
            .current_dir(&home)
            .args(words)
            .arg("--runs")
            .arg(&runs);
        command
    };
    fails(
        &mut run(&["variants", "012345678901"]),
        2,
        "finding 012345678901",
    );
    fails(
        &mut run(&["variants", "../nowhere/../finding"]),
        2,
        "there is no such file",
    );
    fails(&mut run(&["variants", "nothing.toml"]), 2, "nothing.toml");
    fails(
        &mut run(&["corpus", "add", "012345678901"]),
        2,
        "finding 012345678901",
    );
    let seed = entry(
        home.path(),
        "seeds",
        "good",
        "untouched",
        "expected = \"walks\"\n",
    );
    fails(&mut variants(&seed, &["--jdks", "17.0.99"]), 2, "17.0.99");
    fails(
        &mut variants(&seed, &["--range", "12"]),
        2,
        "no JDK 12 is installed",
    );
    for wrong in [
        ["--gc", "cms"],
        ["--modes", "c3"],
        ["--budget", "0s"],
        ["--moments", "0"],
    ] {
        let mut command = variants(&seed, &wrong);
        command.assert().code(2).stdout("");
    }
}
