//! A run as one page of HTML: no script, nothing from elsewhere, works from a file; light and dark, down to the width of a phone.
//!
//! Contract: pure. Whatever a program printed is text here, never markup. Verdicts are told by signs and words, never by colour alone.

mod cells;
mod charts;
mod codes;
mod heat;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use walkfuzz_record::render::numbers::{count, percent, rate};

use super::Run;
use super::axes;
use super::summary::{FindingGroup, Summary};
use super::text::duration;
use crate::result::{CellResult, Verdict};
use crate::store::StressFacts;

/// A page loads nothing, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");
/// Cells that a finding names; the others are counted.
const NAMED: usize = 12;

/// A run as a page. `folder` is the run's folder as seen from the page's; empty if the page lies in it.
#[must_use]
pub fn html(run: Run<'_>, folder: &str) -> String {
    let summary = Summary::of(run);
    let cells = run.in_order();
    let files = Files { folder };
    let maps = heat::maps(&cells);
    let title = title(run.facts);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(heat::rules(maps.len()))) }
            }
            body {
                header {
                    h1 { (title) }
                    (badges(&summary))
                    nav aria-label="Parts of this page" {
                        @for (id, name) in PARTS { a href={"#" (id)} { (name) } }
                    }
                }
                main {
                    (facts(run.facts, &summary))
                    h2 #map { "Map" }
                    (heat::section(&maps))
                    h2 #findings { "Findings" }
                    (findings(&summary.findings, &cells, files))
                    h2 #codes { "Error codes" }
                    (codes::section(&summary, &cells))
                    h2 #curves { "Depth and latency" }
                    (charts::section(&cells))
                    h2 #samples { "Samples" }
                    (codes::sampling(&cells))
                    h2 #cells { "Cells" }
                    (cells::section(run, &cells, files))
                }
                footer { "walkfuzz " (run.facts.walkfuzz) }
            }
        }
    };
    page.into_string()
}

const PARTS: [(&str, &str); 6] = [
    ("map", "Map"),
    ("findings", "Findings"),
    ("codes", "Error codes"),
    ("curves", "Depth and latency"),
    ("samples", "Samples"),
    ("cells", "Cells"),
];

fn title(facts: &StressFacts) -> String {
    let shard = facts.shard.as_ref();
    let shard = shard.map_or_else(String::new, |shard| format!(", shard {shard}"));
    let started = facts.started.strftime("%Y-%m-%d %H:%M");
    format!("Stress run {}{shard}, {started} UTC", facts.profile)
}

/// What a verdict looks like where there is no room for a word.
const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fail => "✗",
        Verdict::Unknown => "?",
        Verdict::Known => "!",
        Verdict::Pass => "✓",
        Verdict::Outside => "~",
    }
}

fn badge(verdict: Verdict) -> Markup {
    html! { span class={"badge " (verdict.name())} { (sign(verdict)) " " (verdict.name()) } }
}

fn badges(summary: &Summary) -> Markup {
    let counts = summary.cells;
    html! {
        ul .badges {
            @for &verdict in Verdict::ALL.iter().filter(|&&verdict| counts.of(verdict) > 0) {
                li class=(verdict.name()) { (sign(verdict)) " " (count(counts.of(verdict))) " " (verdict.name()) }
            }
            @if counts.left > 0 { li .outside { (count(counts.left)) " of " (count(counts.planned)) " not run" } }
        }
    }
}

