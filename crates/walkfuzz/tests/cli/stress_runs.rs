//! `walkfuzz stress` as it is used: shards, `--resume`, `merge`, users' programs, programs that misbehave, and ways to end a run.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::str::contains;
use serde_json::Value;
use walkfuzz_stress::store::StressFolder;

use crate::stress_support::{Background, Place, lives, until};
use crate::support::json;

fn ids(cells: &Value) -> Vec<String> {
    let id = |cell: &Value| cell["id"].as_str().unwrap().to_owned();
    cells.as_array().unwrap().iter().map(id).collect()
}

/// Shards by themselves, one of them cut off and resumed, are after `merge` the run in one piece.
#[test]
fn shards_merge_into_the_run_in_one_piece() {
    let Some(place) = Place::new() else { return };
    place.profile(
        "four.toml",
        "inherits = \"tiny\"\n[matrix]\nmode = [\"guarded\", \"churn\"]\ninterval = [\"1ms\", \"2ms\"]\n",
    );
    let four = |words: &[&str]| {
        let mut all = vec!["--profile", "four.toml", "--seed", "5"];
        all.extend(words);
        place.stress(&all)
    };
    let plan = json(&four(&["--dry-run", "--json"]).output().unwrap().stdout);
    assert_eq!(plan.as_array().unwrap().len(), 4, "{plan}");
    four(&["--shard", "1/2", "--jobs", "2", "--runs", "one"])
        .assert()
        .code(0)
        .stderr(contains("pass").count(2));
    four(&["--shard", "2/2", "--runs", "two"]).assert().code(0);
    let (one, two) = (place.run("one"), place.run("two"));

    // The second shard was killed while it wrote its last line.
    let lines = fs::read_to_string(two.join("cells.jsonl")).unwrap();
    let last = lines.trim_end().rfind('\n').unwrap();
    fs::write(two.join("cells.jsonl"), &lines[..last + 100]).unwrap();
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    place
        .walkfuzz()
        .args(["merge", two, one, "--out", "part", "--json"])
        .assert()
        .code(0)
        .stderr(contains("1 results are cut off or damaged"));
    // The profile and the seed are those of then.
    place
        .stress(&["--resume", two])
        .assert()
        .code(0)
        .stderr(contains("pass").count(1));

    let merged = place
        .walkfuzz()
        .args(["merge", two, one, "--out", "night", "--json"])
        .output()
        .unwrap();
    let merged = json(&merged.stdout);
    assert_eq!(merged["run"]["shard"], Value::Null);
    assert_eq!(merged["left"], Value::Array(Vec::new()));
    assert_eq!(merged["cells"].as_array().unwrap().len(), 4);
    for (cell, planned) in merged["cells"]
        .as_array()
        .unwrap()
        .iter()
        .zip(plan.as_array().unwrap())
    {
        assert_eq!(&cell["cell"], planned, "in the order of the plan");
    }
    in_one_piece(&place, &merged);
    for name in ["report.html", "report.json", "junit.xml"] {
        assert!(place.path("night").join(name).is_file(), "{name}");
    }
    let again = place
        .walkfuzz()
        .args(["merge", one, two, "--out", "night"])
        .output();
    let said = String::from_utf8_lossy(&again.unwrap().stderr).into_owned();
    assert!(
        said.contains("night is not empty; name a new folder"),
        "{said}"
    );

    let night = |words: &[&str]| {
        let output = place.walkfuzz().arg("report").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(night(&["night", "--html"]).contains("<!DOCTYPE html>"));
    assert!(night(&["night", "--junit", "--fail-on", "any"]).contains("<testsuite"));
    let compared = json(night(&["--compare", "night", "night", "--json"]).as_bytes());
    assert_eq!(compared["matched"], 4);
    assert!(
        night(&["--compare", one, "night", "--fail-on", "bug"])
            .contains("2 in both, 0 only before, 2 only after")
    );
    assert!(night(&["--trend", "night", one]).starts_with("2 nights"));
    let trend = json(night(&["--trend", "night", one, "--json"]).as_bytes());
    assert_eq!(trend["nights"].as_array().unwrap().len(), 2);
    let two_of_them = place
        .walkfuzz()
        .args(["report", "--compare", one, two])
        .output();
    let said = String::from_utf8_lossy(&two_of_them.unwrap().stderr).into_owned();
    assert!(said.contains("have no cell in common"), "{said}");
}

/// The run that the same results would be without shards: its report is the merged one.
fn in_one_piece(place: &Place, merged: &Value) {
    let night = StressFolder::open(&place.path("night")).unwrap();
    let facts = night.facts().unwrap();
    let piece = StressFolder::create_at(&place.path("piece"), &facts).unwrap();
    let mut cells = night.finished().unwrap().cells;
    // As they might have ended.
    cells.reverse();
    for cell in &cells {
        piece.append(cell).unwrap();
    }
    let output = place
        .walkfuzz()
        .args(["report", "piece", "--json"])
        .output()
        .unwrap();
    let found = json(&output.stdout);
    assert!(found == *merged, "{found:#}\n{merged:#}");
}

#[test]
fn a_users_program_is_sampled_where_it_stands() {
    let Some(place) = Place::new() else { return };
    // The script's JVM is found, and so is the jar beside it.
    let script = format!("{}; exit $?", place.java("queens --seconds 1"));
    let (code, report) = place.command(&["--keep"], &script);
    let cell = &report["cells"][0];
    assert_eq!((code, &cell["verdict"]), (0, &"pass".into()), "{cell:#}");
    assert_eq!(cell["jvm"]["version"], place.jdk.version.to_string());
    assert_eq!(cell["cell"]["jdk"], "own");
    assert!(cell["untouched"]["walks"].as_u64() > Some(10));
    assert_eq!(cell["workload"]["done"], true);
    let again = cell["command"].as_str().unwrap();
    assert!(
        again.contains(" --profile tiny.toml ") && again.contains(" -- sh -c '"),
        "{again}"
    );
    // A file does not start commands.
    let thing = format!(
        "{}:{}",
        place.run("runs").display(),
        ids(&report["cells"])[0]
    );
    let refused = place.walkfuzz().args(["repro", &thing]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

/// Neither that another JVM's sampler was refused nor what a program says of itself makes a crash or a wrong result anything less.
#[test]
fn a_failure_is_one_whatever_else_is_said() {
    let Some(place) = Place::new() else { return };
    let java = place.jdk.home.join("bin/java").display().to_string();
    let said = |run: &str, script: &str| {
        let (code, report) = place.command(&["--fail", "--runs", run], script);
        let cell = &report["cells"][0];
        assert_eq!(
            (code, cell["verdict"].as_str()),
            (1, Some("fail")),
            "{report:#}"
        );
        cell.clone()
    };
    let refused = format!("'{java}' -agentpath:$WALKFUZZ_SAMPLER=record=r.map,clok=x -version");
    let work = place.java("queens --seconds 60 2>&1");
    let crash = format!(
        "mkfifo f; {work} >f & pid=$!; (grep -m1 'progress 1'; kill -SEGV $pid; cat) <f; wait $pid; {refused}"
    );
    let crashed = said("crash", &crash);
    assert!(
        crashed["reason"].as_str().unwrap().contains("SIGSEGV"),
        "{crashed:#}"
    );
    let log = crashed["process"]["crash-log"].as_str().unwrap();
    let cell = place
        .run("crash")
        .join("cells")
        .join(crashed["id"].as_str().unwrap());
    assert!(fs::metadata(cell.join(log)).unwrap().len() > 1_000);

    let wrong = said(
        "wrong",
        "echo 'walkfuzz: wrong sum: expected 4 got 5'; echo 'walkfuzz: unsupported here: so it says'",
    );
    assert_eq!(wrong["reason"], "wrong result: sum: expected 4 got 5");
}

/// Of a JVM that ends well its recording, of one whose memory runs out what it had recorded until then: JFR writes every second.
#[test]
fn flight_recordings_are_read_whatever_becomes_of_the_jvm() {
    let Some(place) = Place::new() else { return };
    place.profile(
        "jfr.toml",
        "inherits = \"tiny\"\n[limits]\nsampled = \"6s\"\nheap = \"400m\"\n[matrix]\nwalker = [\"jfr-execution\"]\nmode = [\"bare\"]\n\
         workload = [\"streams\"]\nclock = [\"timer\"]\ncollector = [\"serial\", \"epsilon\"]\n",
    );
    let output = place
        .stress(&["--profile", "jfr.toml", "--keep", "--json"])
        .output()
        .unwrap();
    let report = json(&output.stdout);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "{report:#}");
    for cell in cells {
        assert!(
            cell["untouched"]["frames"].as_u64().unwrap() > 20,
            "{cell:#}"
        );
        let dies = cell["cell"]["collector"] == "epsilon";
        let outcome = if dies { "out-of-memory" } else { "clean" };
        assert_eq!(cell["process"]["outcome"], outcome, "{cell:#}");
        let folder = place
            .run("runs")
            .join("cells")
            .join(cell["id"].as_str().unwrap());
        assert!(!folder.join("repository").exists() && !folder.join("tmp").exists());
    }
}

#[test]
fn programs_that_misbehave_are_told_apart_and_leave_nothing() {
    let Some(place) = Place::new() else { return };
    let java = place.jdk.home.join("bin/java").display().to_string();

    // Dies at once.
    let (code, report) = place.command(&[], &format!("exec '{java}' -Xms2g -Xmx1g -version"));
    let reason = |report: &Value| report["cells"][0]["reason"].as_str().unwrap().to_owned();
    assert_eq!(code, 4);
    assert_eq!(reason(&report), "no crash log, and the JVM exited with 1");

    // Stands still, of all its threads; the dump says where.
    place.profile(
        "hasty.toml",
        "inherits = \"tiny\"\n[limits]\nhang = \"4s\"\n",
    );
    // It says how far it is before that, so that the slowest start is no standing still.
    let hung = format!("exec {}", place.java("queens --plant hang"));
    let (code, report) = place.command(
        &["--profile", "hasty.toml", "--fail", "--runs", "hung"],
        &hung,
    );
    assert_eq!(code, 1, "{report:#}");
    assert!(
        reason(&report).starts_with("the program stood still"),
        "{report:#}"
    );
    let cell = place
        .run("hung")
        .join("cells")
        .join(&ids(&report["cells"])[0]);
    let output = fs::read_to_string(cell.join("output.log")).unwrap();
    assert!(output.contains("Java-level deadlock"), "{output}");

    // Prints as much as it can, and leaves a process behind that left its group.
    let flood = format!(
        "setsid sleep 600 & echo \"pid $!\"; exec {}",
        place.java("queens --seconds 1 --plant flood")
    );
    let (_, report) = place.command(&["--runs", "flood"], &flood);
    let warnings = report["cells"][0]["warnings"].to_string();
    assert!(warnings.contains("output was cut"), "{report:#}");
    assert!(
        warnings.contains("1 processes that the program had left behind"),
        "{warnings}"
    );
    let cell = place
        .run("flood")
        .join("cells")
        .join(&ids(&report["cells"])[0]);
    let output = fs::read(cell.join("output.log")).unwrap();
    assert!(output.len() < 2 << 20, "{}", output.len());
    let first = String::from_utf8_lossy(&output)
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let pid = first.strip_prefix("pid ").unwrap();
    until("the child is ended", || !lives(pid));

    // Asks the sampler for what it does not have: the JVM does not start.
    let wrong =
        format!("exec '{java}' -agentpath:\"$WALKFUZZ_SAMPLER\"=record=x.map,clok=timer -version");
    let (code, report) = place.command(&["--runs", "wrong"], &wrong);
    assert_eq!(code, 4);
    assert!(
        reason(&report).starts_with("the sampler did not start: no such option: clok"),
        "{report:#}"
    );
}

#[test]
fn ctrl_c_ends_the_cell_and_the_run_goes_on_later() {
    let Some(place) = Place::new() else { return };
    let script = format!("echo $$ > pid; exec {}", place.java("queens --seconds 1"));
    // It takes long only the first time.
    fs::write(place.path("slow"), "").unwrap();
    let script = format!("if rm slow; then echo $$ > pid; exec sleep 600; fi; {script}");
    let run = Background::start(&place, &script);
    run.signal(Signal::SIGINT);
    let output = run.run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!lives(&run.program));
    let folder = place.run("runs").display().to_string();
    assert!(
        said.contains("go on with: walkfuzz stress --resume"),
        "{said}"
    );
    // The command is that of then.
    place
        .stress(&["--resume", &folder])
        .assert()
        .code(0)
        .stderr(contains("pass").count(1));
}

#[test]
fn a_second_ctrl_c_spares_the_wait_and_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let run = Background::start(&place, stubborn);
    let began = Instant::now();
    run.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(400));
    run.signal(Signal::SIGINT);
    let output = run.run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // The stubborn one has five seconds after a single one.
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    until("the program is ended", || !lives(&run.program));
}

