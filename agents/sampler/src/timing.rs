//! How long handlers take beside the walks in them: a histogram that handlers fill where `timing=on` asks for it.
//!
//! Contract: [`Timing::note`] is signal-safe. What it costs itself is not in what it notes.

use std::sync::atomic::{AtomicU64, Ordering::*};

use serde::Serialize;

/// Ticks of a bucket.
const WIDTH: u64 = 8;
const BUCKETS: usize = 4096;

/// See the module.
pub(crate) struct Timing(Box<[AtomicU64; BUCKETS]>);

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct TimingSummary {
    /// Handlers.
    handlers: u64,
    median_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
}

/// The bucket that holds the smallest value which at least this share of all values does not exceed; `None` if there are none.
pub(crate) fn bucket_at(counts: &[u64], share: f64) -> Option<usize> {
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    })
}

impl Timing {
    pub(crate) fn new() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; BUCKETS]))
    }

    /// Counts a handler that took so many ticks, its walks not counted. The last bucket holds those that were preempted.
    #[inline]
    pub(crate) fn note(&self, ticks: u64) {
        let bucket = ((ticks / WIDTH) as usize).min(BUCKETS - 1);
        self.0[bucket].fetch_add(1, Relaxed);
    }

    /// `None` if nothing was noted. A bucket counts as its upper end.
    pub(crate) fn summary(&self, tick_hz: u64) -> Option<TimingSummary> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        let handlers: u64 = counts.iter().sum();
        let at = |share: f64| {
            let bucket = bucket_at(&counts, share)?;
            Some(((bucket as u64 + 1) * WIDTH) as f64 * 1e9 / tick_hz as f64)
        };
        if handlers == 0 || tick_hz == 0 {
            return None;
        }
        Some(TimingSummary {
            handlers,
            median_ns: at(0.5)?,
            p90_ns: at(0.9)?,
            p99_ns: at(0.99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_ends_of_buckets() {
        let timing = Timing::new();
        assert_eq!(timing.summary(1_000_000_000), None);
        for ticks in 0..1000 {
            timing.note(ticks);
        }
        timing.note(u64::MAX);
        let summary = timing.summary(2_000_000_000).unwrap();
        assert_eq!(summary.handlers, 1001);
        assert_eq!(summary.median_ns, 504.0 / 2.0);
        assert_eq!(summary.p90_ns, 904.0 / 2.0);
        assert_eq!(summary.p99_ns, 992.0 / 2.0);
    }
}
