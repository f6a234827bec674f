//! Many nights in a row: walks, crashes per million and the share of unknown cells for each JDK line.
//!
//! Contract: pure. A [`Night`] is small, so that a caller can read one run after the other and keep none.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use walkfuzz_record::KOfN;
use walkfuzz_record::render::numbers::{compact, percent, significant};
use walkfuzz_record::summary::Share;

use super::Run;
use super::axes::{in_order, line};
use super::significance::{LEVEL, rates_differ};
use super::summary::crashes;
use super::text::fit;
use crate::cell::Dimension;
use crate::result::{SCHEMA, Verdict};

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Night {
    /// When the run began.
    pub started: Timestamp,
    /// Name of its profile.
    pub profile: String,
    /// Architecture of its machine.
    pub arch: String,
    /// By JDK line.
    pub lines: BTreeMap<String, NightLine>,
}

/// A JDK line in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NightLine {
    /// Crashes in a walk, of the untouched walks.
    pub crashes: KOfN,
    /// Cells whose verdict is unknown, of those that are judged.
    pub unknown: KOfN,
    /// Cells that failed.
    pub failed: u64,
}

impl Night {
    /// Of a run.
    #[must_use]
    pub fn of(run: Run<'_>) -> Self {
        let mut lines: BTreeMap<String, NightLine> = BTreeMap::new();
        let judged = run
            .cells
            .iter()
            .filter(|cell| cell.verdict != Verdict::Outside);
        for cell in judged {
            let row = lines.entry(line(&cell.cell.jdk).to_owned()).or_default();
            let crashed = crashes(cell);
            row.crashes.k += crashed.k;
            row.crashes.of += crashed.of;
            row.unknown.of += 1;
            row.unknown.k += u64::from(cell.verdict == Verdict::Unknown);
            row.failed += u64::from(cell.verdict == Verdict::Fail);
        }
        Self {
            started: run.facts.started,
            profile: run.facts.profile.clone(),
            arch: run.facts.machine.arch.clone(),
            lines,
        }
    }
}

/// A JDK line in one of the nights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Point {
    /// Crashes in a walk, of the untouched walks.
    pub crashes: Share,
    /// Cells whose verdict is unknown, of those that are judged.
    pub unknown: Share,
    /// Cells that failed.
    pub failed: u64,
}

/// A JDK line over the nights.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TrendLine {
    /// `21`.
    pub line: String,
    /// One for each night; absent where no cell of the line was judged.
    pub points: Vec<Option<Point>>,
    /// How likely the last night's crash rate lies this far from that of all earlier ones by chance; absent with less than two nights.
    pub chance: Option<f64>,
}

/// `walkfuzz report --trend`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trend {
    /// Version of the schema.
    pub schema: u32,
    /// When each night began, the oldest first.
    pub nights: Vec<Timestamp>,
    /// Profiles and architectures of these nights; more than one cannot be compared well.
    pub kinds: Vec<String>,
    /// By JDK line.
    pub lines: Vec<TrendLine>,
}

/// Puts nights in a row, whatever their order here.
#[must_use]
pub fn trend(nights: &[Night]) -> Trend {
    let mut nights: Vec<&Night> = nights.iter().collect();
    nights.sort_by_key(|night| night.started);
    let names: BTreeSet<&str> = nights
        .iter()
        .flat_map(|night| night.lines.keys().map(String::as_str))
        .collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by(|a, b| in_order(Dimension::Jdk, a, b));
    let lines = names.into_iter().map(|name| {
        let rows: Vec<Option<NightLine>> = nights
            .iter()
            .map(|night| night.lines.get(name).copied())
            .collect();
        let points = rows.iter().map(|row| row.map(point)).collect();
        TrendLine {
            line: name.to_owned(),
            points,
            chance: chance(&rows),
        }
    });
    let lines = lines.collect();
    let kinds: BTreeSet<String> = nights
        .iter()
        .map(|night| format!("{} on {}", night.profile, night.arch))
        .collect();
    Trend {
        schema: SCHEMA,
        nights: nights.iter().map(|night| night.started).collect(),
        kinds: kinds.into_iter().collect(),
        lines,
    }
}

