//! ASGST: what its functions cost.

use super::Figure;
use super::parts::Bench;
use crate::failure::Failure;

/// An iterator may take so many times as long a frame as the reference walker that it stands on.
const AT_MOST: f64 = 1.2;

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let seconds = bench.args.seconds.to_string();
    let costs = bench.measure(&["asgst", &seconds])?;
    let reference = costs.reference_ns_a_frame;
    let figure = || {
        let nanoseconds = costs.iterator_ns_a_frame;
        Figure::new("asgst", "iterator", nanoseconds, "ns a frame")
    };
    Ok(vec![
        figure()
            .beside("reference", reference)
            .at_most(AT_MOST * reference),
        figure().beside("agct", costs.agct_ns_a_frame),
    ])
}
