//! The grid as text: a row for each JDK and mode, a column for each collector, k/n in the cells.

use std::collections::BTreeMap;

use walkfuzz_record::{CellState, VariantCell, Variants};

use crate::table::table;
use crate::variants::subject::Subject;

/// What a cell shows; reasons are said once, below, under a letter.
fn short(cell: &VariantCell, reasons: &mut Vec<String>) -> String {
    let mut letter = |reason: &str| {
        let at = reasons.iter().position(|known| known == reason);
        let at = at.unwrap_or_else(|| {
            reasons.push(reason.to_owned());
            reasons.len() - 1
        });
        let letters = ('a'..='z').collect::<Vec<_>>();
        letters
            .get(at)
            .map_or_else(|| format!("({at})"), |letter| format!("({letter})"))
    };
    let reason = cell.reason.as_deref();
    match cell.state {
        CellState::Tried => {
            let others = cell.sites.iter().any(|site| !site.wanted);
            let mark = if others { "*" } else { "" };
            let said = reason.map(&mut letter).unwrap_or_default();
            format!("{}/{}{mark}{said}", cell.again.k, cell.again.of)
        }
        CellState::NotMet => "not met".to_owned(),
        CellState::CouldNotRun => format!("-{}", letter(reason.unwrap_or("unknown"))),
        CellState::NotRun => "-".to_owned(),
    }
}

