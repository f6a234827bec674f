//! What readers see: snapshots of each text format, and what must hold whatever is in a run.

use proptest::prelude::*;
use walkfuzz_stress::report::{Run, Screen, html, json, junit, terminal};
use walkfuzz_stress::store::StressFacts;
use walkfuzz_stress::{CellResult, Verdict};

use crate::fixture::{cells, facts, results};

fn night(count: usize) -> (StressFacts, Vec<CellResult>) {
    let plan = cells(count, 7);
    let results = results(&plan, 7);
    (facts(plan, 7), results)
}

#[test]
fn the_first_screen() {
    let (facts, results) = night(260);
    for verdict in Verdict::ALL {
        let there = results.iter().any(|cell| cell.verdict == verdict);
        assert!(there, "no {} in the fixture", verdict.name());
    }
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    insta::assert_snapshot!("screen", terminal(run, &Screen::default()));
}

#[test]
fn the_first_screen_of_a_run_without_a_flaw() {
    let (facts, mut results) = night(120);
    results.retain(|cell| cell.verdict == Verdict::Pass);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    let screen = Screen {
        folder: "walkfuzz-runs/20260101T000000.000Z-1",
        ..Screen::default()
    };
    insta::assert_snapshot!("screen_pass", terminal(run, &screen));
    let nothing = Run {
        facts: &facts,
        cells: &[],
    };
    insta::assert_snapshot!("screen_nothing", terminal(nothing, &Screen::default()));
}

#[test]
fn every_cell_has_a_line() {
    let (facts, results) = night(30);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    let text = terminal(
        run,
        &Screen {
            all: true,
            ..Screen::default()
        },
    );
    insta::assert_snapshot!("screen_all", text);
}

#[test]
fn colours_change_nothing_else() {
    let (facts, results) = night(120);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    for all in [false, true] {
        let plain = terminal(
            run,
            &Screen {
                all,
                ..Screen::default()
            },
        );
        let coloured = terminal(
            run,
            &Screen {
                all,
                colour: true,
                ..Screen::default()
            },
        );
        assert!(!plain.contains('\x1b') && coloured.contains("\x1b[31m"));
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some((text, escape)) = rest.split_once("\x1b[") {
            stripped += text;
            rest = escape.split_once('m').unwrap().1;
        }
        assert_eq!(stripped + rest, plain);
    }
}

#[test]
fn junit_as_ci_reads_it() {
    let (facts, results) = night(12);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    insta::assert_snapshot!("junit", junit(run).unwrap());
}

#[test]
fn junit_counts_what_the_verdicts_say() {
    let (facts, results) = night(200);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    let report = quick_junit::Report::deserialize_from_str(&junit(run).unwrap()).unwrap();
    let count = |verdict| {
        results
            .iter()
            .filter(|cell| cell.verdict == verdict)
            .count()
    };
    assert_eq!(report.tests, facts.plan.len());
    assert_eq!(report.failures, count(Verdict::Fail));
    assert_eq!(report.errors, count(Verdict::Unknown));
    let skipped = report.skipped;
    let left = facts.plan.len() - results.len();
    assert_eq!(
        skipped,
        count(Verdict::Known) + count(Verdict::Outside) + left
    );
}

#[test]
fn the_order_in_which_cells_end_does_not_matter() {
    let (facts, results) = night(60);
    let mut reversed = results.clone();
    reversed.reverse();
    let (one, other) = (
        Run {
            facts: &facts,
            cells: &results,
        },
        Run {
            facts: &facts,
            cells: &reversed,
        },
    );
    assert_eq!(html(one, ""), html(other, ""));
    assert_eq!(json(one), json(other));
    assert_eq!(junit(one).unwrap(), junit(other).unwrap());
}

const NASTY: &str = "</style><script src=http://x.example/y>&\"'\u{1b}[31m\u{0}]]>\n| pipe";

/// Everything that a program or a JVM may have said.
fn nasty(cell: &mut CellResult) {
    for text in [
        &mut cell.reason,
        &mut cell.command,
        &mut cell.jvm.version,
        &mut cell.process.words,
    ] {
        *text = NASTY.to_owned();
    }
    cell.cell.workload = NASTY.to_owned();
    cell.workload.wrong = Some(NASTY.to_owned());
    cell.warnings = vec![NASTY.to_owned()];
    cell.process.crash_log = Some(NASTY.to_owned());
    for finding in &mut cell.findings {
        finding.title = NASTY.to_owned();
        finding.evidence = Some(NASTY.to_owned());
    }
    for code in &mut cell.codes {
        code.name = NASTY.to_owned();
    }
}

#[test]
fn what_programs_say_is_never_markup() {
    let (facts, mut results) = night(60);
    results.iter_mut().for_each(nasty);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    let page = html(run, "");
    assert!(page.contains("&lt;script src=http://x.example/y&gt;"));
    assert!(!page.contains("<script") && page.matches("</style>").count() == 1);
    let text = terminal(
        run,
        &Screen {
            all: true,
            ..Screen::default()
        },
    );
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    quick_junit::Report::deserialize_from_str(&junit(run).unwrap()).unwrap();
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let (facts, results) = night(60);
    let page = html(
        Run {
            facts: &facts,
            cells: &results,
        },
        "",
    );
    for wrong in [
        "http:", "https:", "src=", "@import", "url(", "<script", "<link",
    ] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    // Every place that the page leads to is there.
    let targets = page
        .split("href=\"#")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for target in targets {
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        count += 1;
    }
    assert!(count > 100, "{count}");
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
}

/// Lines that a terminal of 80 columns needs.
fn screen_lines(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count().div_ceil(80).max(1))
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_first_screen_fits(
        count in 0_usize..120,
        seed in any::<u64>(),
        scale in 0_u32..40,
        words in 1_usize..60,
        length in 0_usize..60,
        folder in 0_usize..120,
    ) {
        let plan = cells(count, seed);
        let mut results = results(&plan, seed);
        for cell in &mut results {
            cell.untouched.walks <<= scale;
            cell.untouched.hangs = cell.untouched.walks;
            cell.untouched.breaches = cell.untouched.walks;
            cell.command = vec!["w".repeat(length); words].join(" ");
            cell.reason = cell.command.clone();
        }
        let mut facts = facts(plan, seed);
        facts.profile = "p".repeat(length);
        let run = Run { facts: &facts, cells: &results };
        let folder = "f".repeat(folder);
        let text = terminal(run, &Screen { folder: &folder, ..Screen::default() });
        prop_assert!(screen_lines(&text) <= 24, "{} lines:\n{}", screen_lines(&text), text);
    }
}
