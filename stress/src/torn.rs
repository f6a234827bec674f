//! Walks of threads that run on meanwhile: registers and stack are of different moments, and faults belong to it. What counts is that the JVM bears them.
//!
//! Contract: pure.

use crate::result::WalkCounts;

/// From so many walks of running threads on some fault. Measured rates reach from 64 to 7,000 per million.
const SOME_FAULT: u64 = 100_000;

/// What came of walks of threads that ran on, beside the first measurement of its kind.
pub(crate) fn words(torn: &WalkCounts) -> String {
    let of_walks = |count: u64, scale: f64| scale * count as f64 / torn.walks.max(1) as f64;
    format!(
        "{} faults in {} walks of running threads ({:.0} per million; first measured: 592 of 808000, 733 per million), {} \
         silently different ({:.1} %)",
        torn.faults,
        torn.walks,
        of_walks(torn.faults, 1e6),
        torn.wrong_frames,
        of_walks(torn.wrong_frames, 100.0)
    )
}

/// Why walks of running threads prove nothing, if they do not.
pub(crate) fn doubt(torn: &WalkCounts, minimum: u64) -> Option<String> {
    let walks = torn.walks;
    if walks < minimum {
        return Some(format!(
            "vacuous: {walks} walks of running threads, {minimum} are needed"
        ));
    }
    if torn.faults + torn.wrong_frames == 0 {
        return Some(format!(
            "vacuous: {walks} walks of running threads, and all are as if the threads had waited"
        ));
    }
    (torn.faults == 0 && walks >= SOME_FAULT)
        .then(|| format!("no fault in {walks} walks of running threads: some are to be expected"))
}
