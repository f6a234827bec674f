//! Counts with their denominator and interval: no number stands alone in a report.
//!
//! Contract: pure.

use serde::{Deserialize, Serialize};

/// So many of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KOfN {
    /// How often it happened.
    pub k: u64,
    /// How often it was tried.
    pub of: u64,
}

impl KOfN {
    /// `k` of `of`.
    #[must_use]
    pub const fn new(k: u64, of: u64) -> Self {
        Self { k, of }
    }

    /// The share, if anything was tried.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.of != 0).then(|| self.k as f64 / self.of as f64)
    }

    /// The 95 % interval of the share. See [`Interval`].
    #[must_use]
    pub fn interval(self) -> Interval {
        Interval::of(self)
    }
}

/// A 95 % interval of a share, 0 to 1.
///
/// Wilson's score interval; for 0 of n its upper end is the exact one-sided bound `1 - 0.05^(1/n)` (the "rule of three": 3 / n), because
/// zero faults is what a report most often has to be honest about.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of `count`'s share; 0 to 1 if nothing was tried.
    #[must_use]
    pub fn of(count: KOfN) -> Self {
        let KOfN { k, of } = count;
        if of == 0 {
            return Self {
                low: 0.0,
                high: 1.0,
            };
        }
        let n = of as f64;
        if k == 0 {
            return Self {
                low: 0.0,
                high: -(0.05_f64.ln() / n).exp_m1(),
            };
        }
        const Z: f64 = 1.959_963_984_540_054;
        let share = k.min(of) as f64 / n;
        let denominator = 1.0 + Z * Z / n;
        let centre = share + Z * Z / (2.0 * n);
        let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let high = if k >= of {
            1.0
        } else {
            ((centre + half) / denominator).min(1.0)
        };
        Self {
            low: ((centre - half) / denominator).max(0.0),
            high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_by_the_book() {
        // Newcombe 1998, table I: 81 of 263 and 1 of 29.
        let interval = KOfN::new(81, 263).interval();
        assert!((interval.low - 0.2553).abs() < 5e-5, "{interval:?}");
        assert!((interval.high - 0.3662).abs() < 5e-5, "{interval:?}");
        let interval = KOfN::new(1, 29).interval();
        assert!((interval.low - 0.0061).abs() < 5e-5, "{interval:?}");
        assert!((interval.high - 0.1718).abs() < 5e-5, "{interval:?}");
    }

    #[test]
    fn none_of_many_is_the_rule_of_three() {
        let high = KOfN::new(0, 1_000_000).interval().high;
        assert!((high * 1e6 - 2.9957).abs() < 1e-3, "{high}");
        let once = KOfN::new(0, 1).interval().high;
        assert!((once - 0.95).abs() < 1e-12, "{once}");
    }

    #[test]
    fn edges() {
        assert_eq!(KOfN::new(0, 0).interval().high, 1.0);
        assert_eq!(KOfN::new(0, 0).share(), None);
        assert_eq!(KOfN::new(3, 3).interval().high, 1.0);
        let interval = KOfN::new(u64::MAX, 1).interval();
        assert!(interval.low <= interval.high);
    }
}
