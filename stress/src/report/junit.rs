//! A run as JUnit XML: a suite for each JDK and collector, a case for each planned cell.
//!
//! A failed cell is a *failure*. An unknown one is an *error*: it has shown nothing, so it must not look like a pass. Known issues, perturbed contexts
//! and cells that did not run are *skipped*, with the reason. Contract: pure; characters that XML has no room for are dropped.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use walkfuzz_record::KOfN;

use super::Run;
use super::summary::crashes;
use super::text::per_million;
use crate::cell::{Cell, Dimension};
use crate::result::{CellResult, Verdict};

/// A run as JUnit XML.
///
/// # Errors
/// None that a caller can cause: what the XML writer says.
pub fn junit(run: Run<'_>) -> Result<String, quick_junit::SerializeError> {
    let facts = run.facts;
    let mut report = Report::new(format!("walkfuzz stress {}", facts.profile));
    report.set_timestamp(time(facts.started));
    if let Some(finished) = facts.finished {
        report.set_time(seconds(
            finished.duration_since(facts.started).as_secs_f64(),
        ));
    }
    let mut suites: Vec<TestSuite> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut add = |cell: &Cell, case: TestCase| {
        let name = format!("{} {}", cell.jdk, cell.collector);
        let place = *places.entry(name.clone()).or_insert_with(|| {
            let mut suite = TestSuite::new(name);
            suite.set_timestamp(time(facts.started));
            suites.push(suite);
            suites.len() - 1
        });
        suites[place].add_test_case(case);
    };
    for result in run.in_order() {
        add(&result.cell, case(result));
    }
    for cell in run.left() {
        let mut status = TestCaseStatus::skipped();
        status.set_message("not run");
        add(cell, named(cell, status));
    }
    report.add_test_suites(suites);
    report.to_string()
}

fn case(result: &CellResult) -> TestCase {
    let status = match result.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::Fail => bad(NonSuccessKind::Failure, result),
        Verdict::Unknown => bad(NonSuccessKind::Error, result),
        Verdict::Known | Verdict::Outside => {
            let mut status = TestCaseStatus::skipped();
            status
                .set_message(result.reason.as_str())
                .set_type(result.verdict.name());
            status
        }
    };
    let mut case = named(&result.cell, status);
    case.set_time(seconds(result.seconds));
    let KOfN { k, of } = crashes(result);
    let properties = [
        ("id", result.id.clone()),
        ("walks", of.to_string()),
        ("crashes", k.to_string()),
        ("crashes-per-million", per_million(crashes(result))),
        ("process", result.process.words.clone()),
    ];
    case.add_properties(properties.map(|(name, value)| Property::new(name, value)));
    if !result.warnings.is_empty() {
        case.set_system_err(result.warnings.join("\n"));
    }
    case
}

fn bad(kind: NonSuccessKind, result: &CellResult) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let mut words = vec![
        result.reason.clone(),
        format!("the JVM {}", result.process.words),
    ];
    words.extend(result.findings.iter().map(|finding| {
        let times = finding.count;
        let evidence = finding.evidence.as_ref();
        let file =
            evidence.map_or_else(String::new, |file| format!(": cells/{}/{file}", result.id));
        format!("{times} x {}{file}", finding.title)
    }));
    words.push(format!("again: {}", result.command));
    status
        .set_message(result.reason.as_str())
        .set_type(result.verdict.name())
        .set_description(words.join("\n"));
    status
}

fn named(cell: &Cell, status: TestCaseStatus) -> TestCase {
    let rest: Vec<&str> = Dimension::ALL[2..]
        .iter()
        .map(|&axis| cell.get(axis))
        .collect();
    let mut case = TestCase::new(rest.join(" "), status);
    case.set_classname(format!("walkfuzz.stress.{}", cell.workload));
    case
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()
}

fn time(at: jiff::Timestamp) -> chrono::DateTime<chrono::FixedOffset> {
    chrono::DateTime::from_timestamp(at.as_second(), at.subsec_nanosecond().unsigned_abs())
        .unwrap_or_default()
        .fixed_offset()
}
