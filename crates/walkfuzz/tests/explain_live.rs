//! A finding of a running JVM, explained: what only a frozen copy of that JVM can tell has to stand on the page.
//!
//! This program runs itself again as the process that holds the JVM, and then asks `walkfuzz explain`.
#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy cannot see without the harness"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use walkfuzz_capsule::Capsule;
use walkfuzz_context::generate::blind;
use walkfuzz_harness::campaign::end_process;
use walkfuzz_harness::{Mode, Session};
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::{Finding, OutcomeKind, RunFolder};

/// Set in the process that holds the JVM.
const CHILD: &str = "WALKFUZZ_EXPLAIN_TEST_CHILD";
/// How long a fault is looked for. `JavaThread::pd_get_top_frame` in 17 and its like in the others take seconds.
const LIMIT: Duration = Duration::from_secs(20);
/// Sessions that look for it.
const SESSIONS: u32 = 4;

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        fuzz();
    }
    for feature in [17, 25] {
        match of(feature) {
            Some(jdk) => explained(&jdk),
            None => println!("skip: no JDK {feature} on this machine"),
        }
    }
    ExitCode::SUCCESS
}

/// A JDK of this release.
fn of(feature: u32) -> Option<Jdk> {
    let found = Places::from_env().discover().into_iter();
    let mut found = found.filter_map(|candidate| candidate.jdk.ok());
    found.find(|jdk| jdk.version.feature() == feature)
}

/// Walks until a fault was examined.
fn fuzz() -> ! {
    let mut session = Session::start(Mode::Survey, &["live".to_owned()], None).unwrap();
    let began = Instant::now();
    let mut seeds = 0_u64..;
    let mut found = None;
    while found.is_none() && began.elapsed() < LIMIT {
        for seed in seeds.by_ref().take(500) {
            session.run_input(&blind(seed).to_bytes()).unwrap();
        }
        found = fault(session.run_folder());
    }
    session.finish();
    end_process(0);
}

fn fault(run: &RunFolder) -> Option<Finding> {
    let findings = run.findings().unwrap().findings.into_iter();
    let mut faults = findings.filter(|finding| finding.outcome.kind == OutcomeKind::Fault);
    // Some natural contexts cannot be walked even untouched: there, no Java frames are known.
    faults.find(|finding| {
        let moment = finding.moment.as_ref();
        moment.is_some_and(|moment| moment.frames_in_all.is_some_and(|frames| frames > 0))
    })
}

fn explained(jdk: &Jdk) {
    let runs = tempfile::tempdir().unwrap();
    // A session examines the first moment of each signature, and that may be one that does not do.
    let found = (0..SESSIONS).find_map(|_| {
        let status = walkfuzz_record::machine::command(std::env::current_exe().unwrap())
            .env(CHILD, "1")
            .env("WALKFUZZ_JDK", &jdk.home)
            .env("WALKFUZZ_RUNS", runs.path())
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        let run = RunFolder::latest(runs.path()).unwrap();
        fault(&run).map(|finding| (run, finding))
    });
    let (run, finding) = found.expect("a fault was found and examined");
    println!("note: {} on {jdk}", finding.title);

    let page = |format: &str| -> String {
        let path = runs.path().join(format!("page.{format}"));
        let output = walkfuzz(runs.path(), &finding.id)
            .args(["--format", format, "--out"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{format}: {said}");
        assert!(output.stdout.is_empty());
        std::fs::read_to_string(path).unwrap()
    };
    let site = finding.site.as_ref().unwrap();
    let moment = finding.moment.as_ref().unwrap();
    let instruction = site.instruction.clone().unwrap();
    let text = page("text");
    println!("{text}");
    for part in [
        finding.title.as_str(),
        &finding.signature,
        &finding.input.perturbation,
        &instruction,
        site.backtrace.last().unwrap(),
        &finding.jvm.build_id,
        "Memory that the walk may read",
        "walkfuzz variants",
    ] {
        assert!(text.contains(part), "no {part:?}");
    }
    // The faulting instruction, disassembled from the file, is the one that the copy read from memory.
    let marked: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(">  +0x"))
        .collect();
    if site.module.as_deref() == Some("libjvm.so") {
        assert!(
            matches!(marked[..], [line] if line.contains(&instruction)),
            "{marked:?}, {instruction}"
        );
    }
    for frame in &moment.frames {
        assert!(frame.method.contains('('), "no name: {frame:?}");
        assert!(text.contains(&frame.method));
    }
    assert!(
        moment
            .frames
            .iter()
            .any(|frame| frame.method.starts_with("java.lang.Thread.run()")),
        "{moment:#?}"
    );
    let names: Vec<&str> = site.registers.iter().map(|r| r.name.as_str()).collect();
    let arch = walkfuzz_context::Arch::NATIVE;
    assert_eq!(names, arch.register_names());
    let pc = &site.registers[usize::from(arch.pc().0)];
    assert_eq!(pc.value, site.pc);
    // The word at the delivered sp was read, and is known to lie in the frame that the thread was held in.
    let sp = &finding.registers.before[arch.register_names()[usize::from(arch.sp().0)]];
    let at_sp = moment.words.iter().find(|word| word.address == *sp);
    assert!(
        at_sp.is_some_and(|word| word.value.is_some()),
        "{moment:#?}"
    );

    if cfg!(target_arch = "x86_64") {
        needed(&finding, &run, &text);
    }

    let markdown = page("markdown");
    let html = page("html");
    for (page, heading) in [(&markdown, "## The fault"), (&html, "<h2>The fault</h2>")] {
        assert!(page.contains(heading));
        assert!(page.contains(&finding.id));
    }
    for foreign in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    let output = walkfuzz(runs.path(), &finding.id)
        .arg("--json")
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["finding"]["id"], *finding.id);
    assert!(json["page"]["sections"].as_array().unwrap().len() > 10);
}

/// The words that the outcome needs are those of the capsule, and have names.
fn needed(finding: &Finding, run: &RunFolder, text: &str) {
    let moment = finding.moment.as_ref().unwrap();
    let path = finding.capsule.path.as_ref();
    let path = path.unwrap_or_else(|| panic!("{:?}", finding.capsule));
    let capsule = Capsule::read(&run.path().join(path)).unwrap();
    let words: BTreeMap<String, String> = capsule
        .words()
        .map(|(address, word)| (format!("{:#x}", address.0), format!("{word:#x}")))
        .collect();
    assert_eq!(moment.needed_in_all, words.len() as u64);
    assert!(text.contains("Memory that the outcome needs"));
    for word in &moment.needed {
        let value = word.value.as_ref().unwrap();
        assert_eq!(words.get(&word.address), Some(value), "{word:?}");
        assert!(text.contains(&word.place), "{word:?}");
    }
    let place = |what: &str| moment.needed.iter().any(|word| word.place.contains(what));
    // Of every fault: whose thread it is, that it is in Java, and where the walk begins.
    for what in [
        "this JavaThread: ",
        "_thread_state",
        "rip of the walked context",
    ] {
        assert!(place(what), "no {what}: {:#?}", moment.needed);
    }
    let nameless = "memory of which nothing more is known";
    let unknown = moment
        .needed
        .iter()
        .filter(|word| word.place.contains(nameless));
    assert!(
        unknown.count() * 4 < moment.needed.len(),
        "{:#?}",
        moment.needed
    );
}

fn walkfuzz(runs: &Path, id: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("walkfuzz"));
    command.arg("explain").arg(id).arg("--runs").arg(runs);
    command
}
