//! Curves as inline SVG, one for each JDK line, with the same numbers as a table below.

use std::collections::BTreeMap;

use maud::{Markup, html};
use walkfuzz_record::render::numbers::nanoseconds;

use super::super::axes::{in_order, line};
use crate::cell::Dimension;
use crate::result::{CellResult, Verdict};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Lines of style that are told apart; further curves are summed up in the table only.
const STYLES: usize = 6;

/// How many walks were above each step, of all.
struct Curve<'a> {
    name: &'a str,
    steps: Vec<(u64, u64)>,
    of: u64,
}

impl Curve<'_> {
    fn share(&self, above: u64) -> f64 {
        above as f64 / self.of.max(1) as f64
    }
}

pub(super) fn section(cells: &[&CellResult]) -> Markup {
    let depth = curves(cells, |cell| &cell.depth_curve);
    let latency = curves(cells, |cell| &cell.latency_curve);
    html! {
        p .faint { "Walks of cells whose contexts are untouched, by JDK line; logarithmic scales." }
        div .charts {
            (chart("Walks deeper than so many frames", &depth, |frames| frames.to_string()))
            (chart("Walks that took longer than", &latency, nanoseconds))
        }
    }
}

fn curves<'a>(
    cells: &[&'a CellResult],
    steps: impl Fn(&CellResult) -> &Vec<(u64, u64)>,
) -> Vec<Curve<'a>> {
    let mut sums: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.verdict != Verdict::Outside) {
        let sum = sums.entry(line(&cell.cell.jdk)).or_default();
        for &(up_to, walks) in steps(cell) {
            *sum.entry(up_to).or_default() += walks;
        }
    }
    let mut curves: Vec<Curve<'_>> = sums
        .into_iter()
        .filter(|(_, sum)| sum.values().any(|&walks| walks > 0))
        .map(|(name, sum)| {
            let of = sum.values().sum();
            let mut left: u64 = of;
            let steps = sum.into_iter().map(|(up_to, walks)| {
                left -= walks;
                (up_to, left)
            });
            Curve {
                name,
                steps: steps.collect(),
                of,
            }
        })
        .collect();
    curves.sort_by(|a, b| in_order(Dimension::Jdk, a.name, b.name));
    curves
}

fn chart(title: &str, curves: &[Curve<'_>], value: impl Fn(u64) -> String) -> Markup {
    if curves.is_empty() {
        return html! { p { (title) ": nothing to draw." } };
    }
    let steps = || {
        curves
            .iter()
            .flat_map(|curve| curve.steps.iter().map(|(up_to, _)| *up_to))
    };
    let (first, last) = (
        steps().min().unwrap_or(1).max(1),
        steps().max().unwrap_or(2).max(2),
    );
    let (low, high) = (
        (first as f64).log2(),
        (last as f64).log2().max((first as f64).log2() + 1.0),
    );
    let decades = curves
        .iter()
        .map(|curve| (curve.of.max(10) as f64).log10().ceil())
        .fold(1.0, f64::max)
        .min(8.0);
    let x =
        |at: u64| LEFT + (WIDTH - LEFT - RIGHT) * ((at.max(1) as f64).log2() - low) / (high - low);
    let y = |share: f64| {
        let down = (-share.max(1e-12).log10() / decades).clamp(0.0, 1.0);
        TOP + (HEIGHT - TOP - BOTTOM) * down
    };
    let every = (((high - low) / 6.0).ceil() as u32).max(1);
    let ticks: Vec<u64> = (low.round() as u32..=high.round() as u32)
        .step_by(every as usize)
        .filter_map(|power| 1_u64.checked_shl(power))
        .collect();
    let drawn = &curves[..curves.len().min(STYLES)];
    let words: Vec<String> = curves
        .iter()
        .map(|curve| {
            format!(
                "JDK {}: half of {} walks up to {}",
                curve.name,
                curve.of,
                value(median(curve))
            )
        })
        .collect();
    html! {
        figure {
            figcaption { (title) }
            svg viewBox={"0 0 " (WIDTH) " " (HEIGHT)} role="img" aria-label={(title) ". " (words.join("; "))} {
                @for decade in 0..=decades as u32 {
                    @let at = y(10_f64.powi(-(decade as i32)));
                    line .grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(place(at)) y2=(place(at)) {}
                    text x=(LEFT - 6.0) y=(place(at + 4.0)) text-anchor="end" { (share_words(decade)) }
                }
                @for tick in &ticks {
                    line .grid x1=(place(x(*tick))) x2=(place(x(*tick))) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                    text x=(place(x(*tick))) y=(HEIGHT - BOTTOM + 18.0) text-anchor="middle" { (value(*tick)) }
                }
                @for (at, curve) in drawn.iter().enumerate() {
                    polyline class={"s" (at)} points=(points(curve, &x, &y)) {}
                }
            }
            ul .legend {
                @for (at, curve) in drawn.iter().enumerate() {
                    li {
                        svg viewBox="0 0 40 10" aria-hidden="true" { polyline class={"s" (at)} points="0,5 40,5" {} }
                        "JDK " (curve.name)
                    }
                }
            }
            details {
                summary { "The numbers" }
                div .wide tabindex="0" role="region" aria-label=(title) { (numbers(title, curves, value)) }
            }
        }
    }
}

fn points(curve: &Curve<'_>, x: &impl Fn(u64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    let points = curve.steps.iter().filter(|(_, above)| *above > 0);
    let points: Vec<String> = points
        .map(|&(up_to, above)| format!("{},{}", place(x(up_to)), place(y(curve.share(above)))))
        .collect();
    points.join(" ")
}

fn numbers(title: &str, curves: &[Curve<'_>], value: impl Fn(u64) -> String) -> Markup {
    let mut steps: Vec<u64> = curves
        .iter()
        .flat_map(|curve| curve.steps.iter().map(|(up_to, _)| *up_to))
        .collect();
    steps.sort_unstable();
    steps.dedup();
    html! {
        table {
            caption .sr { (title) }
            thead { tr { th scope="col" .n { "more than" } @for curve in curves { th scope="col" .n { "JDK " (curve.name) } } } }
            tbody {
                @for step in steps {
                    tr {
                        th scope="row" .n { (value(step)) }
                        @for curve in curves { td .n { (above(curve, step)) } }
                    }
                }
            }
        }
    }
}

fn above(curve: &Curve<'_>, step: u64) -> String {
    match curve.steps.iter().find(|(up_to, _)| *up_to == step) {
        Some(&(_, above)) => format!("{:.5} %", 100.0 * curve.share(above)),
        None => "-".to_owned(),
    }
}

fn median(curve: &Curve<'_>) -> u64 {
    let half = curve.steps.iter().find(|(_, above)| *above <= curve.of / 2);
    half.map_or(0, |(up_to, _)| *up_to)
}

fn share_words(decade: u32) -> String {
    match decade {
        0 => "all".to_owned(),
        1 => "10 %".to_owned(),
        2 => "1 %".to_owned(),
        decade => format!(
            "10⁻{}",
            ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸"][decade.min(8) as usize]
        ),
    }
}

fn place(at: f64) -> String {
    format!("{at:.1}")
}
