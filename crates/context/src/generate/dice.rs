//! Where the generators' random numbers come from.

use arbitrary::Unstructured;

/// A source of random numbers: a generator seeded by one number, or a fuzzer's bytes.
pub trait Dice {
    /// A random number.
    fn word(&mut self) -> u32;

    /// A number below `bound` (zero, if that is zero).
    #[inline]
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(bound)) >> 32) as u32
    }

    /// An index of a slice of that length (zero, if it is empty).
    #[inline]
    fn index(&mut self, len: usize) -> usize {
        self.below(u32::try_from(len).unwrap_or(u32::MAX)) as usize
    }

    /// True `times` in `of`.
    #[inline]
    fn chance(&mut self, times: u32, of: u32) -> bool {
        self.below(of) < times
    }

    /// A number from `-reach` to `reach`, without zero unless `reach` is zero.
    #[inline]
    fn around_zero(&mut self, reach: u32) -> i32 {
        let reach = reach.min(i32::MAX as u32 / 2);
        let drawn = self.below(2 * reach) as i32 - reach as i32;
        if drawn >= 0 && reach > 0 {
            drawn + 1
        } else {
            drawn
        }
    }

    /// One of the items, each as likely as its weight; `None` if there is none.
    #[inline]
    fn weighted<T: Copy>(&mut self, items: &[(u32, T)]) -> Option<T> {
        let total: u32 = items.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.below(total);
        for &(weight, item) in items {
            if drawn < weight {
                return Some(item);
            }
            drawn -= weight;
        }
        None
    }
}

/// A small fast generator (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). The
/// same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with that seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Dice for Rng {
    #[inline]
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 32) as u32
    }
}

impl Dice for Unstructured<'_> {
    /// Zero once the bytes are used up.
    fn word(&mut self) -> u32 {
        self.arbitrary().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.index(5)] = true;
            let drawn = rng.around_zero(3);
            assert!(drawn != 0 && (-3..=3).contains(&drawn));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.around_zero(0), 0);
        assert_eq!(rng.weighted::<u8>(&[]), None);
    }

    #[test]
    fn weights_are_kept() {
        let mut rng = Rng::new(2);
        let heavy = (0..10_000)
            .filter(|_| rng.weighted(&[(1, 'a'), (3, 'b')]) == Some('b'))
            .count();
        assert!((7_000..8_000).contains(&heavy), "{heavy} of 10000");
    }
}
