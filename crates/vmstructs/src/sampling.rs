//! Choosing a bounded number of addresses, the same ones for the same candidates.

use crate::span::Span;

/// Sorts, removes doubles and keeps at most `limit`, evenly spread.
pub(crate) fn bounded(mut candidates: Vec<u64>, limit: usize) -> Vec<u64> {
    candidates.sort_unstable();
    candidates.dedup();
    let count = candidates.len();
    if count <= limit {
        return candidates;
    }
    (0..limit)
        .filter_map(|index| candidates.get(index * count / limit).copied())
        .collect()
}

/// At most `limit` elements, evenly spread.
pub(crate) fn every_nth<T>(all: &[T], limit: usize) -> impl Iterator<Item = &T> {
    let count = all.len();
    let taken = count.min(limit);
    (0..taken).filter_map(move |index| all.get(index * count / taken.max(1)))
}

/// The first, `inner` evenly spread and the last address of a range, each a multiple of `alignment`.
pub(crate) fn within(span: Span, inner: u64, alignment: u64) -> impl Iterator<Item = u64> {
    let length = span.length();
    let steps = inner + 1;
    (0..=steps)
        .map(move |step| {
            let offset = match step {
                step if step == steps => length.saturating_sub(1),
                step => (length / steps) * step,
            };
            (span.start.0 + offset) / alignment * alignment
        })
        .filter(move |address| span.contains(walkfuzz_context::Address(*address)))
}

/// One address inside a range that looks random but is always the same.
pub(crate) fn anywhere(span: Span, salt: u64) -> u64 {
    // The finaliser of splitmix64.
    let mut mixed = span.start.0 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    span.start.0 + mixed % span.length().max(1)
}

#[cfg(test)]
mod tests {
    use walkfuzz_context::Address;

    use super::*;

    #[test]
    fn bounded_lists_are_sorted_without_doubles_and_spread() {
        assert_eq!(bounded(vec![3, 1, 3, 2], 10), [1, 2, 3]);
        let many = bounded((0..1000).rev().collect(), 10);
        assert_eq!(many, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[test]
    fn chosen_addresses_lie_inside() {
        let span = Span::new(Address(0x1001), Address(0x2000));
        let chosen: Vec<u64> = within(span, 3, 8).collect();
        assert!(
            chosen
                .iter()
                .all(|address| span.contains(Address(*address)) && address % 8 == 0),
            "{chosen:x?}"
        );
        assert!(chosen.len() >= 4);
        for salt in 0..100 {
            assert!(span.contains(Address(anywhere(span, salt))));
        }
        assert_eq!(
            every_nth(&[0, 1, 2, 3, 4, 5], 3).collect::<Vec<_>>(),
            [&0, &2, &4]
        );
        assert_eq!(every_nth::<u8>(&[], 3).count(), 0);
    }
}
