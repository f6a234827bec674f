//! Two runs beside each other, and many in a row.

use walkfuzz_stress::report::{Comparison, Night, Run, Screen, compare, trend};
use walkfuzz_stress::result::CellFinding;
use walkfuzz_stress::store::StressFacts;
use walkfuzz_stress::{CellResult, Verdict};

use crate::fixture::{at, cells, facts, results};

struct Nights {
    facts: StressFacts,
    before: Vec<CellResult>,
    after: Vec<CellResult>,
}

impl Nights {
    /// The same plan on two nights with the same walkers.
    fn new(count: usize) -> Self {
        let plan = cells(count, 7);
        Self {
            before: results(&plan, 7),
            after: results(&plan, 8),
            facts: facts(plan, 7),
        }
    }

    fn compared(&self) -> Comparison {
        let mut later = self.facts.clone();
        later.started = at(86_400);
        later.finished = Some(at(86_400 + 18_000));
        compare(
            Run {
                facts: &self.facts,
                cells: &self.before,
            },
            Run {
                facts: &later,
                cells: &self.after,
            },
        )
    }
}

fn crash(cell: &mut CellResult, times: u64) {
    cell.untouched.faults += times;
    cell.verdict = Verdict::Fail;
    cell.reason = "SIGSEGV in new_code via agct".into();
    cell.findings.push(CellFinding {
        signature: "SIGSEGV|new_code|agct".into(),
        title: "SIGSEGV in new_code via agct".into(),
        count: times,
        perturbed: false,
        known: Vec::new(),
        evidence: None,
        registers: Vec::new(),
    });
}

#[test]
fn a_run_is_as_good_as_itself() {
    let mut nights = Nights::new(200);
    nights.after = nights.before.clone();
    let compared = nights.compared();
    assert_eq!(compared.matched, 192);
    assert!(compared.rates_compared > 10 && compared.codes_compared > 100);
    assert!(!compared.is_worse());
    assert!(
        compared.verdicts.is_empty() && compared.appeared.is_empty() && compared.gone.is_empty()
    );
    assert!(compared.rates.iter().all(|change| !change.significant));
    assert!(compared.codes.iter().all(|change| !change.significant));
}

#[test]
fn other_luck_is_no_change_but_a_regression_is() {
    let mut nights = Nights::new(400);
    let calm = nights.compared();
    let significant = calm
        .rates
        .iter()
        .filter(|change| change.significant)
        .count();
    assert_eq!(significant, 0, "{:#?}", calm.rates);
    let mut hurt = 0;
    for cell in &mut nights.after {
        if cell.cell.jdk == "21.0.8.2"
            && cell.verdict == Verdict::Pass
            && cell.cell.walker == "agct"
        {
            crash(cell, 2);
            hurt += 1;
        }
    }
    assert!(hurt > 10, "{hurt}");
    let compared = nights.compared();
    assert!(compared.is_worse());
    let worse: Vec<&str> = compared
        .rates
        .iter()
        .filter(|change| {
            change.significant && change.after.interval.low > change.before.interval.low
        })
        .map(|change| change.scope.as_str())
        .collect();
    assert!(
        worse.contains(&"all") && worse.contains(&"jdk=21.0.8.2") && worse.contains(&"walker=agct"),
        "{worse:?}"
    );
    assert!(!worse.contains(&"jdk=25.0.3"), "{worse:?}");
    assert_eq!(compared.appeared[0].title, "SIGSEGV in new_code via agct");
    assert_eq!(compared.appeared[0].cells, hurt);
    assert!(compared.appeared[0].chance < 1e-3);
    // Turns for the worse come first.
    assert_eq!(compared.verdicts[0].after, Verdict::Fail);
}

