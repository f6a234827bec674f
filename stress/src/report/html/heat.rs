//! The map: verdicts by JDK, collector and workload, and by any two axes on which cells differ. Which of the maps is shown is chosen without a
//! script: a radio button for each, and a rule of style.

use std::collections::BTreeMap;

use maud::{Markup, html};
use walkfuzz_record::KOfN;
use walkfuzz_record::render::numbers::count;

use super::super::axes::{values, varied};
use super::super::summary::{CellCounts, crashes};
use super::super::text::per_million;
use super::sign;
use crate::cell::Dimension;
use crate::result::{CellResult, Verdict};

/// Fields of a map at most; axes with more values than that between them are no map but the list of cells.
const FIELDS: usize = 3_000;

/// A map: one axis downwards, one or two across.
pub(super) struct Map<'a> {
    down: Dimension,
    across: Vec<Dimension>,
    rows: Vec<&'a str>,
    columns: Vec<Vec<&'a str>>,
    fields: BTreeMap<(usize, usize), Field<'a>>,
}

#[derive(Default)]
struct Field<'a> {
    counts: CellCounts,
    crashes: KOfN,
    /// The first cell with the gravest verdict.
    worst: Option<&'a CellResult>,
}

/// The maps worth showing, the one over three axes first.
pub(super) fn maps<'a>(cells: &[&'a CellResult]) -> Vec<Map<'a>> {
    let mut maps = Vec::new();
    let first = Map::of(
        cells,
        Dimension::Workload,
        &[Dimension::Jdk, Dimension::Collector],
    );
    maps.extend(first);
    let varied = varied(cells);
    for (at, &one) in varied.iter().enumerate() {
        for &other in &varied[at + 1..] {
            let (down, across) = if values(cells, one).len() > values(cells, other).len() {
                (one, other)
            } else {
                (other, one)
            };
            maps.extend(Map::of(cells, down, &[across]));
        }
    }
    maps
}

impl<'a> Map<'a> {
    fn of(cells: &[&'a CellResult], down: Dimension, across: &[Dimension]) -> Option<Self> {
        let rows = values(cells, down);
        let mut columns: Vec<Vec<&str>> = vec![Vec::new()];
        for &axis in across {
            let values = values(cells, axis);
            columns = columns
                .iter()
                .flat_map(|column| {
                    values.iter().map(|value| {
                        let mut column = column.clone();
                        column.push(*value);
                        column
                    })
                })
                .collect();
        }
        let place: BTreeMap<&str, usize> = rows.iter().copied().zip(0..).collect();
        let mut fields: BTreeMap<(usize, usize), Field<'a>> = BTreeMap::new();
        let places: BTreeMap<Vec<&str>, usize> = columns.iter().cloned().zip(0..).collect();
        for cell in cells {
            let column: Vec<&str> = across.iter().map(|&axis| cell.cell.get(axis)).collect();
            let at = (*place.get(cell.cell.get(down))?, *places.get(&column)?);
            let field = fields.entry(at).or_default();
            let before = field.counts.gravest();
            field.counts.add(cell.verdict);
            let crashed = crashes(cell);
            field.crashes.k += crashed.k;
            field.crashes.of += crashed.of;
            if field.counts.gravest() != before {
                field.worst = Some(cell);
            }
        }
        // JDKs have collectors of their own: columns without a cell say nothing.
        let used: Vec<usize> = (0..columns.len())
            .filter(|&column| fields.keys().any(|&(_, at)| at == column))
            .collect();
        let moved: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
        let map = Self {
            down,
            across: across.to_vec(),
            rows,
            columns: used.iter().map(|&column| columns[column].clone()).collect(),
            fields: fields
                .into_iter()
                .map(|((row, column), field)| ((row, moved[&column]), field))
                .collect(),
        };
        (!map.fields.is_empty() && map.rows.len() * map.columns.len() <= FIELDS).then_some(map)
    }

    fn name(&self) -> String {
        let across: Vec<&str> = self.across.iter().map(|axis| axis.name()).collect();
        format!("{} by {}", self.down.name(), across.join(" and "))
    }

    /// The values of the upper of two axes, and how many columns each has.
    fn groups(&self) -> Vec<(&'a str, usize)> {
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for column in &self.columns {
            match groups.last_mut() {
                Some((value, columns)) if *value == column[0] => *columns += 1,
                _ => groups.push((column[0], 1)),
            }
        }
        groups
    }
}

/// The rules that show the chosen map.
pub(super) fn rules(maps: usize) -> String {
    let rule = |n| format!("body:has(#axes-{n}:checked) #heat-{n}");
    let rules: Vec<String> = (0..maps).map(rule).collect();
    if rules.is_empty() {
        return String::new();
    }
    format!("{} {{ display: block; }}\n", rules.join(", "))
}

pub(super) fn section(maps: &[Map<'_>]) -> Markup {
    html! {
        @if maps.is_empty() { p { "No cell has finished." } }
        @else {
            p .faint {
                @for (at, &verdict) in Verdict::ALL.iter().enumerate() {
                    @if at > 0 { ", " }
                    (sign(verdict)) " " (verdict.name())
                }
                "; the gravest verdict of a field's cells, with how many of them have it. A field leads to the first of these."
            }
            details .choose {
                summary { "Other axes" }
                fieldset .axes {
                    legend { "Axes" }
                    @for (n, map) in maps.iter().enumerate() {
                        label { input type="radio" name="axes" id={"axes-" (n)} checked[n == 0]; " " (map.name()) }
                    }
                }
            }
            @for (n, map) in maps.iter().enumerate() {
                div .heat id={"heat-" (n)} { (table(map)) }
            }
        }
    }
}

fn table(map: &Map<'_>) -> Markup {
    let last = map.across.len() - 1;
    html! {
        div .wide tabindex="0" role="region" aria-label={"Map of " (map.name())} {
            table {
                caption .sr { "Verdicts, " (map.name()) }
                thead {
                    @if last > 0 {
                        tr {
                            td { span .sr { (map.across[0].name()) } }
                            @for (value, columns) in map.groups() { th scope="colgroup" colspan=(columns) { (value) } }
                        }
                    }
                    tr {
                        th scope="col" { (map.down.name()) }
                        @for column in &map.columns { th scope="col" { (column[last]) } }
                    }
                }
                tbody {
                    @for (row, value) in map.rows.iter().enumerate() {
                        tr {
                            th scope="row" { (value) }
                            @for column in 0..map.columns.len() { (field(map.fields.get(&(row, column)))) }
                        }
                    }
                }
            }
        }
    }
}

fn field(field: Option<&Field<'_>>) -> Markup {
    let Some((field, worst)) = field.and_then(|field| Some((field, field.worst?))) else {
        return html! { td {} };
    };
    let verdict = worst.verdict;
    let (of, all) = (field.counts.of(verdict), field.counts.done());
    let words: Vec<String> = Verdict::ALL
        .iter()
        .filter(|&&verdict| field.counts.of(verdict) > 0)
        .map(|&verdict| format!("{} {}", field.counts.of(verdict), verdict.name()))
        .collect();
    let title = format!(
        "{}; {} crashes per million in {} walks",
        words.join(", "),
        per_million(field.crashes),
        count(field.crashes.of)
    );
    html! {
        td class=(verdict.name()) title=(title) {
            a href={"#c-" (worst.id)} {
                (sign(verdict)) span .sr { " " (verdict.name()) }
                @if all > 1 { " " (of) "/" (all) }
            }
        }
    }
}