#[test]
fn a_killed_run_leaves_no_jvm() {
    let Some(place) = Place::new() else { return };
    // Not the program that was started, but one that it started.
    let script = format!(
        "{} & echo $! > pid; wait",
        place.java("queens --seconds 600")
    );
    let mut run = Background::start(&place, &script);
    run.signal(Signal::SIGKILL);
    run.run.wait().unwrap();
    until("the JVM is ended", || !lives(&run.program));
}

#[test]
fn a_cell_is_run_again_and_again() {
    let Some(place) = Place::new() else { return };
    // Sampling takes longer than it may: that is what comes again.
    place.profile(
        "late.toml",
        "inherits = \"tiny\"\n[limits]\ntime-out = \"3s\"\nsampled = \"60s\"\n",
    );
    place
        .stress(&["--profile", "late.toml", "--runs", "late"])
        .assert()
        .code(4);
    let run = place.run("late");
    let cell = fs::read_dir(run.join("cells"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let repro = |thing: &str, words: &[&str]| {
        let mut command = place.walkfuzz();
        command
            .args(["repro", thing, "--runs", "again", "--budget", "1s"])
            .args(words);
        command.output().unwrap()
    };
    // Its record stands for it.
    let record = fs::read_dir(&cell)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "map"))
        .unwrap();
    let plan = repro(record.to_str().unwrap(), &["--dry-run"]);
    let said = String::from_utf8_lossy(&plan.stderr);
    assert_eq!(plan.status.code(), Some(0), "{said}");
    assert!(
        said.contains("time-out") && said.contains("up to 20 times within 1 s"),
        "{said}"
    );
    assert!(!place.path("again").exists());
    let answer = repro(cell.to_str().unwrap(), &["--json"]);
    assert_eq!(answer.status.code(), Some(0), "{answer:?}");
    let answer = &json(&answer.stdout)[0];
    assert_eq!(
        (&answer["answer"], &answer["runs"]["k"]),
        (&"reproduced".into(), &1.into()),
        "{answer:#}"
    );

    // A crash that a healthy cell is said to have had does not come back.
    place.stress(&["--runs", "well"]).assert().code(0);
    let run = place.run("well");
    let id = {
        let lines = fs::read_to_string(run.join("cells.jsonl")).unwrap();
        let mut cell = json(lines.trim().as_bytes());
        let healthy = format!("{}:{}", run.display(), cell["id"].as_str().unwrap());
        let nothing = repro(&healthy, &[]);
        assert_eq!(nothing.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&nothing.stderr).contains("shows nothing to reproduce"));
        cell["verdict"] = "fail".into();
        cell["findings"] = serde_json::json!([{
            "signature": "SIGSEGV|nowhere|agct", "title": "SIGSEGV in nowhere via agct", "count": 1,
            "perturbed": false, "known": [], "evidence": null,
        }]);
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(run.join("cells.jsonl"))
            .unwrap();
        writeln!(file, "{cell}").unwrap();
        healthy
    };
    let answer = repro(&id, &[]);
    let said = String::from_utf8_lossy(&answer.stdout);
    assert_eq!(answer.status.code(), Some(1), "{said}");
    assert!(
        said.contains("SIGSEGV in nowhere") && said.contains("not reproduced"),
        "{said}"
    );
    assert!(said.contains("0 of 1 runs"), "{said}");
}
