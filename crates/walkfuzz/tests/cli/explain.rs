//! `walkfuzz explain` on findings that are kept with the tests: real ones, without what was particular to the machine.

use std::fs;
use std::path::{Path, PathBuf};

use walkfuzz_record::{CellState, Finding, KOfN, RunFolder, SCHEMA, VariantCell, Variants};

use crate::support::{fails, folder, json, walkfuzz};

/// `SIGSEGV in JavaThread::pd_get_top_frame` of 17, examined.
const EXAMINED: &str = "137e88e015f9";

fn runs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/runs")
}

fn page(finding: &str, runs: &Path, more: &[&str]) -> String {
    let mut command = walkfuzz();
    // Seen from the folder itself, so that each machine has the same commands.
    command.args(["explain", finding, "--runs", "."]);
    command.current_dir(runs);
    // No JDK is looked for, so that each machine gives the same page.
    let home = folder();
    command.env_clear().env("HOME", home.path()).args(more);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn examined() -> Finding {
    let run = RunFolder::latest(&runs()).unwrap();
    let mut findings = run.findings().unwrap().findings.into_iter();
    findings.find(|finding| finding.id == EXAMINED).unwrap()
}

/// A run folder that holds one finding.
fn run_of(finding: &Finding) -> (tempfile::TempDir, RunFolder) {
    let base = folder();
    let facts = RunFolder::latest(&runs()).unwrap().facts().unwrap();
    let run = RunFolder::create(base.path(), &facts).unwrap();
    run.append_finding(finding).unwrap();
    (base, run)
}

#[test]
fn the_page_of_a_real_finding() {
    insta::assert_snapshot!("text", page(EXAMINED, &runs(), &[]));
    insta::assert_snapshot!(
        "markdown",
        page(EXAMINED, &runs(), &["--format", "markdown"])
    );
    insta::assert_snapshot!("html", page(EXAMINED, &runs(), &["--format", "html"]));
}

#[test]
fn a_finding_that_nobody_examined_says_so() {
    let mut finding = examined();
    finding.moment = None;
    finding.registers.meanings.clear();
    finding.reliability.frozen = None;
    finding.reliability.portability = None;
    finding.input.perturbation.clear();
    finding.registers.edited.clear();
    let site = finding.site.as_mut().unwrap();
    site.backtrace.clear();
    site.registers.clear();
    (site.accessed, site.instruction) = (None, None);
    let (base, _) = run_of(&finding);
    insta::assert_snapshot!("not_examined", page(EXAMINED, base.path(), &[]));
}

fn cell(jdk: &str, state: CellState, again: u64, reason: Option<&str>) -> VariantCell {
    VariantCell {
        jdk: jdk.to_owned(),
        build_id: String::new(),
        collector: "g1".to_owned(),
        mode: "c2".to_owned(),
        state,
        reason: reason.map(str::to_owned),
        again: KOfN::new(again, 100),
        frozen: None,
        others: 0,
        controls: KOfN::new(100, 100),
        deaths: 0,
        sites: Vec::new(),
        seconds: 1.0,
    }
}

fn grid(finding: &Finding, cells: Vec<VariantCell>) -> Variants {
    Variants {
        schema: SCHEMA,
        finding: finding.id.clone(),
        signature: finding.signature.clone(),
        perturbation: finding.input.perturbation.clone(),
        kind: None,
        offset: None,
        moments: 100,
        made: finding.last_seen,
        cells,
    }
}

#[test]
fn recorded_variants_are_a_table() {
    let finding = examined();
    let (base, run) = run_of(&finding);
    let cells = vec![
        cell("17.0.7", CellState::Tried, 31, None),
        cell("21.0.8", CellState::Tried, 0, None),
        cell(
            "25.0.3",
            CellState::CouldNotRun,
            0,
            Some("no such collector"),
        ),
    ];
    run.write_variants(&grid(&finding, cells)).unwrap();
    let text = page(EXAMINED, base.path(), &[]);
    let rows: Vec<String> = text
        .lines()
        .filter(|line| line.contains(" g1 ") && line.contains(" c2 "))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "> 17.0.7 g1 c2 31 of 100 moments",
            "21.0.8 g1 c2 0 of 100 moments",
            "25.0.3 g1 c2 could not run: no such collector",
        ]
    );
    assert!(!text.contains("Not tried on other JVMs"));
}

