//! The Java workloads as a user starts them: each on every JDK that is found, and each planted mistake.
//!
//! Library programs run where their jars are in the cache; `scripts/get-libraries --all` brings them.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use walkfuzz_jvm::{Jdk, Places};

/// Far more than anything here takes; machines may be busy.
const PATIENCE: Duration = Duration::from_secs(180);
/// JDK in which virtual threads came.
const VIRTUAL_THREADS: u32 = 21;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The JDKs of this machine; prints a line if there are none.
fn jdks() -> Vec<Jdk> {
    let found: Vec<Jdk> = Places::from_env()
        .discover()
        .into_iter()
        .filter_map(|c| c.jdk.ok())
        .collect();
    if found.is_empty() {
        println!("skip: no JDK on this machine");
    }
    found
}

fn programs_jar() -> PathBuf {
    root().join("stress/workloads/programs/programs.jar")
}

fn java(jdk: &Jdk, class_path: &str, options: &[String], words: &[&str]) -> Command {
    let mut command = Command::new(jdk.home.join("bin/java"));
    command
        .arg("-Xmx256m")
        .args(options)
        .arg("-cp")
        .arg(format!("{}:{class_path}", programs_jar().display()))
        .arg("walkfuzz.programs.Main")
        .args(words)
        .stdin(Stdio::null());
    command
}

/// Exit code, standard output, standard error.
fn ended(mut command: Command) -> (i32, String, String) {
    let (out, err) = (
        tempfile::NamedTempFile::new().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    command
        .stdout(out.reopen().unwrap())
        .stderr(err.reopen().unwrap());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!(
                "{command:?} did not end:\n{}",
                fs::read_to_string(out.path()).unwrap()
            );
        }
        thread::sleep(Duration::from_millis(20));
    };
    let text = |file: &Path| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    (
        status.code().unwrap_or(-1),
        text(out.path()),
        text(err.path()),
    )
}

fn run(jdk: &Jdk, words: &[&str]) -> (i32, String, String) {
    ended(java(jdk, "", &[], words))
}

/// The lines of our protocol that begin with `word`.
fn said<'a>(out: &'a str, word: &str) -> Vec<&'a str> {
    let lines = out
        .lines()
        .filter_map(|line| line.strip_prefix("walkfuzz: "));
    lines
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
        .collect()
}

fn number(line: &str, name: &str) -> f64 {
    let mut fields = line.split(' ');
    let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("no {name} in {line:?}"))
        .parse()
        .unwrap()
}

/// Names by kind, as `--list` says them.
fn catalogue(jdk: &Jdk) -> BTreeMap<String, Vec<String>> {
    let (code, out, _) = run(jdk, &["--list"]);
    assert_eq!(code, 0);
    let mut kinds = BTreeMap::<String, Vec<String>>::new();
    for line in out.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        assert!(
            words.next().unwrap().parse::<u32>().unwrap() >= 11,
            "{line}"
        );
        kinds.entry(kind).or_default().push(name);
    }
    kinds
}

/// A short run of a program with antagonists beside it.
fn work(jdk: &Jdk, program: &str, antagonists: &[&str]) -> (i32, String, String) {
    let with = antagonists.join(",");
    let mut words = vec![program, "--seconds", "0.7", "--threads", "2"];
    if !with.is_empty() {
        words.extend(["--with", &with]);
    }
    // As the driver does; not every runtime can attach to itself.
    let agent = antagonists.contains(&"redefinition");
    let agent = agent.then(|| format!("-javaagent:{}", programs_jar().display()));
    let options: Vec<String> = agent.into_iter().collect();
    ended(java(jdk, "", &options, &words))
}

