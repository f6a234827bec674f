//! The formats are public: docs/record-schema.md names each field, and a change shows in a snapshot.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use walkfuzz_record::finding::{FindingContradiction, JavaFrame, Sighting};
use walkfuzz_record::{
    CellState, ContradictionKind, Counter, Finding, FindingVerdict, Generation, KOfN,
    KnownDifference, ProcessOutcome, RunFolder, SCHEMA, Summary, Totals, VariantCell, VariantSite,
    Variants, fold_lines, layout,
};

use crate::fixture::{at, facts, finding, process};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/record-schema.md");

fn docs() -> String {
    std::fs::read_to_string(DOCS).expect("docs/record-schema.md")
}

/// The paths of all leaves: `site.function`, `commands[]`.
fn paths(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        // Names of registers and numbers of codes are data.
        Value::Object(_)
            if [
                "registers.before",
                "registers.after",
                "registers.meanings",
                "code_names",
            ]
            .contains(&prefix) =>
        {
            into.insert(prefix.to_owned());
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                paths(value, &format!("{prefix}{dot}{name}"), into);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for item in items {
                paths(item, &format!("{prefix}[]"), into);
            }
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

/// The section of the docs under a heading.
fn section(heading: &str) -> String {
    let docs = docs();
    let start = docs.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &docs[start + heading.len()..];
    let end = rest.find("\n## ").unwrap_or(rest.len());
    rest[..end].to_owned()
}

fn assert_documented(value: &impl Serialize, heading: &str) {
    let section = section(heading);
    let mut fields = BTreeSet::new();
    paths(&serde_json::to_value(value).unwrap(), "", &mut fields);
    let row = |field: &str| format!("| `{field}` |");
    let missing: Vec<_> = fields
        .iter()
        .filter(|field| !section.contains(&row(field)))
        .collect();
    assert!(missing.is_empty(), "{heading} lacks {missing:?}");
    // And the other way round: what is documented exists.
    let gone: Vec<_> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(field, _)| field)
        .filter(|field| !fields.contains(*field))
        .collect();
    assert!(gone.is_empty(), "{heading} still has {gone:?}");
}

#[test]
fn a_finding_is_this_line() {
    let finding = finding("nmethod::get_original_pc", "T1", FindingVerdict::Bug);
    insta::assert_json_snapshot!("finding", finding);
    let line = serde_json::to_string(&finding).unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Finding>(&line).unwrap(), finding);
    assert_eq!(fold_lines(line.as_bytes()).findings, [finding]);
}

#[test]
fn every_field_is_documented() {
    let mut finding = finding("f", "T1", FindingVerdict::Bug);
    let frame = |bci| JavaFrame {
        method: "walkfuzz.frames.Work.spin(I)I".to_owned(),
        bci,
    };
    finding.outcome.contradiction = Some(FindingContradiction {
        oracle: "reference".to_owned(),
        kind: ContradictionKind::OtherBci,
        frame: 0,
        known: Some(KnownDifference::ReturnAddress),
        given: vec![frame(7)],
        expected: vec![frame(3)],
    });
    let facts = walkfuzz_record::RunFacts {
        oracle: Some("reference".to_owned()),
        ..facts()
    };
    assert_documented(&finding, "## Findings: `findings.jsonl`");
    let sighting = Sighting {
        schema: SCHEMA,
        again: finding.id.clone(),
        last_seen: at(1),
        count: 1,
    };
    assert_documented(&sighting, "## Later sightings: `findings.jsonl`");
    assert_documented(&facts, "## Facts of a run: `run.json`");
    let end = process(ProcessOutcome::AbortInWalk);
    assert_documented(&end, "## Ends of processes: `processes.jsonl`");
    let folded = fold_lines(serde_json::to_string(&finding).unwrap().as_bytes());
    let folder = tempfile::tempdir().unwrap();
    let walks = crate::fixture::Walks {
        untouched: 10,
        controls: 10,
        faults: 1,
    };
    let record = crate::fixture::write_record(&folder.path().join("r.map"), walks);
    let summary = Summary::of(walkfuzz_record::summary::Evidence {
        facts: &facts,
        totals: &Totals::of([&record]),
        findings: &folded,
        processes: &[end],
        unreadable_records: 0,
        folder: "run",
    });
    assert_documented(&summary, "## Summary: `walkfuzz report --json`");
}