#[test]
fn markup_in_a_finding_stays_text() {
    let mut finding = examined();
    let hostile = "<img src=x onerror=alert(1)> | `rm` [a](javascript:b) </pre>";
    finding.title = hostile.to_owned();
    finding.input.perturbation = hostile.to_owned();
    finding.commands = vec![hostile.to_owned(), "```".to_owned()];
    finding.moment.as_mut().unwrap().frames[0].method = hostile.to_owned();
    let (base, _) = run_of(&finding);
    let html = page(EXAMINED, base.path(), &["--format", "html"]);
    assert!(!html.contains("<img"));
    assert_eq!(
        html.matches("<pre>").count(),
        html.matches("</pre>").count()
    );
    let markdown = page(EXAMINED, base.path(), &["--format", "markdown"]);
    let title = markdown.lines().next().unwrap();
    assert!(
        title.starts_with(r"# \<img src=x onerror=alert(1)\> \| \`rm\` \[a\]"),
        "{title}"
    );
    assert!(markdown.contains("````sh\n"), "{markdown}");
}

#[test]
fn what_commands_a_terminal_is_shown() {
    let mut finding = examined();
    finding.title = "a\x1b[31mred\x07\u{9b}2J".to_owned();
    finding.input.perturbation = "\x1b]0;title\x07".to_owned();
    let (base, _) = run_of(&finding);
    for format in ["text", "markdown", "html"] {
        let page = page(EXAMINED, base.path(), &["--format", format]);
        assert!(
            !page.contains(|c: char| c.is_control() && c != '\n'),
            "{page:?}"
        );
        assert!(page.contains("red"));
    }
    for words in [
        &["report", "--runs"][..],
        &["report", "--findings", "--runs"],
    ] {
        let output = walkfuzz().args(words).arg(base.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("[31mred"), "{text:?}");
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
    }
}

/// A later run that has the same finding does not hide where it was tried.
#[test]
fn variants_of_all_runs_are_shown() {
    let finding = examined();
    let (base, tried) = run_of(&finding);
    let grid = |jdk: &str, state, again| grid(&finding, vec![cell(jdk, state, again, None)]);
    tried
        .write_variants(&grid("17.0.7", CellState::Tried, 31))
        .unwrap();
    let facts = tried.facts().unwrap();
    let later = RunFolder::create(base.path(), &facts).unwrap();
    later.append_finding(&finding).unwrap();
    let shows = || page(EXAMINED, base.path(), &[]).contains("31 of 100 moments");
    assert!(shows());
    later
        .write_variants(&grid("17.0.7", CellState::NotRun, 0))
        .unwrap();
    assert!(shows());
    later
        .write_variants(&grid("25.0.3", CellState::Tried, 7))
        .unwrap();
    let text = page(EXAMINED, base.path(), &[]);
    assert!(
        text.contains("31 of 100") && text.contains("7 of 100"),
        "{text}"
    );
}

