//! Outcomes, depth and latency of many walks, and their sum over lanes and processes.
//!
//! Contract: pure; sums saturate, so that the words of a damaged record cannot overflow them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::buckets::{DepthBuckets, LatencyBuckets};
use crate::codes::Code;
use crate::layout::{
    self, SLOT_BREACH, SLOT_CODE_0, SLOT_FAULT, SLOT_FRAMES, SLOT_HANG, SLOT_OTHER_CODE,
    SLOT_WRONG_FRAMES,
};

/// Counts of one set of walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    codes: Vec<u64>,
    depth: Vec<u64>,
    latency: Vec<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            codes: vec![0; layout::CODE_SLOTS],
            depth: vec![0; DepthBuckets::COUNT],
            latency: vec![0; LatencyBuckets::COUNT],
        }
    }
}

impl Tally {
    pub(crate) fn read(words: &layout::Tally<u64>) -> Self {
        Self {
            codes: words.codes.to_vec(),
            depth: words.depth.to_vec(),
            latency: words.latency.to_vec(),
        }
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        let pairs = [
            (&mut self.codes, &other.codes),
            (&mut self.depth, &other.depth),
            (&mut self.latency, &other.latency),
        ];
        for (to, from) in pairs {
            for (to, from) in to.iter_mut().zip(from) {
                *to = to.saturating_add(*from);
            }
        }
    }

    /// Whether there is no walk in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.walks() == 0
    }

    /// Walks, whatever their outcome.
    #[must_use]
    pub fn walks(&self) -> u64 {
        self.codes.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Walks that gave frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.slot(SLOT_FRAMES)
    }

    /// Walks of each code that came up (0 to -32).
    #[must_use]
    pub fn codes(&self) -> BTreeMap<Code, u64> {
        let codes =
            (0..=32).map(|n| (Code(-n), self.slot(SLOT_CODE_0 + n.unsigned_abs() as usize)));
        codes.filter(|&(_, count)| count != 0).collect()
    }

    /// Walks with a code below -32.
    #[must_use]
    pub fn other_codes(&self) -> u64 {
        self.slot(SLOT_OTHER_CODE)
    }

    /// Walks that ended in a fault.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.slot(SLOT_FAULT)
    }

    /// Walks that an alarm ended.
    #[must_use]
    pub fn hangs(&self) -> u64 {
        self.slot(SLOT_HANG)
    }

    /// Walks whose frames were wrong.
    #[must_use]
    pub fn wrong_frames(&self) -> u64 {
        self.slot(SLOT_WRONG_FRAMES)
    }

    /// Walks that broke the walker's contract.
    #[must_use]
    pub fn breaches(&self) -> u64 {
        self.slot(SLOT_BREACH)
    }

    fn slot(&self, slot: usize) -> u64 {
        self.codes.get(slot).copied().unwrap_or(0)
    }

    /// Frames per walk that gave frames.
    #[must_use]
    pub fn depth_histogram(&self) -> Histogram<u64> {
        histogram(&self.depth, |index| DepthBuckets::bounds(index).0)
    }

    /// Nanoseconds per walk that gave frames or a code, with `tick_hz` ticks a second.
    ///
    /// A bucket's count stands at its middle. Buckets stay apart as long as they are a nanosecond wide: always for nanosecond ticks, and
    /// from 64 ticks on for 4 GHz; the total is exact everywhere.
    #[must_use]
    pub fn latency_histogram(&self, tick_hz: u64) -> Histogram<u64> {
        let nanoseconds = 1e9 / tick_hz.max(1) as f64;
        histogram(&self.latency, |index| {
            let (low, high) = LatencyBuckets::bounds(index);
            ((low + (high - low) / 2) as f64 * nanoseconds) as u64
        })
    }
}

/// Three significant digits tell all of our buckets apart.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    // Cannot fail: 1, 2 and 3 are legal, and a histogram of one counter always can be made.
    Histogram::new(3).unwrap_or_else(|_| unreachable!("three significant digits are legal"))
}

fn histogram(counts: &[u64], value: impl Fn(usize) -> u64) -> Histogram<u64> {
    let mut histogram = empty_histogram();
    for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count != 0) {
        // It resizes itself; a value of u32 range always finds room.
        let _ = histogram.record_n(value(index), count);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_bucket_once() -> Tally {
        let mut tally = Tally::default();
        for words in [&mut tally.depth, &mut tally.latency] {
            for (index, word) in words.iter_mut().enumerate() {
                *word = index as u64 + 1;
            }
        }
        tally
    }

    #[test]
    fn hdrhistogram_keeps_every_bucket_apart() {
        let tally = every_bucket_once();
        let depth = tally.depth_histogram();
        for index in 0..DepthBuckets::COUNT {
            let (low, high) = DepthBuckets::bounds(index);
            assert_eq!(depth.count_between(low, high), index as u64 + 1);
        }
        let latency = tally.latency_histogram(1_000_000_000);
        for index in 0..LatencyBuckets::COUNT {
            let (low, high) = LatencyBuckets::bounds(index);
            let middle = low + (high - low) / 2;
            assert_eq!(latency.count_at(middle), index as u64 + 1, "{low}..={high}");
        }
    }

    #[test]
    fn fast_ticks_stay_apart_from_64_on() {
        let latency = every_bucket_once().latency_histogram(4_000_000_000);
        for index in 0..LatencyBuckets::COUNT {
            let (low, high) = LatencyBuckets::bounds(index);
            if low >= 64 {
                let middle = ((low + (high - low) / 2) as f64 / 4.0) as u64;
                assert_eq!(latency.count_at(middle), index as u64 + 1, "{low}..={high}");
            }
        }
        let total: u64 = (1..=LatencyBuckets::COUNT as u64).sum();
        assert_eq!(latency.len(), total);
    }

    #[test]
    fn sums_of_nonsense_saturate() {
        let mut tally = Tally::default();
        tally.codes.fill(u64::MAX);
        tally.depth.fill(u64::MAX);
        let other = tally.clone();
        tally.add(&other);
        assert_eq!(tally.walks(), u64::MAX);
        assert_eq!(tally.depth_histogram().len(), u64::MAX);
    }
}