fn point(row: NightLine) -> Point {
    Point {
        crashes: Share::new(row.crashes.k, row.crashes.of),
        unknown: Share::new(row.unknown.k, row.unknown.of),
        failed: row.failed,
    }
}

fn chance(rows: &[Option<NightLine>]) -> Option<f64> {
    let (last, earlier) = rows.split_last()?;
    let mut before = KOfN::default();
    for row in earlier.iter().flatten() {
        before.k += row.crashes.k;
        before.of += row.crashes.of;
    }
    let last = (*last)?.crashes;
    (before.of > 0 && last.of > 0).then(|| rates_differ(before, last))
}

/// Nights that fit a line of the terminal.
const NIGHTS: usize = 40;

impl Trend {
    /// For the terminal: three lines for each JDK line, none longer than 80 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let (Some(first), Some(last)) = (self.nights.first(), self.nights.last()) else {
            return "no nights\n".to_owned();
        };
        let day = |at: &Timestamp| at.strftime("%Y-%m-%d").to_string();
        let hidden = self.nights.len().saturating_sub(NIGHTS);
        let shown = match hidden {
            0 => String::new(),
            _ => format!(", the last {NIGHTS} drawn"),
        };
        let mut text = format!(
            "{} nights, {} to {}{shown}: {}\n",
            self.nights.len(),
            day(first),
            day(last),
            fit(&self.kinds.join(", "), 30),
        );
        if self.kinds.len() > 1 {
            text += "caution: nights of different kinds in one row\n";
        }
        for line in &self.lines {
            let points = &line.points[hidden.min(line.points.len())..];
            let drawn = |value: &dyn Fn(&Point) -> f64| {
                sparkline(
                    &points
                        .iter()
                        .map(|p| p.as_ref().map(value))
                        .collect::<Vec<_>>(),
                )
            };
            let last = line.points.iter().rev().flatten().next();
            let Some(last) = last else { continue };
            let name = fit(&line.line, 6);
            let walks = drawn(&|p| p.crashes.of as f64);
            text += &format!(
                "{name:<6} walks      {walks}  {}\n",
                compact(last.crashes.of as f64)
            );
            let crashed = drawn(&|p| KOfN::new(p.crashes.k, p.crashes.of).share().unwrap_or(0.0));
            let unusual = match line.chance {
                Some(chance) if chance <= LEVEL => " !",
                _ => "",
            };
            let of_last = last.crashes;
            let rate = match of_last.k {
                0 => format!("under {}", significant(of_last.interval.high * 1e6)),
                k => significant(k as f64 / of_last.of as f64 * 1e6),
            };
            text += &format!("       crashes/M  {crashed}  {rate}{unusual}\n");
            let unknown = drawn(&|p| KOfN::new(p.unknown.k, p.unknown.of).share().unwrap_or(0.0));
            text += &format!(
                "       unknown    {unknown}  {}\n",
                percent(last.unknown.k, last.unknown.of)
            );
        }
        for line in &self.lines {
            if let Some(chance) = line.chance.filter(|chance| *chance <= LEVEL) {
                text += &format!(
                    "! JDK {}: the last night's crash rate is unlike the earlier ones' (p = {chance:.1e})\n",
                    line.line
                );
            }
        }
        text
    }
}

/// Bars from nothing to the greatest value; a dot where there is none.
fn sparkline(values: &[Option<f64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values
        .iter()
        .flatten()
        .fold(0.0_f64, |most, &value| most.max(value));
    let bar = |value: f64| {
        if most <= 0.0 || value <= 0.0 {
            return BARS[0];
        }
        // Something is never drawn as nothing.
        let at = (value / most * 7.0).round() as usize;
        BARS[at.clamp(1, 7)]
    };
    values.iter().map(|value| value.map_or('·', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_tell_nothing_from_little_and_from_no_answer() {
        let values = [None, Some(0.0), Some(0.001), Some(50.0), Some(100.0)];
        assert_eq!(sparkline(&values), "·▁▂▅█");
        assert_eq!(sparkline(&[Some(0.0), Some(0.0)]), "▁▁");
    }
}
