//! How long something takes, by powers of two and sixteen steps in each.
//!
//! Contract: [`Spread::note`] is signal-safe, from any thread.

use std::sync::atomic::{AtomicU64, Ordering::*};

use serde::Serialize;
use walkfuzz_record::buckets::{LATENCY_BUCKETS, LatencyBuckets};

use crate::timing::bucket_at;

/// See the module.
#[derive(Debug)]
pub(crate) struct Spread(Box<[AtomicU64; LATENCY_BUCKETS]>);

/// A quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Quantile {
    ns: f64,
    /// It lies where the histogram ends: it may be longer.
    at_least: bool,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SpreadSummary {
    times: u64,
    median: Quantile,
    p90: Quantile,
    p99: Quantile,
}

impl Spread {
    pub(crate) fn new() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; LATENCY_BUCKETS]))
    }

    /// Counts something that took so many ticks.
    #[inline]
    pub(crate) fn note(&self, ticks: u64) {
        let index = LatencyBuckets::index(u32::try_from(ticks).unwrap_or(u32::MAX));
        self.0[index].fetch_add(1, Relaxed);
    }

    /// `None` if nothing was noted. A bucket counts as its upper end, the last one as its lower.
    pub(crate) fn summary(&self, tick_hz: u64) -> Option<SpreadSummary> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        let times: u64 = counts.iter().sum();
        let at = |share: f64| {
            let bucket = bucket_at(&counts, share)?;
            let at_least = bucket + 1 == LATENCY_BUCKETS;
            let (low, high) = LatencyBuckets::bounds(bucket);
            let ticks = if at_least { low } else { high + 1 };
            let ns = ticks as f64 * 1e9 / tick_hz as f64;
            Some(Quantile { ns, at_least })
        };
        if times == 0 || tick_hz == 0 {
            return None;
        }
        Some(SpreadSummary {
            times,
            median: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_at_the_top_says_at_least() {
        let spread = Spread::new();
        assert_eq!(spread.summary(1_000_000_000), None);
        for ticks in [10, 10, 10, 1000] {
            spread.note(ticks);
        }
        let summary = spread.summary(1_000_000_000).unwrap();
        assert_eq!(summary.times, 4);
        assert_eq!((summary.median.ns, summary.median.at_least), (11.0, false));
        assert_eq!((summary.p99.ns, summary.p99.at_least), (1024.0, false));
        spread.note(u64::MAX);
        let summary = spread.summary(2_000_000_000).unwrap();
        assert!(summary.p99.at_least || summary.p90.at_least);
        assert!(summary.p99.ns < f64::from(u32::MAX) / 2.0, "{summary:?}");
    }
}