/// An entry of the corpus and its capsule tell what they know, without a run folder and a JVM.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the capsules are of x86_64")]
fn entries_and_capsules_have_a_page() {
    let home = folder();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let name = "17.0.15-JavaThread.pd_get_top_frame";
    for end in ["toml", "wfcap"] {
        let file = corpus.join(format!("crashing/{name}.{end}"));
        fs::copy(&file, home.path().join(format!("{name}.{end}"))).unwrap();
    }
    let text = |file: &str| page(file, home.path(), &[]);
    let of_entry = text(&format!("{name}.toml"));
    for part in [
        "SIGSEGV in JavaThread::pd_get_top_frame",
        "T4: not shown",
        "Memory that the outcome needs",
        "rip of the walked context",
        "looks like async-profiler#73",
        &format!("walkfuzz repro {name}.toml"),
        &format!("walkfuzz export {name}.toml"),
        &format!("walkfuzz variants {name}.toml"),
    ] {
        assert!(of_entry.contains(part), "{part}: {of_entry}");
    }
    let of_capsule = text(&format!("{name}.wfcap"));
    assert!(of_capsule.contains(&format!("walkfuzz replay {name}.wfcap")));
    fs::remove_file(home.path().join(format!("{name}.toml"))).unwrap();
    let alone = text(&format!("{name}.wfcap"));
    assert!(alone.contains("this page is made of a capsule"), "{alone}");

    // What takes a finding otherwise takes them as well, and says what it cannot do with them.
    let run = |words: &[&str]| {
        let mut command = walkfuzz();
        command.current_dir(&home).args(words);
        command
    };
    let capsule = format!("{name}.wfcap");
    let mut export = run(&["export", &capsule, "--out", "out"]);
    export.assert().code(0);
    assert!(home.path().join("out/agent.c").is_file());
    let regression = corpus.join("regression/JDK-8313796.toml");
    let regression = regression.to_str().unwrap();
    for subcommand in ["explain", "export"] {
        let sentence =
            "has no capsule beside it, and an entry alone says too little; walkfuzz repro";
        fails(&mut run(&[subcommand, regression]), 2, sentence);
    }
}

#[test]
fn the_format_follows_the_name_of_the_file() {
    let out = folder();
    for (name, begin) in [
        ("page.html", "<!DOCTYPE html>"),
        ("page.md", "# SIGSEGV"),
        ("page", "SIGSEGV"),
    ] {
        let path = out.path().join(name);
        let text = page(EXAMINED, &runs(), &["--out", path.to_str().unwrap()]);
        assert_eq!(text, "");
        assert!(fs::read_to_string(path).unwrap().starts_with(begin));
    }
    let output = page(EXAMINED, &runs(), &["--json"]);
    let json = json(output.as_bytes());
    assert_eq!(json["finding"]["id"], EXAMINED);
    assert_eq!(json["page"]["sections"][0]["title"], "In short");
}

#[test]
fn wrong_names_and_broken_runs_are_one_sentence() {
    let explain = |finding: &str, runs: &Path| {
        let mut command = walkfuzz();
        command.args(["explain", finding, "--runs"]).arg(runs);
        command
    };
    fails(&mut explain("0123", &runs()), 2, "it has 137e88e015f9");
    fails(&mut explain("", &runs()), 2, "no finding named");
    fails(
        &mut explain("nowhere:13", &runs()),
        2,
        "is not a run folder",
    );
    let empty = folder();
    fails(&mut explain("13", empty.path()), 2, "no run");

    // Two findings whose ids begin in the same way.
    let finding = examined();
    let (base, run) = run_of(&finding);
    let other = Finding {
        id: "137eaaaaaaaa".to_owned(),
        ..finding
    };
    run.append_finding(&other).unwrap();
    fails(
        &mut explain("137e", base.path()),
        2,
        "137e88e015f9, 137eaaaaaaaa",
    );
    // A run without findings, and one whose findings were cut off.
    let lines = run.path().join("findings.jsonl");
    let text = fs::read_to_string(&lines).unwrap();
    fs::write(&lines, "").unwrap();
    fails(
        &mut explain("13", base.path()),
        2,
        "none of them has findings",
    );
    fs::write(&lines, &text[..text.len() / 4]).unwrap();
    fails(
        &mut explain("13", base.path()),
        2,
        "1 line of findings is damaged",
    );
    // What cannot be written is the environment's fault.
    let mut unwritable = explain(EXAMINED, &runs());
    fails(
        unwritable.args(["--out", "/proc/nowhere/page"]),
        3,
        "cannot write",
    );
}