/// Each program runs once, with its share of the antagonists beside it: one JVM per program and JDK.
#[test]
fn programs_and_antagonists_work_on_every_jdk() {
    for jdk in jdks() {
        let kinds = catalogue(&jdk);
        let (programs, antagonists) = (&kinds["program"], &kinds["antagonist"]);
        assert!(programs.len() >= 8 && antagonists.len() >= 14, "{kinds:?}");
        let mut seen = BTreeSet::new();
        let mut without = usize::from(jdk.version.feature() < VIRTUAL_THREADS);
        for (index, program) in programs.iter().enumerate() {
            let mut share: Vec<&str> = antagonists
                .iter()
                .skip(index)
                .step_by(programs.len())
                .map(String::as_str)
                .filter(|name| {
                    *name != "virtual-threads" || jdk.version.feature() >= VIRTUAL_THREADS
                })
                .collect();
            let began = Instant::now();
            let (mut code, mut out, mut err) = work(&jdk, program, &share);
            // Small runtimes lack modules, and say so.
            let lacking = said(&out, "unsupported").first().and_then(|line| {
                let (name, why) = line.split_once(": ")?;
                why.contains("no module").then(|| name.to_owned())
            });
            if let Some(lacking) = lacking.filter(|_| code == 3) {
                println!("{} skip {lacking}: {out}", jdk.version);
                share.retain(|name| *name != lacking);
                without += 1;
                (code, out, err) = work(&jdk, program, &share);
            }
            let with = share.join(",");
            let context = format!(
                "{} {program} with [{with}]: {code}\n{out}\n{err}",
                jdk.version
            );
            assert_eq!(code, 0, "{context}");
            let done = said(&out, "done");
            assert_eq!(done.len(), 1, "{context}");
            assert!(
                number(done[0], "rounds") >= 1.0 && number(done[0], "checks") >= 1.0,
                "{context}"
            );
            for line in said(&out, "antagonist") {
                let (name, operations) = line.split_once(' ').unwrap();
                assert!(operations.parse::<u64>().unwrap() > 0, "{context}");
                seen.insert(name.to_owned());
            }
            assert!(said(&out, "wrong").is_empty(), "{context}");
            println!(
                "{} {program} with [{with}]: {} in {:.1?}",
                jdk.version,
                done[0],
                began.elapsed()
            );
        }
        assert_eq!(
            seen.len() + without,
            antagonists.len(),
            "{}: {seen:?}",
            jdk.version
        );
    }
}

#[test]
fn what_a_jdk_lacks_is_unsupported_with_a_reason() {
    for jdk in jdks() {
        if jdk.version.feature() < VIRTUAL_THREADS {
            let (code, out, _) = run(
                &jdk,
                &["queens", "--rounds", "1", "--with", "virtual-threads"],
            );
            assert_eq!(code, 3, "{out}");
            assert!(
                said(&out, "unsupported")[0].starts_with("virtual-threads: needs JDK 21"),
                "{out}"
            );
        }
    }
    let Some(jdk) = jdks().pop() else { return };
    let options = ["-XX:+DisableAttachMechanism".to_owned()];
    let (code, out, _) = ended(java(
        &jdk,
        "",
        &options,
        &["queens", "--rounds", "1", "--with", "redefinition"],
    ));
    assert_eq!(code, 3, "{out}");
    assert!(
        said(&out, "unsupported")[0].contains("-javaagent:"),
        "{out}"
    );
    let options = [
        "-XX:+DisableAttachMechanism".to_owned(),
        format!("-javaagent:{}", programs_jar().display()),
    ];
    let (code, out, err) = ended(java(
        &jdk,
        "",
        &options,
        &["queens", "--rounds", "1", "--with", "redefinition"],
    ));
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, _) = run(&jdk, &["rx", "--rounds", "1"]);
    assert_eq!(code, 3, "{out}");
    assert!(
        said(&out, "unsupported")[0].contains("scripts/get-libraries rx"),
        "{out}"
    );
}

#[test]
fn the_same_rounds_give_the_same_number_of_checks() {
    let Some(jdk) = jdks().pop() else { return };
    let checks = |threads: &str, seed: &str| {
        let (code, out, err) = run(
            &jdk,
            &[
                "compression",
                "--rounds",
                "6",
                "--threads",
                threads,
                "--seed",
                seed,
            ],
        );
        assert_eq!(code, 0, "{out}{err}");
        let done = said(&out, "done")[0].to_owned();
        assert!((number(&done, "rounds") - 6.0).abs() < 0.1, "{done}");
        number(&done, "checks")
    };
    assert!((checks("1", "3") - checks("3", "3")).abs() < 0.1);
}

#[test]
fn wrong_usage_ends_with_2_and_a_sentence() {
    let Some(jdk) = jdks().pop() else { return };
    for (words, sentence) in [
        (&[][..], "which program?"),
        (&["quens"], "nothing is called quens"),
        (&["collect"], "is an antagonist"),
        (&["queens", "--with", "text"], "text is no antagonist"),
        (&["queens", "--with"], "--with needs a value"),
        (&["queens", "--seconds", "-1"], "needs a positive number"),
        (&["queens", "--sekonds", "1"], "no such option: --sekonds"),
        (&["queens", "text"], "one name"),
    ] {
        let (code, out, err) = run(&jdk, words);
        assert_eq!(code, 2, "{words:?}: {out}{err}");
        assert!(
            err.contains(sentence) && err.contains("usage: Main"),
            "{words:?}: {err}"
        );
    }
}

#[test]
fn a_planted_wrong_result_ends_with_5() {
    for jdk in jdks() {
        let (code, out, err) = run(&jdk, &["sorting", "--seconds", "30", "--plant", "wrong"]);
        assert_eq!(code, 5, "{out}{err}");
        let wrong = said(&out, "wrong");
        assert_eq!(wrong.len(), 1, "{out}");
        assert!(
            wrong[0].starts_with("sorting: expected ") && wrong[0].contains(" got "),
            "{out}"
        );
        assert!(said(&out, "done").is_empty(), "{out}");
    }
}