#[test]
fn a_cell_that_goes_blind_is_a_turn_for_the_worse() {
    let mut nights = Nights::new(60);
    nights.after = nights.before.clone();
    let cell = nights
        .after
        .iter_mut()
        .find(|cell| cell.verdict == Verdict::Pass)
        .unwrap();
    cell.verdict = Verdict::Unknown;
    cell.reason = "vacuous: 3 walks, 10000 are needed".into();
    let compared = nights.compared();
    assert!(compared.is_worse());
    assert_eq!(
        (compared.verdicts[0].before, compared.verdicts[0].after),
        (Verdict::Pass, Verdict::Unknown)
    );
}

#[test]
fn a_codes_share_that_doubles_is_seen_and_a_breath_is_not() {
    let mut nights = Nights::new(200);
    nights.after = nights.before.clone();
    for cell in &mut nights.after {
        for code in &mut cell.codes {
            match code.code {
                -5 => code.untouched *= 2,
                // Millions of walks make a hundredth significant; it says nothing.
                -3 => code.untouched += code.untouched / 100,
                _ => {}
            }
        }
    }
    let compared = nights.compared();
    let changed: Vec<i32> = compared
        .codes
        .iter()
        .filter(|change| change.scope == "all" && change.significant)
        .map(|change| change.code)
        .collect();
    assert_eq!(changed, [-5, -5], "of both generations");
}

#[test]
fn runs_of_other_kinds_are_told_apart() {
    let nights = Nights::new(60);
    let mut other = nights.facts.clone();
    other.machine.kernel = "6.9".into();
    other.finished = None;
    let (before, after) = (&nights.before[..40], &nights.after[10..]);
    let compared = compare(
        Run {
            facts: &nights.facts,
            cells: before,
        },
        Run {
            facts: &other,
            cells: after,
        },
    );
    assert_eq!(compared.only_before.len(), 10);
    assert_eq!(compared.only_after.len(), after.len() - 30);
    assert_eq!(
        compared.cautions,
        [
            "another kernel: 6.8.0-1021 before, 6.9 after",
            "one of them did not finish: finished before, cut off after"
        ]
    );
}

#[test]
fn a_comparison_on_the_terminal() {
    let mut nights = Nights::new(120);
    for cell in nights
        .after
        .iter_mut()
        .filter(|cell| cell.cell.jdk == "25.0.3")
    {
        if cell.verdict == Verdict::Pass {
            crash(cell, 3);
        }
    }
    insta::assert_snapshot!("compare", nights.compared().text(&Screen::default()));
}

fn nights(count: i64) -> Vec<Night> {
    let plan = cells(120, 7);
    let night = |number: i64| {
        let mut facts = facts(plan.clone(), 7);
        facts.started = at(86_400 * number);
        let mut results = results(&plan, number.unsigned_abs());
        // One line is not there in the beginning, another breaks in the end.
        results.retain(|cell| number > 3 || cell.cell.jdk != "25.0.3");
        for cell in &mut results {
            if number == count - 1 && cell.cell.jdk == "21.0.8.2" {
                cell.untouched.faults += 1;
            }
        }
        Night::of(Run {
            facts: &facts,
            cells: &results,
        })
    };
    (0..count).map(night).collect()
}

#[test]
fn nights_in_a_row() {
    let mut nights = nights(12);
    let expected = trend(&nights);
    nights.reverse();
    assert_eq!(trend(&nights), expected);
    let line = |name: &str| {
        expected
            .lines
            .iter()
            .find(|line| line.line == name)
            .unwrap()
    };
    assert_eq!(
        line("25")
            .points
            .iter()
            .filter(|point| point.is_none())
            .count(),
        4
    );
    assert!(
        line("21").chance.unwrap() < 0.001,
        "{:?}",
        line("21").chance
    );
    let text = expected.text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    insta::assert_snapshot!("trend", text);
    assert_eq!(trend(&[]).text(), "no nights\n");
}

#[test]
fn more_nights_than_columns() {
    let few = nights(2);
    let many: Vec<Night> = (0..100)
        .map(|number| Night {
            started: at(86_400 * number),
            ..few[0].clone()
        })
        .collect();
    let text = trend(&many).text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        text.starts_with("100 nights, 2026-01-01 to 2026-04-10, the last 40 drawn"),
        "{text}"
    );
}
