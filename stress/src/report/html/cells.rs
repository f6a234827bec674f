//! Every cell, by JDK: in full where there is something to look at, in a row where all is well.

use maud::{Markup, html};
use walkfuzz_record::render::numbers::{count, nanoseconds, percent};

use super::super::Run;
use super::super::axes::{name, values, varied};
use super::super::summary::crashes;
use super::super::text::{duration, per_million};
use super::{Files, badge, sign};
use crate::cell::Dimension;
use crate::grade::grade;
use crate::result::{CellResult, Verdict};
use walkfuzz_record::Code;

/// Up to so many cells all are shown in full.
const IN_FULL: usize = 300;

pub(super) fn section(run: Run<'_>, cells: &[&CellResult], files: Files<'_>) -> Markup {
    let varied = varied(cells);
    let all = cells.len() <= IN_FULL;
    let in_full = |cell: &CellResult| {
        all || !matches!(cell.verdict, Verdict::Pass | Verdict::Outside)
            || !cell.warnings.is_empty()
    };
    let left = run.left();
    html! {
        @if !all { p .faint { "Cells that passed without a warning have a row; their every number is in the JSON report." } }
        @for jdk in values(cells, Dimension::Jdk) {
            @let of_jdk: Vec<&CellResult> = cells.iter().copied().filter(|cell| cell.cell.jdk == jdk).collect();
            @let (full, rows) = of_jdk.iter().copied().partition::<Vec<&CellResult>, _>(|cell| in_full(cell));
            details open[all] {
                summary { "JDK " (jdk) ": " (count(of_jdk.len() as u64)) " cells" }
                @for cell in full { (details(cell, &name(&cell.cell, &varied), files)) }
                @if !rows.is_empty() { (table(jdk, &rows, &varied)) }
            }
        }
        @if !left.is_empty() {
            details {
                summary { (count(left.len() as u64)) " planned cells did not run" }
                ul { @for cell in left { li .mono { (cell) } } }
            }
        }
    }
}

fn table(jdk: &str, cells: &[&CellResult], varied: &[Dimension]) -> Markup {
    html! {
        div .wide tabindex="0" role="region" aria-label={"Cells of JDK " (jdk)} {
            table {
                caption .sr { "Cells of JDK " (jdk) " without anything to look at" }
                thead {
                    tr {
                        th scope="col" { "cell" }
                        @for name in ["walks", "frames", "crashes per million", "p50 walk", "p99 walk", "depth"] {
                            th scope="col" .n { (name) }
                        }
                    }
                }
                tbody {
                    @for cell in cells {
                        tr id={"c-" (cell.id)} {
                            th scope="row" { (sign(cell.verdict)) span .sr { (cell.verdict.name()) } " " (name(&cell.cell, varied)) }
                            td .n { (count(cell.untouched.walks)) }
                            td .n { (percent(cell.untouched.frames, cell.untouched.walks)) }
                            td .n { (per_million(crashes(cell))) }
                            td .n { (nanoseconds(cell.latency.p50)) }
                            td .n { (nanoseconds(cell.latency.p99)) }
                            td .n { (cell.depth.p50) }
                        }
                    }
                }
            }
        }
    }
}

