//! What a driver of stress cells does beside running them: it keeps others out of its run, ends what escapes, and takes any folder.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use predicates::str::contains;
use serde_json::Value;

use crate::stress_support::{Background, Place, lives, until};
use crate::support::{fails, json};

#[test]
fn a_run_has_one_driver_and_ends_once() {
    let Some(place) = Place::new() else { return };
    // It takes long only the first time.
    fs::write(place.path("slow"), "").unwrap();
    let script = format!(
        "if rm slow; then echo $$ > pid; exec sleep 600; fi; exec {}",
        place.java("queens --seconds 1")
    );
    let mut first = Background::start(&place, &script);
    let run = place.run("runs");
    let folder = run.to_str().unwrap();
    let cells = || fs::read_dir(run.join("cells")).unwrap().count();
    assert_eq!(cells(), 1);
    let sentence = format!(
        "{folder} is under way in process {}: wait for its end, or end it with Ctrl-C, then resume it",
        first.run.id()
    );
    fails(&mut place.stress(&["--resume", folder]), 2, &sentence);
    assert_eq!(cells(), 1);
    assert!(lives(&first.program));
    // Readers need no turn.
    let left = |number: u32| {
        place
            .stress(&["--resume", folder, "--dry-run"])
            .assert()
            .code(0)
            .stdout(contains(format!("of the 1 planned, {number} are left\n")))
            .stdout(contains(" agct ").count(number as usize));
    };
    left(1);
    let report = place.walkfuzz().args(["report", folder]).output().unwrap();
    assert_eq!(report.status.code(), Some(0), "{report:?}");

    // Whoever is killed is out of the way.
    first.signal(Signal::SIGKILL);
    first.run.wait().unwrap();
    let resume = || {
        place
            .stress(&["--resume", folder])
            .assert()
            .code(0)
            .stderr(contains("is under way").count(0));
        let facts = json(&fs::read(run.join("stress.json")).unwrap());
        assert_ne!(facts["finished"], Value::Null);
        facts["finished"].clone()
    };
    let finished = resume();
    left(0);
    assert_eq!(resume(), finished, "nothing was left to do");
}

#[test]
fn what_escapes_holds_nobody_up() {
    let Some(place) = Place::new() else { return };
    // No group of the cell's, no mark, but its output; and one without even that.
    let script = format!(
        "env -i setsid sleep 600 & echo \"pid $!\"; env -i setsid sleep 600 >/dev/null 2>&1 & echo \"pid $!\"; exec {}",
        place.java("queens --seconds 1")
    );
    let began = Instant::now();
    let (_, report) = place.command(&["--keep"], &script);
    assert!(
        began.elapsed() < Duration::from_secs(50),
        "{:?}",
        began.elapsed()
    );
    let cell = &report["cells"][0];
    let warnings = cell["warnings"].to_string();
    assert!(
        warnings.contains("2 processes that the program had left behind"),
        "{cell:#}"
    );
    let output = place
        .run("runs")
        .join("cells")
        .join(cell["id"].as_str().unwrap());
    let output = fs::read_to_string(output.join("output.log")).unwrap();
    let pids: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("pid "))
        .collect();
    assert_eq!(pids.len(), 2, "{output}");
    for pid in pids {
        assert!(!lives(pid), "{pid}");
    }
}

#[test]
fn one_ctrl_c_is_enough_for_what_escapes() {
    let Some(place) = Place::new() else { return };
    let script = "env -i setsid sleep 600 & echo $! > pid; exec sleep 600";
    let run = Background::start(&place, script);
    // As a user's would: in the middle of it.
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    run.signal(Signal::SIGINT);
    let output = run.run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // Five seconds for the program, and what a busy machine needs for the reports.
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    until("the escaped one is ended", || !lives(&run.program));
}

#[test]
fn any_folder_will_do_for_a_program_of_ones_own() {
    let Some(place) = Place::new() else { return };
    let odd = "r\"q u'o %p,t=e";
    // It is sampled, and its crash log is where it is looked for.
    let script = format!(
        "{} > log & until grep -q progress log; do sleep 0.1; done; kill -SEGV $!; wait $!",
        place.java("queens --seconds 600")
    );
    let (code, report) = place.command(&["--runs", odd], &script);
    let cell = &report["cells"][0];
    assert_eq!((code, &cell["verdict"]), (0, &"fail".into()), "{cell:#}");
    assert_ne!(cell["process"]["crash-log"], Value::Null, "{cell:#}");
    assert!(cell["untouched"]["walks"].as_u64() > Some(0), "{cell:#}");
    // A file does not start its command, but shows it, as it can be pasted.
    let thing = format!(
        "{}:{}",
        place.run(odd).display(),
        cell["id"].as_str().unwrap()
    );
    let again = cell["command"].as_str().unwrap();
    assert!(again.contains(" --filter 'jdk=own & "), "{again}");
    fails(place.walkfuzz().args(["repro", &thing]), 2, again);
}
