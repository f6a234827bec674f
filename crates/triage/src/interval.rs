//! How sure a count is: intervals of 95 % for shares and rates.
//!
//! Shares are [`KOfN`] with Wilson's score interval; a rate (faults in so many walks, crashes in so many hours) has the
//! exact interval of Garwood (1936). A count of zero has no lower bound to speak of, so that it prints a one-sided upper
//! bound, the "rule of three".

use statrs::distribution::{ChiSquared, ContinuousCDF};
use walkfuzz_record::{Interval, KOfN};

/// Quantile 0.975 of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A share as text: `3 of 10 (30 %, 11 to 60 %)`, and for zero `0 of 1,000 (at most 0.30 %)`; all at 95 %.
#[must_use]
pub fn share_text(share: KOfN) -> String {
    let counts = format!("{} of {}", grouped(share.k), grouped(share.of));
    let percent = |x: f64| short(100.0 * x);
    let Interval { low, high } = share.interval();
    match share.share() {
        None => counts,
        Some(_) if share.k == 0 => format!("{counts} (at most {} %)", percent(high)),
        Some(value) => format!(
            "{counts} ({} %, {} to {} %)",
            percent(value),
            percent(low),
            percent(high)
        ),
    }
}

/// So many events in so much exposure (walks, seconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Events.
    pub events: u64,
    /// Exposure, in the caller's unit.
    pub exposure: f64,
}

impl Rate {
    /// Events per unit of exposure, or `None` without exposure.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.exposure > 0.0).then(|| self.events as f64 / self.exposure)
    }

    /// The exact two-sided interval of the rate, or `None` without exposure.
    #[must_use]
    pub fn interval(self) -> Option<Interval> {
        if self.exposure <= 0.0 {
            return None;
        }
        let k = self.events as f64;
        let low = if self.events == 0 {
            0.0
        } else {
            chi_squared(0.025, 2.0 * k) / 2.0
        };
        let high = chi_squared(0.975, 2.0 * k + 2.0) / 2.0;
        Some(Interval {
            low: low / self.exposure,
            high: high / self.exposure,
        })
    }

    /// The one-sided upper bound of the rate at 95 %, or `None` without exposure. For zero events it is 2.996 / exposure.
    #[must_use]
    pub fn upper_bound(self) -> Option<f64> {
        (self.exposure > 0.0)
            .then(|| chi_squared(0.95, 2.0 * self.events as f64 + 2.0) / 2.0 / self.exposure)
    }

    /// As text, per so many units: `27 in 17,000,000 walks (1.6 per million, 1.0 to 2.3)`, and for zero events
    /// `0 in 17,000,000 walks (at most 0.18 per million)`; all at 95 %.
    #[must_use]
    pub fn per(self, amount: f64, of: &str, unit: &str) -> String {
        let exposure = grouped(self.exposure.max(0.0).round() as u64);
        let events = grouped(self.events);
        match (self.rate(), self.interval(), self.upper_bound()) {
            (Some(_), _, Some(bound)) if self.events == 0 => {
                format!(
                    "{events} in {exposure} {unit} (at most {} {of})",
                    short(bound * amount)
                )
            }
            (Some(rate), Some(Interval { low, high }), _) => format!(
                "{events} in {exposure} {unit} ({} {of}, {} to {})",
                short(rate * amount),
                short(low * amount),
                short(high * amount)
            ),
            _ => format!("{events} in {exposure} {unit}"),
        }
    }
}

fn chi_squared(probability: f64, freedom: f64) -> f64 {
    // Above 10,000 the Wilson-Hilferty approximation is right to six digits, and searching for the exact one is slow.
    if freedom <= 10_000.0
        && let Ok(distribution) = ChiSquared::new(freedom)
    {
        return distribution.inverse_cdf(probability);
    }
    let z = if probability == 0.95 {
        1.644_853_626_951_472_7
    } else if probability < 0.5 {
        -Z
    } else {
        Z
    };
    let c = 2.0 / (9.0 * freedom);
    freedom * (1.0 - c + z * c.sqrt()).powi(3)
}

/// Two significant digits below 10, whole numbers above; `0.0018`, `1.6`, `42`, `1,234`.
fn short(value: f64) -> String {
    if value >= 9.95 {
        return grouped(value.round() as u64);
    }
    if value <= 0.0 {
        return "0".to_owned();
    }
    let digits = (1.0 - value.log10().floor()).clamp(1.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    // 0.996 rounds to 1.00, which has a digit too many.
    if text.trim_start_matches(['0', '.']).len() > 2 && digits > 1 {
        return format!("{value:.*}", digits - 1);
    }
    text
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
