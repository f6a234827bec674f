//! Feedback domains: what a fuzzer may count as progress when the code under test is not instrumented.
//!
//! libFuzzer reads the counters from the section `__libfuzzer_extra_counters` (FuzzerExtraCounters.cpp) and AFL from its map;
//! both see the same domains. A counter is raised per walk, so that libFuzzer's buckets (1, 2, 3, 4-7, ...) count walks of one
//! input.
//!
//! Contract: [`Feedback::mark`] is signal-safe and costs a few nanoseconds; one writer at a time.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a counter stands for. Each domain owns its own slice of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// (walker generation, code).
    Code,
    /// Number of frames, in steps that widen.
    Depth,
    /// Which methods stand on top.
    TopMethod,
    /// Kind of code at the pc, with what became of the walk.
    BlobKind,
    /// The SafeFetch faults of one walk.
    NearMiss,
    /// Where a walk faulted.
    FaultSite,
    /// Which basic blocks of the walk code a walk reached for the first time: see [`Feedback::mark_block`].
    Block,
}

impl Domain {
    /// Every domain.
    pub const ALL: [Domain; 7] = [
        Domain::Code,
        Domain::Depth,
        Domain::TopMethod,
        Domain::BlobKind,
        Domain::NearMiss,
        Domain::FaultSite,
        Domain::Block,
    ];

    /// First counter and number of counters (a power of two).
    const fn slice(self) -> (usize, usize) {
        match self {
            Domain::Code => (0, 128),
            Domain::Depth => (128, 64),
            Domain::NearMiss => (192, 64),
            Domain::BlobKind => (256, 256),
            Domain::TopMethod => (512, 512),
            Domain::FaultSite => (1024, 512),
            Domain::Block => (1536, 1024),
        }
    }
}

/// How many counters there are. More would make libFuzzer's scan of each input slower.
pub const COUNTERS: usize = 2560;

#[unsafe(link_section = "__libfuzzer_extra_counters")]
static EXTRA_COUNTERS: [AtomicU8; COUNTERS] = [const { AtomicU8::new(0) }; COUNTERS];

/// A set of counters that a fuzzer reads.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    counters: &'static [AtomicU8],
}

impl Feedback {
    /// libFuzzer's extra counters. Also the place to count where no fuzzer reads.
    #[must_use]
    pub fn extra_counters() -> Self {
        Self {
            counters: &EXTRA_COUNTERS,
        }
    }

    /// Counters in somebody's map, AFL's for instance.
    ///
    /// # Safety
    /// `map` must be valid for `length` bytes for the rest of the process, and written by this process alone.
    #[must_use]
    pub unsafe fn in_map(map: *mut u8, length: usize) -> Self {
        let length = length.min(COUNTERS);
        // SAFETY: the caller vouches for the memory; AtomicU8 has the layout of u8.
        let counters = unsafe { std::slice::from_raw_parts(map.cast::<AtomicU8>(), length) };
        Self { counters }
    }

    /// The number of the counter of `key` in `domain`, below [`COUNTERS`].
    #[inline]
    #[must_use]
    pub const fn index(domain: Domain, key: u64) -> usize {
        let (first, length) = domain.slice();
        first + (key as usize & (length - 1))
    }

    /// Raises the counter of `key` in `domain`. Keys are folded into the domain's counters.
    #[inline]
    pub fn mark(&self, domain: Domain, key: u64) {
        if let Some(counter) = self.counters.get(Self::index(domain, key)) {
            counter.store(
                counter.load(Ordering::Relaxed).saturating_add(1),
                Ordering::Relaxed,
            );
        }
    }

