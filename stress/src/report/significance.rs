//! Whether two counts differ by more than chance, and what becomes of that where many are compared.
//!
//! Contract: pure.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};
use walkfuzz_record::KOfN;

/// The false discovery rate, and the level of each single statement.
pub(super) const LEVEL: f64 = 0.05;

/// How likely two rates of rare events lie this far apart if they are one: two-sided, conditional on how many events there are in all.
///
/// Given the total, the events of the second run are binomial with the share of its trials (Przyborowski and Wilenski 1940): Fisher's exact test
/// where events are rare, and exact for however many walks. 1 where nothing happened.
pub(super) fn rates_differ(before: KOfN, after: KOfN) -> f64 {
    let (total, trials) = (before.k + after.k, before.of + after.of);
    if total == 0 || before.of == 0 || after.of == 0 {
        return 1.0;
    }
    let Ok(chance) = Binomial::new(after.of as f64 / trials as f64, total) else {
        return 1.0;
    };
    let at_most = chance.cdf(after.k);
    let at_least = match after.k {
        0 => 1.0,
        k => chance.sf(k - 1),
    };
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// How many standard errors two shares lie apart: the two-proportion test with pooled variance. 0 where it cannot tell.
pub(super) fn apart(before: KOfN, after: KOfN) -> f64 {
    let (Some(one), Some(other)) = (before.share(), after.share()) else {
        return 0.0;
    };
    let pooled = (before.k + after.k) as f64 / (before.of + after.of) as f64;
    let variance = pooled * (1.0 - pooled) * (1.0 / before.of as f64 + 1.0 / after.of as f64);
    if variance <= 0.0 {
        return 0.0;
    }
    (other - one) / variance.sqrt()
}

/// By how much distances of many pairs are too large, as walks of one cell depend on each other: the ratio of their median to that of pure chance,
/// at least 1 (Devlin and Roeder 1999, "genomic control"). Few pairs tell nothing.
pub(super) fn inflation(distances: &[f64]) -> f64 {
    const FEW: usize = 8;
    // Of the absolute value of a standard normal variable.
    const MEDIAN: f64 = 0.674_489_750_196_081_7;
    let mut sizes: Vec<f64> = distances.iter().map(|z| z.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    match sizes.get(sizes.len() / 2) {
        Some(median) if sizes.len() >= FEW => (median / MEDIAN).max(1.0),
        _ => 1.0,
    }
}

/// How likely a distance of so many standard errors is by chance, either way.
pub(super) fn two_sided(z: f64) -> f64 {
    Normal::new(0.0, 1.0).map_or(1.0, |normal| (2.0 * normal.sf(z.abs())).min(1.0))
}

/// How likely so uneven a split is if rising and falling are equally likely: the sign test.
pub(super) fn sign_test(rose: u64, fell: u64) -> f64 {
    rates_differ(KOfN::new(rose, 1), KOfN::new(fell, 1))
}

/// Benjamini and Hochberg's adjusted values, in the order given: where one is at most 0.05, at most one in twenty of all such is chance.
pub(super) fn adjusted(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let mut adjusted = vec![1.0; values.len()];
    let mut least: f64 = 1.0;
    for (above, &at) in order.iter().enumerate() {
        let rank = values.len() - above;
        least = least.min(values[at] * values.len() as f64 / rank as f64);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-6 * expected.max(1e-3),
            "{found} is not {expected}"
        );
    }

    #[test]
    fn rates_by_hand() {
        // Ten events, all in one of two equal runs: 2 / 2^10.
        let n = 1_000_000;
        near(
            rates_differ(KOfN::new(0, n), KOfN::new(10, n)),
            2.0 / 1024.0,
        );
        near(
            rates_differ(KOfN::new(10, n), KOfN::new(0, n)),
            2.0 / 1024.0,
        );
        // Three events in a run of a quarter of the walks: 2 / 4^3.
        near(
            rates_differ(KOfN::new(0, 3 * n), KOfN::new(3, n)),
            2.0 / 64.0,
        );
        near(rates_differ(KOfN::new(4, n), KOfN::new(4, n)), 1.0);
        near(rates_differ(KOfN::new(0, n), KOfN::new(0, n)), 1.0);
        near(rates_differ(KOfN::new(0, 0), KOfN::new(5, n)), 1.0);
        let huge = rates_differ(
            KOfN::new(50_000, u64::MAX / 4),
            KOfN::new(60_000, u64::MAX / 4),
        );
        assert!((0.0..1e-9).contains(&huge), "{huge}");
    }

    #[test]
    fn shares_by_the_book() {
        // z = 1.96 of 0.5 against 0.6 needs about 2 * 1.96^2 * 0.2475 / 0.01 = 190 each.
        let p = two_sided(apart(KOfN::new(95, 190), KOfN::new(114, 190)));
        assert!((0.045..0.055).contains(&p), "{p}");
        near(two_sided(apart(KOfN::new(0, 9), KOfN::new(0, 9))), 1.0);
        near(two_sided(apart(KOfN::new(0, 0), KOfN::new(1, 9))), 1.0);
        near(sign_test(0, 6), 2.0 / 64.0);
    }

    #[test]
    fn noise_beyond_chance_is_measured() {
        let chance: Vec<f64> = (1..1_000)
            .map(|n| {
                Normal::new(0.0, 1.0)
                    .unwrap()
                    .inverse_cdf(f64::from(n) / 1_000.0)
            })
            .collect();
        near(inflation(&chance), 1.0);
        let noisy: Vec<f64> = chance.iter().map(|z| 5.0 * z).collect();
        let found = inflation(&noisy);
        assert!((4.9..5.1).contains(&found), "{found}");
        near(inflation(&noisy[..7]), 1.0);
        near(inflation(&[]), 1.0);
    }

    #[test]
    fn many_comparisons_cost() {
        // Benjamini and Hochberg 1995, their example of fifteen: four are found.
        let values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = adjusted(&values);
        assert_eq!(found.iter().filter(|&&p| p <= LEVEL).count(), 4);
        near(found[0], 0.0015);
        near(found[3], 0.035625);
        assert!(found.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(adjusted(&[]).is_empty());
        // Of a thousand comparisons of the same thing hardly one stands out.
        let n = 1_000_000;
        let noise: Vec<f64> = (0..1_000_u64)
            .map(|i| rates_differ(KOfN::new(i % 5, n), KOfN::new(i / 5 % 5, n)))
            .collect();
        assert!(noise.iter().any(|&p| p < 0.2));
        assert_eq!(adjusted(&noise).iter().filter(|&&p| p <= LEVEL).count(), 0);
    }
}