/// A process that is killed however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_planted_hang_stops_all_progress_and_never_ends() {
    let Some(jdk) = jdks().pop() else { return };
    let out = tempfile::NamedTempFile::new().unwrap();
    let mut command = java(
        &jdk,
        "",
        &[],
        &["queens", "--seconds", "0.1", "--plant", "hang"],
    );
    let mut child = Killed(command.stdout(out.reopen().unwrap()).spawn().unwrap());
    let began = Instant::now();
    while said(&fs::read_to_string(out.path()).unwrap(), "progress").is_empty() {
        assert!(began.elapsed() < PATIENCE, "no progress before the hang");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_secs(2));
    assert_eq!(child.0.try_wait().unwrap(), None);
    let text = fs::read_to_string(out.path()).unwrap();
    assert_eq!(said(&text, "progress").last(), Some(&"3"), "{text}");
    assert!(said(&text, "done").is_empty(), "{text}");
}

#[test]
fn a_planted_flood_goes_on_and_on() {
    const MUCH: usize = 64 << 20;
    let Some(jdk) = jdks().pop() else { return };
    let mut command = java(
        &jdk,
        "",
        &[],
        &["queens", "--seconds", "60", "--plant", "flood"],
    );
    let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut pipe = child.0.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < MUCH {
        let more = pipe.read(&mut buffer).unwrap();
        assert!(more > 0, "only {read} bytes");
        read += more;
    }
}

#[test]
fn a_planted_child_outlives_the_program() {
    let Some(jdk) = jdks().pop() else { return };
    for plant in ["fork", "daemon"] {
        // Not a pipe: the child would hold it open.
        let (code, out, err) = run(&jdk, &["queens", "--rounds", "1", "--plant", plant]);
        assert_eq!(code, 0, "{out}{err}");
        let pid = said(&out, "planted")[0]
            .strip_prefix("child ")
            .unwrap()
            .parse()
            .unwrap();
        let alive = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        assert!(alive.contains("sleep"), "{plant}: {alive:?}");
    }
}

/// Runs scripts/get-libraries.
fn libraries(words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(root().join("scripts/get-libraries"));
    command.args(words).stdin(Stdio::null());
    ended(command)
}

#[test]
fn each_library_program_has_a_lock_and_bad_ones_are_told() {
    let (code, out, err) = libraries(&["--list"]);
    assert_eq!(code, 0, "{err}");
    let locked: BTreeSet<&str> = out
        .lines()
        .map(|line| line.split('\t').next().unwrap())
        .collect();
    let (code, _, err) = libraries(&["no-such-library"]);
    assert!(
        code == 2 && err.contains("no library program 'no-such-library'"),
        "{err}"
    );
    let Some(jdk) = jdks().pop() else { return };
    let known = catalogue(&jdk).remove("library").unwrap();
    assert_eq!(locked, known.iter().map(String::as_str).collect());
}

/// One round of each library program on the newest JDK on which it works.
#[test]
fn library_programs_work_where_their_jars_are() {
    let (code, out, err) = libraries(&["--list"]);
    assert_eq!(code, 0, "{err}");
    let jdks = jdks();
    for line in out.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, java_range, jars] = fields[..] else {
            panic!("{line}")
        };
        let (oldest, newest) = java_range
            .strip_prefix("JDK ")
            .unwrap()
            .split_once("..")
            .unwrap();
        let range = oldest.parse::<u32>().unwrap()..=newest.parse::<u32>().unwrap();
        let fitting = jdks
            .iter()
            .filter(|jdk| range.contains(&jdk.version.feature()));
        let Some(jdk) = fitting.max_by_key(|jdk| jdk.version.feature()) else {
            println!("skip: {name} needs JDK {oldest} to {newest}");
            continue;
        };
        let numbers: Vec<&str> = jars
            .split(' ')
            .filter(|word| word.parse::<u32>().is_ok())
            .collect();
        if numbers[0] != numbers[1] {
            println!("skip: {name}: {jars}; scripts/get-libraries {name} brings them");
            continue;
        }
        let (code, path, err) = libraries(&[name]);
        assert_eq!(code, 0, "{err}");
        let feature = jdk.version.feature().to_string();
        let options = libraries(&["--options", &feature, name]).1;
        // Spark refuses to start with less than 450 MB.
        let heap = iter::once("-Xmx1g".to_owned());
        let options: Vec<String> = heap
            .chain(options.split_whitespace().map(str::to_owned))
            .collect();
        let (code, out, err) = ended(java(
            jdk,
            path.trim(),
            &options,
            &[name, "--rounds", "1", "--threads", "2"],
        ));
        assert_eq!(code, 0, "{name} on {}: {out}{err}", jdk.version);
        println!("{} {name}: {}", jdk.version, said(&out, "done")[0]);
    }
}
