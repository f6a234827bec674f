//! A run on a terminal: a first screen of 24 lines of 80 columns whatever is in it, and on request a line for each cell.
//!
//! Contract: pure. Text of the sampled program (a wrong result, say) reaches the terminal without its control characters.

use std::ffi::OsStr;

use anstyle::{AnsiColor, Style};
use walkfuzz_record::Generation;
use walkfuzz_record::render::numbers::{count, nanoseconds, percent, rate};

use super::Run;
use super::axes;
use super::summary::{CodeShare, Summary, crashes, worst};
use super::text::{COLUMNS, clean, duration, fit, folded, per_million, rows, width};
use crate::grade::Grade;
use crate::result::{CellResult, Verdict};

/// Lines of the first screen.
const LINES: usize = 24;
const CODE_ROWS: usize = 6;
/// Lines that a command may have; beyond, the run's folder is the way to it.
const COMMAND_LINES: usize = 6;

/// How a terminal wants it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen<'a> {
    /// With colours: see [`wants_colour`].
    pub colour: bool,
    /// With a line for each cell below the first screen.
    pub all: bool,
    /// The run's folder, to be named in commands.
    pub folder: &'a str,
}

/// Whether output is coloured: on a terminal, unless `NO_COLOR` is set to anything.
#[must_use]
pub fn wants_colour(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// A run as text; every line ends in a newline.
#[must_use]
pub fn terminal(run: Run<'_>, screen: &Screen<'_>) -> String {
    let summary = Summary::of(run);
    let cells = run.in_order();
    let mut lines = first_screen(run, &summary, &cells, screen);
    if screen.all {
        lines.extend(every_cell(&cells, screen));
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn first_screen(
    run: Run<'_>,
    summary: &Summary,
    cells: &[&CellResult],
    screen: &Screen<'_>,
) -> Vec<String> {
    let worst = worst(cells);
    let mut lines = head(run, summary, screen);
    let end = end(&worst, screen);
    let mut codes = codes(summary, CODE_ROWS, screen);
    // Cells matter more than codes, four of them at least.
    let room = LINES.saturating_sub(lines.len() + rows(&end) + 1 + worst.len().min(4));
    codes.truncate(room);
    lines.extend(codes);
    let room = LINES.saturating_sub(lines.len() + rows(&end));
    lines.extend(worst_cells(&worst, cells, room, screen));
    lines.extend(end);
    lines
}

fn head(run: Run<'_>, summary: &Summary, screen: &Screen<'_>) -> Vec<String> {
    let facts = run.facts;
    let took = match facts.finished {
        Some(finished) => duration(finished.duration_since(facts.started).as_secs_f64()),
        None => "not finished".to_owned(),
    };
    let shard = facts.shard.as_ref();
    let shard = shard.map_or_else(String::new, |shard| format!(" shard {shard}"));
    let machine = &facts.machine;
    let emulated = if machine.emulated { ", emulated" } else { "" };
    let mut lines = vec![fit(
        &format!(
            "walkfuzz stress {}{shard}, {} UTC, {took}, {}, {} cpus{emulated}",
            facts.profile,
            facts.started.strftime("%Y-%m-%d %H:%M"),
            machine.arch,
            machine.cpus,
        ),
        COLUMNS,
    )];
    let counts = summary.cells;
    let gravest = counts.gravest();
    let word = gravest.map_or("NOTHING RAN", verdict_word);
    let verdicts: Vec<String> = Verdict::ALL
        .iter()
        .filter(|&&verdict| counts.of(verdict) > 0)
        .map(|&verdict| format!("{} {}", count(counts.of(verdict)), verdict.name()))
        .collect();
    let of = match counts.left {
        0 => String::new(),
        _ => format!("of {} ", count(counts.planned)),
    };
    let rest = format!(
        ": {} {of}cells: {}",
        count(counts.done()),
        verdicts.join(", ")
    );
    let rest = fit(&rest, COLUMNS - 10 - word.len());
    let word = gravest.map_or_else(
        || word.to_owned(),
        |v| painted(screen, verdict_style(v), word),
    );
    lines.push(format!("verdict   {word}{rest}"));
    let frames = summary.frames;
    let mut walks = format!(
        "walks     {} untouched, {} gave frames",
        count(frames.of),
        percent(frames.k, frames.of)
    );
    if summary.perturbed_faults.of > 0 {
        walks += &format!("; {} perturbed apart", count(summary.perturbed_faults.of));
    }
    lines.push(fit(&walks, COLUMNS));
    let crashed = fit(&format!("crashes   {}", rate(summary.crashes)), COLUMNS);
    let bad = Style::new().fg_color(Some(AnsiColor::Red.into()));
    lines.push(if summary.crashes.k > 0 {
        painted(screen, bad, &crashed)
    } else {
        crashed
    });
    let others = summary.also();
    if !others.is_empty() {
        lines.push(fit(&format!("also      {}", others.join(", ")), COLUMNS));
    }
    for work in &summary.work {
        let cell = run.cells.iter().find(|cell| cell.id == work.cell);
        let Some(cell) = cell.map(|cell| &cell.cell) else {
            continue;
        };
        lines.push(fit(
            &format!(
                "work      {} {} {}: {:.2} rounds/s, unsampled {:.2}: time x {:.3}",
                cell.walker,
                cell.mode,
                cell.interval,
                work.rounds_per_second,
                work.unsampled,
                work.slowdown()
            ),
            COLUMNS,
        ));
    }
    let samples = summary.samples;
    lines.push(fit(
        &format!(
            "samples   {} of {} requested ({}), {} coalesced, {} dropped",
            count(samples.delivered),
            count(samples.requested),
            percent(samples.delivered, samples.requested),
            count(samples.coalesced),
            count(samples.dropped),
        ),
        COLUMNS,
    ));
    lines
}

fn codes(summary: &Summary, most: usize, screen: &Screen<'_>) -> Vec<String> {
    if summary.codes.is_empty() {
        return vec!["codes     none: no untouched walk gave an error code".to_owned()];
    }
    // What must not happen first, whatever its count.
    let mut shown: Vec<&CodeShare> = summary.codes.iter().collect();
    shown.sort_by_key(|code| {
        (
            code.grade != Grade::Forbidden,
            std::cmp::Reverse(code.share.k),
        )
    });
    let more = shown.len().saturating_sub(most);
    let head = format!(
        "{:<38} {:>12} {:>9}  {}",
        "codes", "walks", "share", "grade"
    );
    let mut lines = vec![painted(screen, Style::new().bold(), &head)];
    let mut generations: Vec<Generation> = shown.iter().map(|code| code.generation).collect();
    generations.dedup();
    for code in shown.iter().take(most) {
        let whose = match generations.len() {
            1 => String::new(),
            _ => format!("{} ", code.generation),
        };
        let name = fit(&format!("{:>5} {whose}{}", code.code, code.name), 38);
        let share = percent(code.share.k, code.share.of);
        let grade = painted(screen, grade_style(code.grade), code.grade.name());
        lines.push(format!(
            "{name:<38} {:>12} {share:>9}  {grade}",
            count(code.share.k)
        ));
    }
    if more > 0
        && let Some(last) = lines.last_mut()
    {
        *last += &format!(" (+{more})");
    }
    lines
}

fn worst_cells(
    worst: &[&CellResult],
    cells: &[&CellResult],
    room: usize,
    screen: &Screen<'_>,
) -> Vec<String> {
    if worst.is_empty() || room < 2 {
        return Vec::new();
    }
    let varied = axes::varied(cells);
    let fitting = if worst.len() < room {
        worst.len()
    } else {
        room - 1
    };
    let mut head = format!("worst cells ({} of {})", fitting, worst.len());
    if fitting == worst.len() {
        head = "worst cells".to_owned();
    }
    let mut lines = vec![painted(screen, Style::new().bold(), &head)];
    for cell in worst.iter().take(fitting) {
        let name = fit(&axes::name(&cell.cell, &varied), 36);
        let word = painted(
            screen,
            verdict_style(cell.verdict),
            &format!("{:<7}", cell.verdict.name()),
        );
        lines.push(format!(
            "  {word} {name}: {}",
            fit(&cell.reason, COLUMNS - 12 - width(&name))
        ));
    }
    lines
}

fn end(worst: &[&CellResult], screen: &Screen<'_>) -> Vec<String> {
    let more = match screen.folder {
        "" => "walkfuzz report --all".to_owned(),
        folder => format!("walkfuzz report {folder} --all"),
    };
    let every = || folded("all       ", &more);
    let Some(first) = worst.first() else {
        return every();
    };
    let again = folded("again     ", &first.command);
    if first.command.is_empty() || rows(&again) > COMMAND_LINES || screen.all {
        return every();
    }
    again
}

fn every_cell(cells: &[&CellResult], screen: &Screen<'_>) -> Vec<String> {
    let varied = axes::varied(cells);
    let names: Vec<String> = cells
        .iter()
        .map(|cell| axes::name(&cell.cell, &varied))
        .collect();
    let widest = names
        .iter()
        .map(|name| width(name))
        .max()
        .unwrap_or(0)
        .clamp(4, 70);
    let head = format!(
        "{:<7} {:<widest$} {:>11} {:>8} {:>20} {:>10} {:>5}  reason",
        "verdict", "cell", "walks", "frames", "crashes per million", "p99 walk", "depth"
    );
    let mut lines = vec![String::new(), painted(screen, Style::new().bold(), &head)];
    for (cell, name) in cells.iter().zip(&names) {
        let verdict = format!("{:<7}", cell.verdict.name());
        let crashed = match cell.verdict {
            Verdict::Outside => "-".to_owned(),
            _ => per_million(crashes(cell)),
        };
        lines.push(format!(
            "{} {:<widest$} {:>11} {:>8} {crashed:>20} {:>10} {:>5}  {}",
            painted(screen, verdict_style(cell.verdict), &verdict),
            fit(name, widest),
            count(cell.untouched.walks),
            percent(cell.untouched.frames, cell.untouched.walks),
            nanoseconds(cell.latency.p99),
            cell.depth.p50,
            clean(&cell.reason),
        ));
        let warnings = cell
            .warnings
            .iter()
            .map(|text| format!("        warning: {}", clean(text)));
        lines.extend(warnings);
    }
    lines
}

const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fail => "FAIL",
        Verdict::Unknown => "UNKNOWN",
        Verdict::Known => "KNOWN ISSUES",
        Verdict::Pass => "PASS",
        Verdict::Outside => "OUTSIDE ALL VERDICTS",
    }
}

pub(super) const fn verdict_style(verdict: Verdict) -> Style {
    let (colour, bold) = match verdict {
        Verdict::Fail => (AnsiColor::Red, true),
        Verdict::Unknown => (AnsiColor::Magenta, true),
        Verdict::Known => (AnsiColor::Yellow, false),
        Verdict::Pass => (AnsiColor::Green, false),
        Verdict::Outside => (AnsiColor::Blue, false),
    };
    let style = Style::new().fg_color(Some(anstyle::Color::Ansi(colour)));
    if bold { style.bold() } else { style }
}

const fn grade_style(grade: Grade) -> Style {
    let colour = match grade {
        Grade::Acceptable => return Style::new(),
        Grade::Interesting => AnsiColor::Yellow,
        Grade::Forbidden => AnsiColor::Red,
    };
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

pub(super) fn painted(screen: &Screen<'_>, style: Style, text: &str) -> String {
    if screen.colour {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        assert!(wants_colour(true, None));
        assert!(wants_colour(true, Some(OsStr::new(""))));
        assert!(!wants_colour(true, Some(OsStr::new("1"))));
        assert!(!wants_colour(false, None));
    }
}
