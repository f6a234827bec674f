//! How long things take: printed, and bounded loosely, since test machines are shared and tests unoptimised.

use std::time::{Duration, Instant};

/// The shortest of several runs.
pub(crate) fn shortest(runs: u32, mut body: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            body();
            start.elapsed()
        })
        .min()
        .expect("at least one run")
}
