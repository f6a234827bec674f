//! Log-linear buckets: constant-time, allocation-free, and finer than what is read off a histogram.
//!
//! Values below `2^BITS` have a bucket each; every further power of two is divided into `2^BITS` buckets, so a bucket is at
//! most `2^-BITS` of its value wide. An hdrhistogram with three significant digits keeps every bucket apart from its
//! neighbours, which makes the conversion lossless.
//!
//! Contract: [`Buckets::index`] is signal-safe and never gives an index outside the histogram.

/// Buckets for values up to `2^MAX_BITS - 1`, `2^BITS` to the power of two; greater values count as the greatest.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<const BITS: u32, const MAX_BITS: u32>;

/// Depth in frames: exact up to 31, then 3 %; 4095 is the greatest.
pub type DepthBuckets = Buckets<5, 12>;
/// Latency in ticks: exact up to 15, then 6 %; all of `u32`.
pub type LatencyBuckets = Buckets<4, 32>;

/// Words of a depth histogram.
pub const DEPTH_BUCKETS: usize = DepthBuckets::COUNT;
/// Words of a latency histogram.
pub const LATENCY_BUCKETS: usize = LatencyBuckets::COUNT;

impl<const BITS: u32, const MAX_BITS: u32> Buckets<BITS, MAX_BITS> {
    /// How many buckets there are.
    pub const COUNT: usize = ((MAX_BITS - BITS + 1) as usize) << BITS;
    const MAX: u32 = u32::MAX >> (32 - MAX_BITS);

    /// The bucket of `value`; always less than [`Self::COUNT`].
    #[inline]
    #[must_use]
    pub const fn index(value: u32) -> usize {
        let value = if value > Self::MAX { Self::MAX } else { value };
        // The lowest 2^BITS values share the first power of two's shift of 0.
        let exponent = 31 - (value | (1 << BITS)).leading_zeros();
        let shift = exponent - BITS;
        ((shift as usize) << BITS) + (value >> shift) as usize
    }

    /// The lowest and the highest value of a bucket, both inclusive.
    #[must_use]
    pub const fn bounds(index: usize) -> (u64, u64) {
        let group = index >> BITS;
        if group == 0 {
            return (index as u64, index as u64);
        }
        let shift = group - 1;
        let low = ((index - (shift << BITS)) as u64) << shift;
        (low, low + (1 << shift) - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tile<const B: u32, const M: u32>() {
        let mut next = 0;
        for index in 0..Buckets::<B, M>::COUNT {
            let (low, high) = Buckets::<B, M>::bounds(index);
            assert_eq!(low, next, "bucket {index} begins where the last one ends");
            assert_eq!(Buckets::<B, M>::index(low as u32), index);
            assert_eq!(Buckets::<B, M>::index(high as u32), index);
            next = high + 1;
        }
        assert_eq!(next, 1 << M);
    }

    #[test]
    fn buckets_tile_the_range() {
        tile::<5, 12>();
        tile::<4, 32>();
        assert_eq!((DEPTH_BUCKETS, LATENCY_BUCKETS), (256, 464));
    }

    #[test]
    fn depths_beyond_the_range_count_as_the_greatest() {
        assert_eq!(DepthBuckets::index(u32::MAX), DEPTH_BUCKETS - 1);
        assert_eq!(DepthBuckets::index(2048), DepthBuckets::index(2050));
        assert_ne!(DepthBuckets::index(2047), DepthBuckets::index(2048));
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values(value: u32) {
            let (low, high) = LatencyBuckets::bounds(LatencyBuckets::index(value));
            prop_assert!(low <= u64::from(value) && u64::from(value) <= high);
            prop_assert!((high - low) * 16 <= low);
        }
    }
}
