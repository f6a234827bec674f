//! Intervals against published values.

use walkfuzz_record::KOfN;
use walkfuzz_triage::{Rate, share_text};

fn rate(events: u64, exposure: f64) -> Rate {
    Rate { events, exposure }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * b.abs().max(1e-9)
}

#[test]
fn exact_poisson_limits() {
    // Garwood's table.
    for (events, low, high) in [
        (0, 0.0, 3.6889),
        (1, 0.02532, 5.5716),
        (5, 1.6235, 11.668),
        (10, 4.7954, 18.390),
        (100, 81.364, 121.627),
    ] {
        let interval = rate(events, 1.0).interval().unwrap();
        assert!(
            near(interval.low, low) && near(interval.high, high),
            "{events}: {interval:?}"
        );
    }
    assert!(near(rate(0, 1.0).upper_bound().unwrap(), 2.9957));
    assert!(near(rate(3, 2.0).upper_bound().unwrap(), 7.7537 / 2.0));
    assert!(
        rate(3, 0.0).interval().is_none()
            && rate(3, -1.0).upper_bound().is_none()
            && rate(3, f64::NAN).rate().is_none()
    );
}

#[test]
fn many_events_join_the_exact_limits_smoothly() {
    let below = rate(4_999, 1.0).interval().unwrap();
    let above = rate(5_001, 1.0).interval().unwrap();
    assert!(
        (above.low - below.low - 2.0).abs() < 0.1 && (above.high - below.high - 2.0).abs() < 0.1,
        "{below:?} {above:?}"
    );
}

#[test]
fn texts() {
    let shares: Vec<_> = [
        (0, 0),
        (0, 3),
        (3, 3),
        (3, 10),
        (0, 1_000),
        (12, 10_000),
        (1, 3_000_000),
    ]
    .map(|(k, of)| share_text(KOfN::new(k, of)))
    .into();
    let million = "per million";
    let rates = [
        rate(27, 17_000_000.0).per(1e6, million, "walks"),
        rate(0, 17_000_000.0).per(1e6, million, "walks"),
        rate(2, 12.0).per(1.0, "per hour", "hours"),
        rate(123_456, 1e6).per(1e6, million, "walks"),
        rate(1, 0.0).per(1e6, million, "walks"),
    ];
    insta::assert_snapshot!(format!("{}\n{}", shares.join("\n"), rates.join("\n")), @r"
    0 of 0
    0 of 3 (at most 63 %)
    3 of 3 (100 %, 44 to 100 %)
    3 of 10 (30 %, 11 to 60 %)
    0 of 1,000 (at most 0.30 %)
    12 of 10,000 (0.12 %, 0.069 to 0.21 %)
    1 of 3,000,000 (0.000033 %, 0.0000059 to 0.00019 %)
    27 in 17,000,000 walks (1.6 per million, 1.0 to 2.3)
    0 in 17,000,000 walks (at most 0.18 per million)
    2 in 12 hours (0.17 per hour, 0.020 to 0.60)
    123,456 in 1,000,000 walks (123,456 per million, 122,768 to 124,147)
    1 in 0 walks
    ");
}
