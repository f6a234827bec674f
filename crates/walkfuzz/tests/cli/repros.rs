//! `walkfuzz repro`: what it takes, and how it ends. The logs are real ones of `corpus/hs_err`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

use crate::support::{fails, folder, jdk, json, walkfuzz};

/// A log of the corpus, unpacked into `home`.
fn log(home: &TempDir, name: &str) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus/hs_err")
        .join(format!("{name}.log.zst"));
    let text = zstd::decode_all(&*fs::read(&packed).unwrap()).unwrap();
    let path = home.path().join(format!("hs_err_{name}.log"));
    fs::write(&path, text).unwrap();
    path
}

/// A file of the corpus.
fn entry(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus")
        .join(name)
}

#[test]
fn what_is_no_thing_to_reproduce_is_named() {
    let home = folder();
    let file = |name: &str, bytes: &[u8]| {
        fs::write(home.path().join(name), bytes).unwrap();
        home.path().join(name).display().to_string()
    };
    let cases = [
        (file("empty", b""), "is no finding, run folder, input"),
        (
            file("prose", &b"to be or not to be\n".repeat(1000)),
            "is no finding, run folder, input",
        ),
        (
            file("note", b"walk it, please: 0123456789 and so on\n"),
            "is a text",
        ),
        (file("cut.map", b"WALKREC1\x01\0\0\0"), "cut"),
        (
            file("cut.wfcap", &[0x28, 0xb5, 0x2f, 0xfd, 0x24]),
            "cut.wfcap",
        ),
        (file("broken.toml", b"schema = \n"), "broken.toml"),
        (
            entry("seeds/untouched.toml").display().to_string(),
            "there is nothing to reproduce",
        ),
        (
            file("nothing-to-do", b"\0"),
            "says nothing to do to a context",
        ),
        (home.path().display().to_string(), "run.json"),
        ("/dev/null".to_owned(), "is no file"),
        ("no-such-id".to_owned(), "no-such-id"),
        ("../../etc/passwd".to_owned(), "../../etc/passwd"),
    ];
    for (thing, sentence) in cases {
        for words in [&["repro"] as &[_], &["repro", "--dry-run"]] {
            let mut command = walkfuzz();
            command.current_dir(home.path()).args(words).arg(&thing);
            fails(&mut command, 2, sentence);
        }
    }
    for budget in ["0s", "-5s", "soon"] {
        let mut command = walkfuzz();
        command.args(["repro", "x", &format!("--budget={budget}")]);
        command.assert().code(2).stderr(contains("--budget"));
    }
    assert!(!home.path().join("walkfuzz-runs").exists());
}

#[test]
fn a_log_of_no_walker_is_told_so_without_a_jvm() {
    let home = folder();
    let runs = home.path().join("runs");
    for (name, sentence) in [
        ("17.0.15-kill-segv", "somebody sent SIGSEGV"),
        ("25.0.3-unsafe", "not a walker crash"),
        ("11.0.13-java-oom", "not a walker crash"),
    ] {
        let mut command = walkfuzz();
        command
            .arg("repro")
            .arg(log(&home, name))
            .arg("--runs")
            .arg(&runs);
        command
            .assert()
            .code(1)
            .stdout(contains("not a walker crash").and(contains(sentence)));
    }
    let mut command = walkfuzz();
    command
        .arg("repro")
        .arg(log(&home, "21.0.8-own-walker"))
        .arg("--runs")
        .arg(&runs);
    command.assert().code(4).stdout(contains("does not drive"));
    assert!(!runs.exists(), "nothing was run");
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    let Some(jdk) = jdk() else { return };
    let home = folder();
    let mut command = walkfuzz();
    command
        .current_dir(home.path())
        .args(["repro", "--dry-run", "--jdk"])
        .arg(&jdk.home)
        .arg(log(&home, "17.0.15-agct-serial"));
    command.assert().code(0).stdout("").stderr(
        contains("will look for the signature SIGSEGV|JavaThread::pd_get_top_frame|agct")
            .and(contains("for up to 60 s")),
    );
}

/// The way of a report: from somebody's log to a finding, from that to its input and to what a process has left.
#[test]
fn from_a_crash_log_to_a_finding_and_its_input() {
    let Some(jdk) = jdk() else { return };
    let name = match jdk.version.feature() {
        11 => "11.0.13-agct-g1",
        17 => "17.0.15-agct-g1",
        21 => "21.0.8-agct-g1",
        25 => "25.0.3-agct-g1",
        other => {
            eprintln!("skip: no log of a JDK {other}");
            return;
        }
    };
    let home = folder();
    let runs = home.path().join("runs");
    let repro = |thing: &Path| {
        let mut command = walkfuzz();
        command
            .args(["repro", "--json", "--budget", "90s", "--jdk"])
            .arg(&jdk.home)
            .arg("--runs")
            .arg(&runs)
            .arg(thing)
            .timeout(Duration::from_secs(300));
        let output = command.assert().code(0).get_output().stdout.clone();
        json(&output)[0].clone()
    };

    let first = repro(&log(&home, name));
    assert_eq!(first["answer"], "reproduced", "{first}");
    let title = first["title"].as_str().unwrap();
    assert!(title.contains("pd_get_top_frame"), "{title}");
    assert!(first["seen"].as_u64().unwrap() > 0);

    let again = repro(Path::new(first["id"].as_str().unwrap()));
    assert_eq!(again["answer"], "reproduced", "{again}");
    assert_eq!(again["id"], first["id"]);

    let run = PathBuf::from(again["run"].as_str().unwrap());
    let artifact = fs::read_dir(run.join("artifacts")).unwrap().next();
    let copy = home.path().join("input.bin");
    fs::copy(artifact.unwrap().unwrap().path(), &copy).unwrap();
    assert_eq!(repro(&copy)["answer"], "reproduced");

    let record = fs::read_dir(&run).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension().is_some_and(|extension| extension == "map")).then_some(path)
    });
    let record = record.unwrap();
    let dry_run = |words: &str| {
        let mut command = walkfuzz();
        command
            .args(["repro", "--dry-run", "--jdk"])
            .arg(&jdk.home)
            .arg("--runs")
            .arg(&runs)
            .arg(&record);
        let said = command.assert().code(0).get_output().stderr.clone();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("the last input of process"), "{said}");
        assert!(said.contains(words), "{said}");
    };
    let before = fs::read_dir(&runs).unwrap().count();
    dry_run("any fault of its own walks");
    // Had the JVM died and left a log, the log would say what to look for.
    let stem = record.file_stem().unwrap().to_str().unwrap();
    let pid: String = stem.chars().filter(char::is_ascii_digit).collect();
    fs::copy(log(&home, name), run.join(format!("hs_err_pid{pid}.log"))).unwrap();
    dry_run("JavaThread::pd_get_top_frame");
    assert_eq!(fs::read_dir(&runs).unwrap().count(), before);

    let mut command = walkfuzz();
    command
        .args(["repro", "--dry-run", "--jdk"])
        .arg(&jdk.home)
        .arg(entry("crashing/17.0.15-frame.sender.toml"));
    command
        .assert()
        .code(0)
        .stderr(contains("the signature SIGSEGV|frame::sender|agct"));
}