#[test]
fn variants_are_documented_and_kept() {
    let variants = Variants {
        schema: SCHEMA,
        finding: "../../escaped".into(),
        signature: "SIGSEGV|f|agct".into(),
        perturbation: "fp+=8".into(),
        kind: Some("nmethod".into()),
        offset: None,
        moments: 400,
        made: at(1),
        cells: vec![VariantCell {
            jdk: "17.0.9".into(),
            build_id: "00".into(),
            collector: "g1".into(),
            mode: "int".into(),
            state: CellState::Tried,
            reason: None,
            again: KOfN::new(3, 400),
            frozen: Some(KOfN::new(3, 3)),
            others: 7,
            controls: KOfN::new(400, 400),
            deaths: 0,
            sites: vec![VariantSite {
                signature: "SIGSEGV|f|agct".into(),
                instruction: Some("ret".into()),
                moments: 3,
                wanted: true,
            }],
            seconds: 1.5,
        }],
    };
    assert_documented(&variants, "## Variants: `variants/<id>.json`");
    let base = tempfile::tempdir().unwrap();
    let run = RunFolder::create(base.path(), &facts()).unwrap();
    assert_eq!(run.variants("0123456789ab").unwrap(), None);
    // An id that leads elsewhere stays in the folder.
    let path = run.write_variants(&variants).unwrap();
    assert_eq!(path.parent(), Some(&*run.path().join("variants")));
    assert_eq!(
        run.variants(&variants.finding).unwrap(),
        Some(variants.clone())
    );
    // A try that ends early takes nothing away, and adds what is new.
    let mut later = variants.clone();
    later.moments = 50;
    later.cells[0].state = CellState::NotRun;
    later.cells[0].again = KOfN::new(0, 0);
    let mut other = variants.cells[0].clone();
    other.jdk = "25.0.3".into();
    later.cells.insert(0, other.clone());
    run.write_variants(&later).unwrap();
    let kept = run.variants(&variants.finding).unwrap().unwrap();
    assert_eq!(kept.moments, variants.moments);
    assert_eq!(kept.cells, [other, variants.cells[0].clone()]);
    // One of another perturbation replaces it only with more moments.
    later.perturbation = "pc=1".into();
    run.write_variants(&later).unwrap();
    assert_eq!(run.variants(&variants.finding).unwrap(), Some(kept));
    later.cells[0].again = KOfN::new(0, 100_000);
    run.write_variants(&later).unwrap();
    assert_eq!(run.variants(&variants.finding).unwrap(), Some(later));
    std::fs::write(path, "{").unwrap();
    assert!(run.variants("../../escaped").is_err());
}

#[test]
fn the_binary_layout_is_documented() {
    let section = section("## Mapped record: `record-<pid>.map`");
    for (position, counter) in Counter::ALL.iter().enumerate() {
        let row = format!("| {position} | `{}` |", counter.name());
        assert!(section.contains(&row), "no row {row}");
    }
    for generation in Generation::ALL {
        let row = format!("| {} | `{}` |", *generation as u8, generation.name());
        assert!(section.contains(&row), "no row {row}");
    }
    for number in [
        layout::LANE_BYTES,
        layout::HEADER_BYTES,
        layout::LIVE_OFFSET,
        layout::INPUT_BYTES,
        layout::RECENT_WALKS,
        layout::CODE_SLOTS,
    ] {
        assert!(section.contains(&number.to_string()), "no {number}");
    }
}
