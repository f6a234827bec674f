//! The formats are public: docs/stress-schema.md names each field.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use walkfuzz_stress::report::{Night, Run, compare, json, trend};

use crate::fixture::{cells, facts, results};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stress-schema.md");

/// The paths of all leaves: `process.outcome`, `codes[].name`. Those in `whole` are one leaf.
fn paths(value: &Value, prefix: &str, whole: &[&str], into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !whole.contains(&prefix) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                paths(value, &format!("{prefix}{dot}{name}"), whole, into);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) && !whole.contains(&prefix) => {
            for item in items.iter().filter(|item| !item.is_null()) {
                paths(item, &format!("{prefix}[]"), whole, into);
            }
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

fn assert_documented(value: &impl Serialize, heading: &str, whole: &[&str]) {
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let start = docs.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &docs[start + heading.len()..];
    let section = &rest[..rest.find("\n## ").unwrap_or(rest.len())];
    let mut fields = BTreeSet::new();
    paths(
        &serde_json::to_value(value).unwrap(),
        "",
        whole,
        &mut fields,
    );
    let documented: BTreeSet<String> = section
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned()))
        .collect();
    let missing: Vec<_> = fields.difference(&documented).collect();
    assert!(missing.is_empty(), "{heading} lacks {missing:?}");
    let gone: Vec<_> = documented.difference(&fields).collect();
    assert!(gone.is_empty(), "{heading} still has {gone:?}");
}

#[test]
fn every_field_is_documented() {
    let plan = cells(120, 7);
    let mut results = results(&plan, 7);
    for cell in &mut results {
        // An empty list shows no fields.
        cell.findings.retain(|finding| !finding.known.is_empty());
    }
    let mut unsampled = results[0].clone();
    unsampled.cell.walker = "none".into();
    results.push(unsampled);
    for cell in [0, results.len() - 1] {
        results[cell].workload.seconds = Some(20.0);
    }
    let facts = facts(plan, 7);
    let run = Run {
        facts: &facts,
        cells: &results,
    };
    assert_documented(&facts, "## The plan: `stress.json`", &[]);
    let full = results
        .iter()
        .find(|cell| !cell.findings.is_empty())
        .unwrap();
    assert_documented(full, "## Cells: `cells.jsonl`", &[]);
    assert_documented(
        &json(run),
        "## Report: `walkfuzz report --json`",
        &["left", "cells", "summary.ends"],
    );
    let mut others = results.clone();
    others.iter_mut().for_each(|cell| cell.findings.clear());
    let half = others.len() / 2;
    for cell in &mut others[half..] {
        cell.verdict = walkfuzz_stress::Verdict::Unknown;
    }
    for (cell, before) in others[..half].iter_mut().zip(&mut results[half..]) {
        for finding in &mut before.findings {
            finding.signature += " of old";
        }
        let mut finding = before.findings.clone();
        finding.iter_mut().for_each(|finding| {
            finding.signature += " and new";
            finding.perturbed = false;
        });
        cell.findings = finding;
        cell.verdict = walkfuzz_stress::Verdict::Fail;
    }
    for cell in results.iter_mut().flat_map(|cell| &mut cell.findings) {
        cell.perturbed = false;
    }
    results
        .iter_mut()
        .for_each(|cell| cell.verdict = walkfuzz_stress::Verdict::Fail);
    let after = Run {
        facts: &facts,
        cells: &others,
    };
    let before = Run {
        facts: &facts,
        cells: &results,
    };
    let compared = compare(before, after);
    assert_documented(
        &compared,
        "## Comparison: `walkfuzz report --compare --json`",
        &[],
    );
    let nights = [Night::of(before), Night::of(after)];
    assert_documented(
        &trend(&nights),
        "## Trend: `walkfuzz report --trend --json`",
        &[],
    );
}

#[test]
fn a_report_keeps_what_cells_say() {
    let plan = cells(30, 7);
    let results = results(&plan, 7);
    let facts = facts(plan, 7);
    let report = serde_json::to_value(json(Run {
        facts: &facts,
        cells: &results,
    }))
    .unwrap();
    let cells: Vec<walkfuzz_stress::CellResult> =
        serde_json::from_value(report["cells"].clone()).unwrap();
    assert_eq!(cells, results);
    assert_eq!(report["left"].as_array().unwrap().len(), 1);
}