    /// Marks the block with this number. Unlike other counters it is set, not raised: a fuzzer sorts a counter's value into one of
    /// eight buckets, and each bucket is a feature of its own, so that eight blocks share a counter and stay apart.
    #[inline]
    pub fn mark_block(&self, block: u32) {
        /// The least value of each bucket of libFuzzer (CounterToFeature, FuzzerTracePC.h) and AFL.
        const BUCKETS: [u8; 8] = [1, 2, 3, 4, 8, 16, 32, 128];
        let (first, length) = Domain::Block.slice();
        let block = block as usize;
        let value = BUCKETS[(block / length) % BUCKETS.len()];
        if let Some(counter) = self.counters.get(first + block % length) {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// How many counters of `domain` are not zero.
    #[must_use]
    pub fn marked(&self, domain: Domain) -> usize {
        let (first, length) = domain.slice();
        self.counters
            .iter()
            .skip(first)
            .take(length)
            .filter(|counter| counter.load(Ordering::Relaxed) != 0)
            .count()
    }
}

/// Spreads a key over its bits, so that folding it keeps neighbours apart (the finaliser of splitmix64).
#[inline]
#[must_use]
pub fn spread(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// The step that a frame count belongs to: exact to 16, then four steps to each doubling.
#[inline]
#[must_use]
pub fn depth_step(frames: u32) -> u64 {
    if frames < 16 {
        return u64::from(frames);
    }
    let doubling = 31 - frames.leading_zeros();
    let quarter = (frames >> (doubling - 2)) & 3;
    u64::from(16 + (doubling - 4) * 4 + quarter).min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_do_not_overlap() {
        let mut owners = [None; COUNTERS];
        for domain in Domain::ALL {
            let (first, length) = domain.slice();
            assert!(length.is_power_of_two());
            for owner in &mut owners[first..first + length] {
                assert_eq!(owner.replace(domain), None);
            }
        }
        assert!(
            owners.iter().all(Option::is_some),
            "a counter that nobody owns is scanned for nothing"
        );
    }

    #[test]
    fn marks_saturate_and_stay_in_their_domain() {
        let memory: &'static mut [u8] = Box::leak(vec![0_u8; COUNTERS].into_boxed_slice());
        // SAFETY: leaked memory, used here only.
        let feedback = unsafe { Feedback::in_map(memory.as_mut_ptr(), memory.len()) };
        for _ in 0..1000 {
            feedback.mark(Domain::FaultSite, u64::MAX);
        }
        assert_eq!(feedback.marked(Domain::FaultSite), 1);
        assert!(
            Domain::ALL
                .iter()
                .filter(|d| **d != Domain::FaultSite)
                .all(|d| feedback.marked(*d) == 0)
        );
        let (first, length) = Domain::FaultSite.slice();
        assert_eq!(
            feedback.counters[first + length - 1].load(Ordering::Relaxed),
            255
        );
    }

    #[test]
    fn blocks_are_features_of_their_own() {
        let memory: &'static mut [u8] = Box::leak(vec![0_u8; COUNTERS].into_boxed_slice());
        // SAFETY: leaked memory, used here only.
        let feedback = unsafe { Feedback::in_map(memory.as_mut_ptr(), memory.len()) };
        // libFuzzer's CounterToFeature.
        let bucket = |value: u8| match value {
            128.. => 7,
            32.. => 6,
            16.. => 5,
            8.. => 4,
            4.. => 3,
            value => value - 1,
        };
        let mut features = std::collections::BTreeSet::new();
        for block in 0..8_192 {
            feedback.mark_block(block);
            let (first, length) = Domain::Block.slice();
            let at = first + block as usize % length;
            assert!(features.insert((at, bucket(feedback.counters[at].load(Ordering::Relaxed)))));
        }
        assert_eq!(feedback.marked(Domain::Block), 1024);
        assert_eq!(feedback.marked(Domain::FaultSite), 0);
        feedback.mark_block(u32::MAX);
    }

    #[test]
    fn depth_steps_rise() {
        let mut last = 0;
        for frames in 0..5000 {
            let step = depth_step(frames);
            assert!(step >= last && step < 64, "{frames}");
            last = step;
        }
        assert_ne!(depth_step(15), depth_step(16));
        assert_ne!(depth_step(16), depth_step(20));
    }
}
