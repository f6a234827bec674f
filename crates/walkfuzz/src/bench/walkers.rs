//! Walkers beside AsyncGetCallTrace: what a frame costs.

use super::Figure;
use super::parts::Bench;
use crate::failure::Failure;

/// The reference walker may take so many times as long a frame, though each of its reads is checked.
const AT_MOST: f64 = 2.0;

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let costs = bench.measure(&["walkers", &bench.args.seconds.to_string()])?;
    let agct = costs.agct_ns_a_frame;
    let figure = Figure::new(
        "walkers",
        "reference",
        costs.reference_ns_a_frame,
        "ns a frame",
    );
    Ok(vec![figure.beside("agct", agct).at_most(AT_MOST * agct)])
}
