//! The numbers of HotSpot's compressed streams.
//!
//! UNSIGNED5 (utilities/unsigned5.hpp, before 20 code/compressedStream.cpp): up to five bytes of 6 bits each above the first; a byte below
//! a limit is the last. Since 20 (JDK-8292758) no byte is zero: each is one more than before, and the limit one less.

use walkfuzz_context::Address;
use walkfuzz_vmstructs::{Memory, Span};

/// Bits that each further byte adds.
const BITS: u32 = 6;
/// No number has more bytes.
const BYTES: usize = 5;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// What is added to every byte.
    excluded: u32,
}

impl Encoding {
    /// Of that feature release.
    #[must_use]
    pub const fn of(feature: u32) -> Self {
        Self {
            excluded: if feature >= 20 { 1 } else { 0 },
        }
    }

    /// Bytes below `excluded + low` are the last of their number.
    const fn low(self) -> u32 {
        256 - self.excluded - (1 << BITS)
    }

    /// The first number in `bytes`, and how many bytes it takes.
    #[inline]
    #[must_use]
    pub fn decode(self, bytes: &[u8]) -> Option<(u32, usize)> {
        let mut sum = 0_u32;
        for (index, byte) in bytes.iter().take(BYTES).enumerate() {
            // Only a zero byte, which the newer encoding never writes, is less than what is excluded.
            let value = u32::from(*byte).checked_sub(self.excluded)?;
            sum = sum.wrapping_add(value << (BITS * index as u32));
            if value < self.low() || index + 1 == BYTES {
                return Some((sum, index + 1));
            }
        }
        None
    }

    /// `N` numbers from `at`, which must lie in `within`.
    #[inline]
    pub(crate) fn read<const N: usize, M: Memory + ?Sized>(
        self,
        memory: &M,
        at: Address,
        within: &Span,
    ) -> Option<[u32; N]> {
        let mut bytes = [0; 24];
        let left = within.end.0.checked_sub(at.0)?;
        let length = bytes.len().min(N * BYTES).min(usize::try_from(left).ok()?);
        let mut bytes = bytes.get_mut(..length)?;
        if !within.contains(at) {
            return None;
        }
        memory.read(at, bytes).ok()?;
        let mut numbers = [0; N];
        for number in &mut numbers {
            let (value, taken) = self.decode(bytes)?;
            *number = value;
            bytes = bytes.get_mut(taken..)?;
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writer that the format's description gives.
    fn encode(encoding: Encoding, mut value: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            if value < encoding.low() || bytes.len() + 1 == BYTES {
                bytes.push((value + encoding.excluded) as u8);
                return bytes;
            }
            value -= encoding.low();
            bytes.push((encoding.low() + encoding.excluded + value % 64) as u8);
            value /= 64;
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for feature in [11, 17, 21, 25] {
            let encoding = Encoding::of(feature);
            let around = (0..32).flat_map(|bit| {
                let power = 1_u32 << bit;
                [power - 1, power, power.wrapping_add(190), power + power / 3]
            });
            for value in around.chain([u32::MAX, u32::MAX - 1]) {
                let mut bytes = encode(encoding, value);
                let length = bytes.len();
                assert!(feature < 20 || !bytes.contains(&0));
                bytes.push(0x77);
                assert_eq!(encoding.decode(&bytes), Some((value, length)), "{feature}");
                assert_eq!(encoding.decode(&bytes[..length - 1]), None);
            }
        }
    }

    #[test]
    fn the_encodings_differ() {
        assert_eq!(Encoding::of(17).decode(&[1]), Some((1, 1)));
        assert_eq!(Encoding::of(21).decode(&[1]), Some((0, 1)));
        assert_eq!(Encoding::of(17).decode(&[0]), Some((0, 1)));
        assert_eq!(Encoding::of(21).decode(&[0]), None);
    }
}
