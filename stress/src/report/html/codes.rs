//! Histograms of error codes, a table for each generation of walkers; and what the clocks delivered.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};
use walkfuzz_record::Generation;
use walkfuzz_record::render::numbers::{count, percent};

use super::super::axes::{in_order, line};
use super::super::summary::{CodeShare, Summary, codes};
use crate::cell::Dimension;
use crate::result::CellResult;

/// JDK lines that have a column of their own.
const LINES: usize = 8;

/// The shares of one JDK line, by code.
type Shares = HashMap<(Generation, i32), CodeShare>;

pub(super) fn section(summary: &Summary, cells: &[&CellResult]) -> Markup {
    let mut generations: Vec<Generation> =
        summary.codes.iter().map(|code| code.generation).collect();
    generations.dedup();
    let mut by_line: BTreeMap<&str, Vec<&CellResult>> = BTreeMap::new();
    for &cell in cells {
        by_line.entry(line(&cell.cell.jdk)).or_default().push(cell);
    }
    let mut lines: Vec<(&str, Shares)> = by_line
        .into_iter()
        .map(|(line, cells)| {
            let rows = codes(&cells).into_iter();
            (
                line,
                rows.map(|code| ((code.generation, code.code), code))
                    .collect(),
            )
        })
        .collect();
    lines.sort_by(|(a, _), (b, _)| in_order(Dimension::Jdk, a, b));
    if lines.len() < 2 || lines.len() > LINES {
        lines.clear();
    }
    html! {
        @if generations.is_empty() { p { "No untouched walk gave an error code." } }
        @for generation in generations {
            h3 { (generation) }
            div .wide tabindex="0" role="region" aria-label={"Error codes of " (generation)} {
                table {
                    caption { "Share of the untouched walks; bars on a logarithmic scale" }
                    thead {
                        tr {
                            th scope="col" .n { "code" } th scope="col" { "name" } th scope="col" { "grade" }
                            th scope="col" .n { "walks" } th scope="col" .n { "share" } td .bars { }
                            @for (line, _) in &lines { th scope="col" .n { "JDK " (line) } }
                            th scope="col" { "meaning" }
                        }
                    }
                    tbody {
                        @for code in summary.codes.iter().filter(|code| code.generation == generation) {
                            tr {
                                td .n { (code.code) }
                                th scope="row" .mono { (code.name) }
                                td { span class={"badge " (code.grade.name())} { (code.grade.name()) } }
                                td .n { (count(code.share.k)) }
                                td .n { (percent(code.share.k, code.share.of)) }
                                td .bars { span .bar style={"width:" (length(code)) "%"} {} }
                                @for (_, shares) in &lines {
                                    td .n {
                                        @match shares.get(&(generation, code.code)) {
                                            Some(code) => (percent(code.share.k, code.share.of)),
                                            None => "-",
                                        }
                                    }
                                }
                                td { (code.meaning) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// From one in ten million to all.
fn length(code: &CodeShare) -> String {
    let share = code.share.k as f64 / code.share.of.max(1) as f64;
    format!(
        "{:.0}",
        ((share.log10() + 7.0) / 7.0 * 100.0).clamp(1.0, 100.0)
    )
}

#[derive(Default)]
struct Clock {
    cells: u64,
    requested: u64,
    delivered: u64,
    coalesced: u64,
    dropped: u64,
    outside_java: u64,
    thread_seconds: f64,
    walker_seconds: f64,
    ceiling: Option<f64>,
}

pub(super) fn sampling(cells: &[&CellResult]) -> Markup {
    let mut clocks: BTreeMap<(&str, &str), Clock> = BTreeMap::new();
    for cell in cells {
        let clock = clocks
            .entry((&cell.cell.clock, &cell.cell.interval))
            .or_default();
        let sampling = &cell.sampling;
        clock.cells += 1;
        clock.requested += sampling.requested;
        clock.delivered += sampling.delivered;
        clock.coalesced += sampling.coalesced;
        clock.dropped += sampling.dropped;
        clock.outside_java += sampling.outside_java;
        clock.thread_seconds += sampling.thread_seconds;
        clock.walker_seconds += sampling.walker_seconds;
        clock.ceiling = match (clock.ceiling, sampling.ceiling) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    let mut clocks: Vec<((&str, &str), Clock)> = clocks.into_iter().collect();
    clocks.sort_by(|((a, short), _), ((b, long), _)| {
        a.cmp(b)
            .then_with(|| in_order(Dimension::Interval, short, long))
    });
    html! {
        div .wide tabindex="0" role="region" aria-label="Samples by clock" {
            table {
                caption { "What the clocks delivered; rates are samples a second of a running thread" }
                thead {
                    tr {
                        th scope="col" { "clock" } th scope="col" { "interval" }
                        @for name in ["cells", "requested", "delivered", "share", "rate", "ceiling", "coalesced", "dropped", "outside Java", "time in the walker"] {
                            th scope="col" .n { (name) }
                        }
                    }
                }
                tbody {
                    @for ((name, interval), clock) in &clocks {
                        tr {
                            th scope="row" { (name) }
                            td { (interval) }
                            td .n { (count(clock.cells)) }
                            td .n { (count(clock.requested)) }
                            td .n { (count(clock.delivered)) }
                            td .n { (percent(clock.delivered, clock.requested)) }
                            td .n { (per_second(clock.delivered as f64, clock.thread_seconds)) }
                            td .n { @match clock.ceiling { Some(ceiling) => (count(ceiling as u64)), None => "-" } }
                            td .n { (count(clock.coalesced)) }
                            td .n { (count(clock.dropped)) }
                            td .n { (percent(clock.outside_java, clock.delivered)) }
                            td .n { (share(clock.walker_seconds, clock.thread_seconds)) }
                        }
                    }
                }
            }
        }
    }
}

fn per_second(number: f64, seconds: f64) -> String {
    if seconds <= 0.0 {
        "-".to_owned()
    } else {
        count((number / seconds) as u64)
    }
}

fn share(part: f64, of: f64) -> String {
    if of <= 0.0 {
        "-".to_owned()
    } else {
        format!("{:.1} %", 100.0 * part / of)
    }
}
