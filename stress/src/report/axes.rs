//! Axes as readers want them: which ones differ at all, and in which order their values stand.

use std::cmp::Ordering;

use crate::cell::{Cell, Dimension};
use crate::result::CellResult;

/// A JDK's line, `21` of `21.0.8.2`.
pub(super) fn line(jdk: &str) -> &str {
    let end = jdk.find(|c: char| !c.is_ascii_digit());
    match end {
        Some(0) | None => jdk,
        Some(end) => &jdk[..end],
    }
}

/// The values that cells have on an axis, in order.
pub(super) fn values<'a>(cells: &[&'a CellResult], axis: Dimension) -> Vec<&'a str> {
    let mut values: Vec<&str> = cells.iter().map(|result| result.cell.get(axis)).collect();
    values.sort_unstable();
    values.dedup();
    values.sort_by(|a, b| in_order(axis, a, b));
    values
}

/// The axes on which cells differ.
pub(super) fn varied(cells: &[&CellResult]) -> Vec<Dimension> {
    let differs = |axis: Dimension| {
        let mut values = cells.iter().map(|result| result.cell.get(axis));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    Dimension::ALL
        .iter()
        .copied()
        .filter(|&axis| differs(axis))
        .collect()
}

/// A cell's name among others: its values on the axes that differ, or on all if none does.
pub(super) fn name(cell: &Cell, varied: &[Dimension]) -> String {
    if varied.is_empty() {
        return cell.to_string();
    }
    let values: Vec<&str> = varied.iter().map(|&axis| cell.get(axis)).collect();
    values.join(" ")
}

/// Numbers in names by their value, and intervals by their length.
pub(super) fn in_order(axis: Dimension, a: &str, b: &str) -> Ordering {
    let length = |text| {
        (axis == Dimension::Interval)
            .then(|| seconds(text))
            .flatten()
    };
    match (length(a), length(b)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => natural(a, b),
    }
}

fn seconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..at].trim().parse().ok()?;
    let unit = match &text[at..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(number * unit)
}

fn natural(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let digits = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit());
            text[..end.unwrap_or(text.len())].len()
        };
        let (one, other) = (digits(a), digits(b));
        let order = if one > 0 && other > 0 {
            let number = |text: &str, end: usize| text[..end].parse::<u64>().unwrap_or(u64::MAX);
            let order = number(a, one).cmp(&number(b, other));
            (a, b) = (&a[one..], &b[other..]);
            order
        } else {
            let (mut rest, mut others) = (a.chars(), b.chars());
            let (Some(c), Some(d)) = (rest.next(), others.next()) else {
                return a.len().cmp(&b.len());
            };
            (a, b) = (rest.as_str(), others.as_str());
            c.cmp(&d)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_intervals_have_their_own_order() {
        let mut jdks = ["25.0.3", "11.0.13.1", "17.0.9", "17.0.15", "17.0.9.2", "9"];
        jdks.sort_by(|a, b| in_order(Dimension::Jdk, a, b));
        let expected = ["9", "11.0.13.1", "17.0.9", "17.0.9.2", "17.0.15", "25.0.3"];
        assert_eq!(jdks, expected);
        let mut intervals = ["10ms", "100us", "1s", "1ms"];
        intervals.sort_by(|a, b| in_order(Dimension::Interval, a, b));
        assert_eq!(intervals, ["100us", "1ms", "10ms", "1s"]);
        assert_eq!(natural("a", ""), Ordering::Greater);
        assert_eq!(natural("g1", "g1"), Ordering::Equal);
    }

    #[test]
    fn lines_of_jdks() {
        let lines = ["21.0.8.2", "25", "17+35", "my-build"].map(line);
        assert_eq!(lines, ["21", "25", "17", "my-build"]);
    }
}