fn details(cell: &CellResult, name: &str, files: Files<'_>) -> Markup {
    let folder = format!("cells/{}/", cell.id);
    let sampling = &cell.sampling;
    let workload = &cell.workload;
    html! {
        details .cell id={"c-" (cell.id)} {
            summary { (badge(cell.verdict)) " " (name) span .faint { " " (cell.reason) } }
            div {
                @for warning in &cell.warnings { p { span .badge .known { "warning" } " " (warning) } }
                dl {
                    @for &axis in Dimension::ALL { dt { (axis.name()) } dd { (cell.cell.get(axis)) } }
                    dt { "JVM" } dd { (cell.jvm.version) ", " (cell.jvm.vendor) ", build id " code { (cell.jvm.build_id) } }
                    dt { "options" } dd { code { (cell.jvm.options.join(" ")) } }
                    dt { "ended" } dd {
                        (cell.process.words) " after " (duration(cell.seconds)) " (" (cell.process.outcome.name())
                        @if let Some(error) = &cell.process.internal_error { ", " (error) }
                        ")"
                    }
                    dt { "walks" } dd {
                        (count(cell.untouched.walks)) " untouched, " (percent(cell.untouched.frames, cell.untouched.walks)) " frames, "
                        (count(cell.untouched.faults)) " faults, " (count(cell.untouched.hangs)) " hangs, "
                        (count(cell.untouched.wrong_frames)) " wrong frames, " (count(cell.untouched.breaches)) " breaches"
                        @if cell.perturbed.walks > 0 {
                            "; " (count(cell.perturbed.walks)) " perturbed, " (count(cell.perturbed.faults)) " faults"
                        }
                    }
                    @if cell.verdict != Verdict::Outside { dt { "crashes" } dd { (per_million(crashes(cell))) " per million walks" } }
                    dt { "a walk" } dd {
                        (nanoseconds(cell.latency.p50)) " (p99 " (nanoseconds(cell.latency.p99)) ", max " (nanoseconds(cell.latency.max)) "), "
                        (cell.depth.p50) " frames (p99 " (cell.depth.p99) ", max " (cell.depth.max) ")"
                    }
                    dt { "samples" } dd {
                        (count(sampling.delivered)) " of " (count(sampling.requested)) " (" (percent(sampling.delivered, sampling.requested)) "), "
                        (count(sampling.coalesced)) " coalesced, " (count(sampling.dropped)) " dropped, "
                        (count(sampling.outside_java)) " outside Java, " (count(sampling.near_misses)) " near misses"
                        @if sampling.biased + sampling.lost > 0 {
                            ", " (count(sampling.biased)) " biased, " (count(sampling.lost)) " lost"
                        }
                    }
                    dt { "program" } dd {
                        @if let Some(rounds) = workload.rounds { (count(rounds)) " rounds, " }
                        @if let Some(checks) = workload.checks { (count(checks)) " results checked, " }
                        @if workload.done { "done" } @else { "not done" }
                        @if let Some(wrong) = &workload.wrong { ", wrong: " (wrong) }
                        @for (antagonist, done) in &workload.antagonists { ", " (antagonist) " " (count(*done)) }
                    }
                    dt { "files" } dd {
                        a href=(files.of(&folder)) { code { (folder) } }
                        @if let Some(log) = &cell.process.crash_log { ", " a href=(files.of(&format!("{folder}{log}"))) { code { (log) } } }
                    }
                }
                (codes(cell))
                @for finding in &cell.findings {
                    p {
                        (count(finding.count)) " x " (finding.title)
                        @if finding.perturbed { " (perturbed)" }
                        @for known in &finding.known { " " span .badge .known { (known.id) ", " (known.versions) } }
                        @if let Some(file) = &finding.evidence { ", " a href=(files.of(&format!("{folder}{file}"))) { code { (file) } } }
                    }
                }
                pre tabindex="0" { (cell.command) }
            }
        }
    }
}

fn codes(cell: &CellResult) -> Markup {
    let perturbed = cell.codes.iter().any(|code| code.perturbed > 0);
    html! {
        @if !cell.codes.is_empty() {
            div .wide tabindex="0" role="region" aria-label={"Error codes of " (cell.id)} {
                table {
                    caption .sr { "Error codes" }
                    thead {
                        tr {
                            th scope="col" .n { "code" } th scope="col" { "name" } th scope="col" .n { "walks" } th scope="col" .n { "share" }
                            @if perturbed { th scope="col" .n { "perturbed" } }
                            th scope="col" { "grade" }
                        }
                    }
                    tbody {
                        @for code in &cell.codes {
                            tr {
                                td .n { (code.code) }
                                th scope="row" .mono { (code.name) }
                                td .n { (count(code.untouched)) }
                                td .n { (percent(code.untouched, cell.untouched.walks)) }
                                @if perturbed { td .n { (count(code.perturbed)) } }
                                td { (grade(code.generation, Code(code.code)).0.name()) }
                            }
                        }
                    }
                }
            }
        }
    }
}
