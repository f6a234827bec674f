//! A comparison on a terminal.

use anstyle::{AnsiColor, Style};
use walkfuzz_record::KOfN;
use walkfuzz_record::render::numbers::{count, percent};
use walkfuzz_record::summary::Share;

use super::comparison::{CodeChange, Comparison, FindingChange, RateChange, RunName};
use super::screen::{Screen, painted, verdict_style};
use super::text::{clean, fit, per_million};

/// Rows of a table unless all are wanted.
const ROWS: usize = 8;

impl Comparison {
    /// Whether anything changed for the worse beyond chance: a verdict, a rate, a new finding.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let worse =
            |change: &RateChange| change.significant && rate(change.after) > rate(change.before);
        let place = |verdict| {
            crate::result::Verdict::ALL
                .iter()
                .position(|&v| v == verdict)
        };
        self.verdicts
            .iter()
            .any(|change| place(change.after) < place(change.before))
            || self.rates.iter().any(worse)
            || !self.appeared.is_empty()
    }

    /// For the terminal; every line ends in a newline.
    #[must_use]
    pub fn text(&self, screen: &Screen<'_>) -> String {
        let rows = if screen.all { usize::MAX } else { ROWS };
        let heading = |text: &str| painted(screen, Style::new().bold(), text);
        let mut lines = vec![
            format!("before    {}", run(&self.before)),
            format!("after     {}", run(&self.after)),
            format!(
                "cells     {} in both, {} only before, {} only after",
                count(self.matched),
                count(self.only_before.len() as u64),
                count(self.only_after.len() as u64)
            ),
        ];
        lines.extend(
            self.cautions
                .iter()
                .map(|text| format!("caution   {}", fit(text, 70))),
        );
        lines.push(heading(&format!(
            "verdicts  {} changed",
            count(self.verdicts.len() as u64)
        )));
        for change in self.verdicts.iter().take(rows) {
            let after = painted(screen, verdict_style(change.after), change.after.name());
            let arrow = format!("{:>7} -> {after}", change.before.name());
            lines.push(format!("  {arrow}  {}", clean(&change.cell)));
            lines.push(format!("             {}", clean(&change.reason)));
        }
        more(&mut lines, self.verdicts.len(), rows);
        let rates: Vec<&RateChange> = self
            .rates
            .iter()
            .filter(|change| change.scope == "all" || change.significant || screen.all)
            .collect();
        lines.push(heading(&format!(
            "crashes   per million walks (95 %); {} rates compared, `*`: more than chance",
            count(self.rates_compared)
        )));
        lines.extend(
            rates
                .iter()
                .take(rows)
                .map(|change| rate_line(change, screen)),
        );
        more(&mut lines, rates.len(), rows);
        let codes: Vec<&CodeChange> = self
            .codes
            .iter()
            .filter(|change| change.scope == "all" || change.significant || screen.all)
            .collect();
        lines.push(heading(&format!(
            "codes     share of the walks; {} shares compared, `*`: more than chance and enough to matter",
            count(self.codes_compared)
        )));
        lines.extend(
            codes
                .iter()
                .take(2 * rows.min(usize::MAX / 2))
                .map(|change| code_line(change, screen)),
        );
        more(&mut lines, codes.len(), 2 * rows.min(usize::MAX / 2));
        for (title, list) in [("new", &self.appeared), ("gone", &self.gone)] {
            if list.is_empty() {
                continue;
            }
            lines.push(heading(&format!(
                "findings  {title}, in cells that both have"
            )));
            for finding in list.iter().take(rows) {
                lines.extend(finding_lines(finding));
            }
            more(&mut lines, list.len(), rows);
        }
        lines
            .iter()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }
}

fn run(run: &RunName) -> String {
    let started = run.started.strftime("%Y-%m-%d %H:%M");
    fit(
        &format!(
            "{} of {started} UTC, {} cells, walkfuzz {}",
            run.profile,
            count(run.cells),
            run.walkfuzz
        ),
        70,
    )
}

fn rate(share: Share) -> f64 {
    KOfN::new(share.k, share.of).share().unwrap_or(0.0)
}

fn mark(significant: bool, worse: bool, screen: &Screen<'_>) -> String {
    if !significant {
        return " ".to_owned();
    }
    let colour = if worse {
        AnsiColor::Red
    } else {
        AnsiColor::Green
    };
    painted(
        screen,
        Style::new().fg_color(Some(colour.into())).bold(),
        "*",
    )
}

fn rate_line(change: &RateChange, screen: &Screen<'_>) -> String {
    let of = |share: Share| per_million(KOfN::new(share.k, share.of));
    let worse = rate(change.after) > rate(change.before);
    format!(
        "{} {:<28} {:>20} -> {:<20} p {}",
        mark(change.significant, worse, screen),
        clean(&change.scope),
        of(change.before),
        of(change.after),
        chance(change.adjusted)
    )
}

fn code_line(change: &CodeChange, screen: &Screen<'_>) -> String {
    let worse = rate(change.after) > rate(change.before);
    let cells = match change.rose + change.fell {
        0 | 1 => String::new(),
        _ => format!("  rose in {} cells, fell in {}", change.rose, change.fell),
    };
    format!(
        "{} {:<14} {:>4} {:<28} {:>9} -> {:<9} p {}{cells}",
        mark(change.significant, worse, screen),
        clean(&change.scope),
        change.code,
        fit(&change.name, 28),
        percent(change.before.k, change.before.of),
        percent(change.after.k, change.after.of),
        chance(change.adjusted)
    )
}

fn finding_lines(finding: &FindingChange) -> [String; 2] {
    [
        format!(
            "  {} times in {} cells (p {}): {}",
            count(finding.count),
            finding.cells,
            chance(finding.chance),
            clean(&finding.title)
        ),
        format!("    {}", clean(&finding.command)),
    ]
}

fn chance(chance: f64) -> String {
    match chance {
        c if c >= 0.995 => "1".to_owned(),
        c if c >= 0.001 => format!("{c:.3}"),
        c if c > 0.0 => format!("{c:.0e}"),
        _ => "0".to_owned(),
    }
}

fn more(lines: &mut Vec<String>, all: usize, shown: usize) {
    if all > shown {
        lines.push(format!("  and {} more", all - shown));
    }
}
