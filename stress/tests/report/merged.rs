//! Shards put together are the run in one piece.

use walkfuzz_record::ProcessOutcome;
use walkfuzz_stress::report::{
    MergeError, Merged, Part, Run, Screen, html, json, junit, merge, terminal,
};
use walkfuzz_stress::{CellResult, Plan};

use crate::fixture::{at, cells, facts, results};

/// A run of that many cells, and the same as shards, each run by itself: other order, other times, other command.
fn sharded(count: usize, of: usize) -> (Part, Vec<Part>) {
    let plan = cells(count, 7);
    let whole = Part {
        name: "whole".into(),
        facts: facts(plan.clone(), 7),
        cells: results(&plan, 7),
    };
    let parts = (1..=of).map(|number| {
        let mut shard = Plan {
            cells: plan.clone(),
            ..Plan::default()
        };
        shard.shard(number, of);
        let mut facts = facts(shard.cells, 7);
        facts.shard = Some(format!("{number}/{of}"));
        facts
            .command
            .extend(["--shard".to_owned(), format!("{number}/{of}")]);
        let mine = |cell: &&CellResult| facts.plan.contains(&cell.cell);
        let mut cells: Vec<CellResult> = whole.cells.iter().filter(mine).cloned().collect();
        // Cells end as they end.
        cells.reverse();
        // The first to begin and the last to end are other shards.
        facts.started = at(if number == of { 0 } else { 100 });
        if number != 1 {
            facts.finished = Some(at(900));
        }
        Part {
            name: format!("shard-{number}"),
            facts,
            cells,
        }
    });
    let parts = parts.collect();
    (whole, parts)
}

fn reports(facts: &walkfuzz_stress::store::StressFacts, cells: &[CellResult]) -> [String; 4] {
    let run = Run { facts, cells };
    let screen = Screen {
        all: true,
        ..Screen::default()
    };
    [
        terminal(run, &screen),
        serde_json::to_string(&json(run)).unwrap(),
        junit(run).unwrap(),
        html(run, ""),
    ]
}

#[test]
fn merged_shards_report_what_the_run_in_one_piece_reports() {
    for (count, of) in [(120, 1), (120, 4), (121, 7), (5, 3)] {
        let (whole, mut parts) = sharded(count, of);
        parts.rotate_left(of / 2);
        let Merged { facts, cells, from } = merge(parts.clone()).unwrap();
        assert_eq!(facts, whole.facts, "{count} cells, {of} shards");
        let expected = reports(&whole.facts, &whole.cells);
        for (found, expected) in reports(&facts, &cells).iter().zip(&expected) {
            assert!(expected.len() > 1_000);
            assert!(found == expected, "{count} cells, {of} shards");
        }
        for (cell, part) in cells.iter().zip(from) {
            assert!(parts[part].cells.contains(cell));
        }
    }
}

#[test]
fn a_missing_shard_is_named_and_its_cells_are_no_secret() {
    let (whole, mut parts) = sharded(120, 4);
    parts.remove(2);
    let merged = merge(parts).unwrap();
    assert_eq!(merged.facts.shard.as_deref(), Some("1+2+4/4"));
    assert_eq!(merged.facts.plan.len(), 90);
    assert!(merged.cells.len() < whole.cells.len());
    let text = terminal(
        Run {
            facts: &merged.facts,
            cells: &merged.cells,
        },
        &Screen::default(),
    );
    assert!(
        text.starts_with("walkfuzz stress nightly shard 1+2+4/4,"),
        "{text}"
    );
}

#[test]
fn the_finished_one_of_two_wins() {
    let (whole, mut parts) = sharded(40, 2);
    let mut again = parts[1].clone();
    again.name = "again".into();
    let interrupted = &mut parts[1].cells[3];
    interrupted.process.outcome = ProcessOutcome::Interrupted;
    interrupted.reason = "interrupted".into();
    parts.push(again);
    let merged = merge(parts).unwrap();
    assert_eq!(merged.cells, whole.cells);
    assert!(merged.from.contains(&2));
}

#[test]
fn what_is_no_part_is_refused_in_a_sentence() {
    let (_, parts) = sharded(40, 2);
    let refused = |change: &dyn Fn(&mut Part)| {
        let mut parts = parts.clone();
        change(&mut parts[1]);
        let sentence = merge(parts).unwrap_err().to_string();
        assert!(
            !sentence.contains('\n') && sentence.contains("shard-"),
            "{sentence}"
        );
        sentence
    };
    assert_eq!(
        refused(&|part| part.facts.seed = 8),
        "shard-1 and shard-2 are no shards of one run: they differ in the seed (7 and 8)"
    );
    assert!(
        refused(&|part| part.facts.profile = "pr".into()).contains("the profile (nightly and pr)")
    );
    assert!(refused(&|part| part.facts.walkfuzz = "0.2.0".into()).contains("version of walkfuzz"));
    assert!(
        refused(&|part| part.facts.machine.arch = "aarch64".into()).contains("x86_64 and aarch64")
    );
    assert!(refused(&|part| part.facts.points = 1).contains("points"));
    assert!(refused(&|part| part.facts.pairs.0 = 1).contains("pairs"));
    assert!(refused(&|part| part.facts.impossible.clear()).contains("cannot run"));
    assert!(refused(&|part| part.facts.shard = Some("2/3".into())).contains("number of shards"));
    assert!(refused(&|part| part.facts.shard = Some("x".into())).contains("`x` is no shard"));
    assert!(refused(&|part| part.facts.shard = Some("1/2".into())).contains("the plan"));
    assert!(refused(&|part| part.facts.plan.truncate(9)).contains("length"));
    let first = parts[0].facts.plan[0].clone();
    assert!(refused(&|part| part.facts.plan[0] = first.clone()).contains("both have"));
    let sentence = {
        let mut parts = parts.clone();
        let mut other = parts[1].clone();
        other.name = "shard-2-again".into();
        other.cells[0].seconds += 1.0;
        parts.push(other);
        merge(parts).unwrap_err().to_string()
    };
    assert!(
        sentence.contains("shard-2 and shard-2-again both finished cell"),
        "{sentence}"
    );
    assert_eq!(merge(Vec::new()), Err(MergeError::Nothing));
}

#[test]
fn commands_of_users_programs_keep_their_words() {
    let (_, mut parts) = sharded(8, 1);
    let words = "walkfuzz stress --shard=1/1 -- java -jar app.jar --shard 3";
    parts[0].facts.command = words.split(' ').map(Into::into).collect();
    let merged = merge(parts).unwrap();
    assert_eq!(
        merged.facts.command.join(" "),
        "walkfuzz stress -- java -jar app.jar --shard 3"
    );
}