fn facts(facts: &StressFacts, summary: &Summary) -> Markup {
    let machine = &facts.machine;
    let samples = summary.samples;
    let others = summary.also();
    html! {
        dl {
            dt { "walks" } dd {
                (count(summary.frames.of)) " of untouched contexts, "
                (percent(summary.frames.k, summary.frames.of)) " gave frames"
            }
            dt { "crashes" } dd { (rate(summary.crashes)) }
            @if !others.is_empty() { dt { "also" } dd { (others.join(", ")) } }
            @if summary.perturbed_faults.of > 0 {
                dt { "perturbed" } dd { (rate(summary.perturbed_faults)) ", outside all verdicts" }
            }
            dt { "samples" } dd {
                (count(samples.delivered)) " of " (count(samples.requested)) " requested ("
                (percent(samples.delivered, samples.requested)) "), " (count(samples.coalesced)) " coalesced, "
                (count(samples.dropped)) " dropped"
            }
            dt { "time" } dd {
                @match facts.finished {
                    Some(finished) => (duration(finished.duration_since(facts.started).as_secs_f64())),
                    None => "not finished",
                }
                "; the cells took " (duration(summary.cell_seconds)) " in all"
            }
            dt { "machine" } dd {
                (machine.arch) ", " (machine.cpus) " cpus, kernel " (machine.kernel)
                @if machine.emulated { ", emulated: times mean nothing" }
            }
            dt { "plan" } dd {
                "seed " (facts.seed) ", " (count(facts.plan.len() as u64)) " cells of " (count(facts.points))
                " points, " (count(facts.pairs.0)) " of " (count(facts.pairs.1)) " pairs of values"
                @if !facts.impossible.is_empty() {
                    details {
                        summary { (count(facts.impossible.iter().map(|(_, points)| points).sum())) " points left out" }
                        ul { @for (why, points) in &facts.impossible { li { (count(*points)) ": " (why) } } }
                    }
                }
            }
            @for work in &summary.work {
                dt { "work" } dd {
                    a href={"#c-" (work.cell)} { (work.cell) } ": " (format!("{:.2}", work.rounds_per_second)) " rounds a second, "
                    (format!("{:.2}", work.unsampled)) " without sampling: a round takes " (format!("{:.3}", work.slowdown())) " of its time"
                }
            }
            dt { "command" } dd { code { (facts.command.join(" ")) } }
        }
    }
}

fn findings(groups: &[FindingGroup], cells: &[&CellResult], files: Files<'_>) -> Markup {
    let varied = axes::varied(cells);
    let names: std::collections::HashMap<&str, String> = cells
        .iter()
        .map(|cell| (cell.id.as_str(), axes::name(&cell.cell, &varied)))
        .collect();
    html! {
        @if groups.is_empty() { p { "None." } }
        @for group in groups {
            article {
                h3 { (group.title) }
                p {
                    @if group.perturbed { span .badge .outside { "~ perturbed" } " " }
                    @for known in &group.known { span .badge .known { (known.id) ", " (known.versions) ": " (known.title) } " " }
                    (count(group.count)) " times in " (count(group.cells.len() as u64)) " cells: "
                    @for (at, id) in group.cells.iter().take(NAMED).enumerate() {
                        @if at > 0 { ", " }
                        a href={"#c-" (id)} { (names.get(id.as_str()).unwrap_or(id)) }
                    }
                    @if group.cells.len() > NAMED { " and " (group.cells.len() - NAMED) " more" }
                }
                @if let Some(file) = &group.evidence {
                    p { "Evidence: " a href=(files.of(file)) { code { (file) } } }
                }
                @if !group.registers.is_empty() {
                    div .wide tabindex="0" role="region" aria-label="Registers of the walk" {
                        table {
                            caption { "What the walk began from" }
                            tr { th scope="col" { "register" } th scope="col" { "delivered" } th scope="col" { "walked" } }
                            @for pair in &group.registers {
                                tr { th scope="row" { (pair.name) } td { code { (pair.before) } } td { code { (pair.after) } } }
                            }
                        }
                    }
                }
                pre tabindex="0" { (group.command) }
            }
        }
    }
}

/// Where the run's files are.
#[derive(Clone, Copy)]
struct Files<'a> {
    folder: &'a str,
}

impl Files<'_> {
    /// The address of a file of the run's folder. Never one with a scheme: names of files are data.
    fn of(self, file: &str) -> String {
        let mut address = String::from(if self.folder.starts_with('/') {
            ""
        } else {
            "./"
        });
        let folder = self.folder.trim_end_matches('/');
        let path = if folder.is_empty() {
            file.to_owned()
        } else {
            format!("{folder}/{file}")
        };
        for byte in path.bytes() {
            let plain = byte.is_ascii_alphanumeric() || b"/-._~+,".contains(&byte);
            if plain {
                address.push(char::from(byte));
            } else {
                address += &format!("%{byte:02X}");
            }
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_names() {
        let at = |folder, file| Files { folder }.of(file);
        assert_eq!(
            at("", "cells/a b/hs_err#1.log"),
            "./cells/a%20b/hs_err%231.log"
        );
        assert_eq!(at("", "javascript:alert(1)"), "./javascript%3Aalert%281%29");
        assert_eq!(at("runs/x/", "cells"), "./runs/x/cells");
        assert_eq!(at("/runs/x", "cells"), "/runs/x/cells");
    }
}
