//! Numbers for people: thousands apart, shares with their denominators and intervals.
//!
//! Contract: pure. Every report of walkfuzz writes its numbers this way.

use crate::summary::Share;

/// A count in at most four characters: what a table has no room for stands in the finding's own report.
#[must_use]
pub fn short(number: u64) -> String {
    let units = [
        (1_000_000_000_000, "T"),
        (1_000_000_000, "G"),
        (1_000_000, "M"),
        (1_000, "k"),
    ];
    let unit = units
        .iter()
        .find(|(unit, _)| number >= 10_000 && number >= *unit);
    unit.map_or_else(
        || number.to_string(),
        |(unit, name)| format!("{}{name}", number / unit),
    )
}

/// `k of n (share and interval)`.
#[must_use]
pub fn share(share: Share, unit: &str) -> String {
    if share.of == 0 {
        return "0 of 0".to_owned();
    }
    let Share { k, of, interval } = share;
    format!(
        "{} of {} ({:.2} {unit}, {:.2} to {:.2})",
        count(k),
        count(of),
        100.0 * k as f64 / of as f64,
        100.0 * interval.low,
        100.0 * interval.high,
    )
}

/// `k of n walks: so many per million`, and an upper bound where there was none.
#[must_use]
pub fn rate(share: Share) -> String {
    let Share { k, of, interval } = share;
    let walks = format!("{} of {} walks", count(k), count(of));
    if of == 0 {
        return walks;
    }
    let per_million = |share: f64| significant(share * 1e6);
    if k == 0 {
        return format!(
            "{walks}: under {} per million (95 %)",
            per_million(interval.high)
        );
    }
    format!(
        "{walks}: {} per million ({} to {})",
        per_million(k as f64 / of as f64),
        per_million(interval.low),
        per_million(interval.high),
    )
}

/// Thousands apart; from ten million on in units.
#[must_use]
pub fn count(number: u64) -> String {
    if number >= 10_000_000 {
        return compact(number as f64);
    }
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position != 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits and a unit.
#[must_use]
pub fn compact(number: f64) -> String {
    let units = [
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ];
    let unit = units.iter().find(|(unit, _)| number >= *unit);
    unit.map_or_else(
        || format!("{number:.0}"),
        |(unit, name)| format!("{:.2} {name}", number / unit),
    )
}

/// Two significant digits at least, never an exponent.
#[must_use]
pub fn significant(number: f64) -> String {
    if number >= 100.0 {
        count(number.round() as u64)
    } else if number >= 1.0 {
        format!("{number:.1}")
    } else {
        let zeros = if number > 0.0 {
            -number.log10().floor()
        } else {
            1.0
        };
        format!("{number:.*}", (zeros as usize + 1).min(12))
    }
}

/// A share in percent; `-` of nothing.
#[must_use]
pub fn percent(k: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        of => format!("{:.2} %", 100.0 * k as f64 / of as f64),
    }
}

/// A time in the unit that suits it.
#[must_use]
pub fn nanoseconds(number: u64) -> String {
    match number {
        0..10_000 => format!("{number} ns"),
        10_000..10_000_000 => format!("{:.1} us", number as f64 / 1e3),
        _ => format!("{:.1} ms", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let counts = [0, 999, 1_000, 9_999_999, 91_234_567, u64::MAX];
        assert_eq!(
            counts.map(count),
            ["0", "999", "1,000", "9,999,999", "91.23 M", "18.45 E"]
        );
        let rates = [0.0, 0.0321, 0.53, 3.0, 14.43, 1234.4];
        assert_eq!(
            rates.map(significant),
            ["0.00", "0.032", "0.53", "3.0", "14.4", "1,234"]
        );
        assert_eq!(percent(1, 0), "-");
        assert_eq!(nanoseconds(12_345), "12.3 us");
    }

    #[test]
    fn short_numbers_have_four_characters() {
        let counts = [0, 999, 9_999, 40_312, 999_999, 1_000_000, 12_345_678_901];
        assert_eq!(
            counts.map(short),
            ["0", "999", "9999", "40k", "999k", "1M", "12G"]
        );
    }
}