/// The whole answer.
pub(crate) fn text(subject: &Subject, variants: &Variants) -> String {
    let mut collectors: Vec<&str> = Vec::new();
    let mut keys: Vec<(&str, &str, &str)> = Vec::new();
    for cell in &variants.cells {
        if !collectors.contains(&&*cell.collector) {
            collectors.push(&cell.collector);
        }
        let key = (&*cell.jdk, &*cell.build_id, &*cell.mode);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut reasons = Vec::new();
    let mut header = vec!["JDK".to_owned(), "mode".to_owned()];
    header.extend(collectors.iter().map(|name| (*name).to_owned()));
    let mut rows = vec![header];
    for (jdk, build, mode) in keys {
        let mut row = vec![jdk.to_owned(), mode.to_owned()];
        for collector in &collectors {
            let cell = variants.cells.iter().find(|cell| {
                (&*cell.jdk, &*cell.build_id, &*cell.mode, &*cell.collector)
                    == (jdk, build, mode, *collector)
            });
            row.push(cell.map_or_else(String::new, |cell| short(cell, &mut reasons)));
        }
        rows.push(row);
    }
    let mut text = format!(
        "{}\n{}\nk/n: happened again at k of n moments whose walked pc was in: {}\n\n{}",
        subject.title,
        subject.perturbation_in_short(),
        subject.class(),
        table(&rows)
    );
    text.push('\n');
    for (letter, reason) in ('a'..='z').zip(&reasons) {
        text.push_str(&format!("({letter}) {reason}\n"));
    }
    if variants
        .cells
        .iter()
        .any(|cell| cell.state == CellState::NotMet)
    {
        text.push_str("not met: no moment of that class came up within the budget\n");
    }
    let missed: Vec<_> = variants
        .cells
        .iter()
        .filter(|cell| cell.state == CellState::NotRun)
        .collect();
    if let Some(first) = missed.first() {
        text.push_str(&format!(
            "-: {} cells that were not tried: {}\n",
            missed.len(),
            first.reason.as_deref().unwrap_or("unknown")
        ));
    }
    text.push_str(&others(variants));
    text.push_str(&frozen(variants));
    text
}

/// What else happened, by signature.
fn others(variants: &Variants) -> String {
    let mut found: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for cell in &variants.cells {
        for site in cell.sites.iter().filter(|site| !site.wanted) {
            let (moments, jdks) = found.entry(&site.signature).or_default();
            *moments += site.moments;
            if !jdks.contains(&&*cell.jdk) {
                jdks.push(&cell.jdk);
            }
        }
    }
    let lines = found.iter().map(|(signature, (moments, jdks))| {
        format!(
            "* also {signature}: {moments} times, on {}\n",
            jdks.join(", ")
        )
    });
    lines.collect()
}

/// The frozen repetitions, summed up.
fn frozen(variants: &Variants) -> String {
    let repeated = variants.cells.iter().filter_map(|cell| cell.frozen);
    let (k, of, cells) = repeated.fold((0, 0, 0), |(k, of, cells), frozen| {
        (k + frozen.k, of + frozen.of, cells + 1)
    });
    if cells == 0 {
        return String::new();
    }
    format!("frozen: {k} of {of} repetitions in copies of the first such moment ({cells} cells)\n")
}

/// One cell in a line, while the grid grows.
pub(crate) fn line(cell: &VariantCell) -> String {
    let what = match cell.state {
        CellState::Tried => {
            let high = cell.again.interval().high * 100.0;
            let bound = match cell.again.k {
                0 => format!(" (at most {high:.2} %)"),
                _ => String::new(),
            };
            format!("{} of {}{bound}", cell.again.k, cell.again.of)
        }
        CellState::NotMet => "not met".to_owned(),
        CellState::CouldNotRun | CellState::NotRun => "-".to_owned(),
    };
    let reason = cell
        .reason
        .as_deref()
        .map_or_else(String::new, |reason| format!("; {reason}"));
    format!(
        "{} {} {}: {what}, {:.1} s{reason}",
        cell.jdk, cell.collector, cell.mode, cell.seconds
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use walkfuzz_context::{Arch, Batch};
    use walkfuzz_record::{KOfN, SCHEMA, VariantSite};

    use super::*;

    fn batch(walks: &[&str]) -> Batch {
        let parse =
            |walk: &&str| walkfuzz_context::Perturbation::parse(Arch::NATIVE, walk).unwrap();
        let walks: Vec<_> = walks.iter().map(parse).collect();
        let mut batch = Batch::untouched(Arch::NATIVE);
        batch.set_walks(&walks);
        batch
    }

    fn cell(jdk: &str, collector: &str, state: CellState, again: (u64, u64)) -> VariantCell {
        VariantCell {
            jdk: jdk.to_owned(),
            build_id: jdk.to_owned(),
            collector: collector.to_owned(),
            mode: "default".to_owned(),
            state,
            reason: None,
            again: KOfN::new(again.0, again.1),
            frozen: None,
            others: 0,
            controls: KOfN::new(again.1, again.1),
            deaths: 0,
            sites: Vec::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn each_cell_says_what_became_of_it() {
        let mut died = cell("17.0.7", "z", CellState::CouldNotRun, (0, 0));
        died.reason = Some("no such collector".to_owned());
        let mut both = cell("17.0.9", "g1", CellState::Tried, (0, 400));
        both.sites.push(VariantSite {
            signature: "hang|walk|agct".to_owned(),
            instruction: None,
            moments: 2,
            wanted: false,
        });
        let mut late = cell("25", "g1", CellState::NotRun, (0, 0));
        late.reason = Some("the budget was used up (--budget)".to_owned());
        let mut first = cell("17.0.7", "g1", CellState::Tried, (12, 400));
        first.frozen = Some(KOfN::new(3, 3));
        let variants = Variants {
            schema: SCHEMA,
            finding: "a".to_owned(),
            signature: "SIGSEGV|x|agct".to_owned(),
            perturbation: "fp+=8".to_owned(),
            kind: None,
            offset: None,
            moments: 400,
            made: Timestamp::UNIX_EPOCH,
            cells: vec![
                first,
                died,
                both,
                cell("17.0.9", "z", CellState::NotMet, (0, 0)),
                late,
            ],
        };
        let subject = Subject {
            id: "a".to_owned(),
            title: "SIGSEGV in x via agct [T4]".to_owned(),
            signature: variants.signature.clone(),
            instruction: String::new(),
            batch: batch(&["fp+=8", "fp+=16", "sp=1"]),
            kind: None,
            offset: None,
            engine: "live",
            run: None,
        };
        assert_eq!(
            text(&subject, &variants),
            "\
SIGSEGV in x via agct [T4]
fp+=8; and 2 like it
k/n: happened again at k of n moments whose walked pc was in: any

JDK     mode     g1      z
17.0.7  default  12/400  -(a)
17.0.9  default  0/400*  not met
25      default  -

(a) no such collector
not met: no moment of that class came up within the budget
-: 1 cells that were not tried: the budget was used up (--budget)
* also hang|walk|agct: 2 times, on 17.0.9
frozen: 3 of 3 repetitions in copies of the first such moment (1 cells)
"
        );
        assert!(line(&variants.cells[2]).contains("0 of 400 (at most 0.75 %)"));
    }
}
