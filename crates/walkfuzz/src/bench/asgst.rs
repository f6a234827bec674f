//! ASGST: what its functions cost, and what the safepoint queue completes.

use walkfuzz_harness::queue_costs::QueueCosts;

use super::Figure;
use super::parts::{Bench, share};
use crate::failure::Failure;

/// An iterator may take so many times as long a frame as the reference walker that it stands on.
const AT_MOST: f64 = 1.2;
/// The median `ASGST_Enqueue`.
const ENQUEUE_NS: f64 = 1e3;
/// The median from there to the queue's handler.
const LATENCY_US: f64 = 1e3;
/// What an interval is called, and how much per cent of the samples in Java shall be delivered as sampled.
const INTERVALS: [(&str, f64); 2] = [("1 ms", 80.0), ("0.1 ms", 60.0)];

pub(crate) fn figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let seconds = bench.args.seconds.to_string();
    let costs = bench.measure(&["asgst", &seconds])?;
    let reference = costs.reference_ns_a_frame;
    let figure = || {
        let nanoseconds = costs.iterator_ns_a_frame;
        Figure::new("asgst", "iterator", nanoseconds, "ns a frame")
    };
    let mut figures = vec![
        figure()
            .beside("reference", reference)
            .at_most(AT_MOST * reference),
        figure().beside("agct", costs.agct_ns_a_frame),
    ];
    match bench.measure(&["queue", &seconds]) {
        Ok(measured) => {
            for (interval, costs) in INTERVALS.iter().zip(&measured.queue) {
                figures.extend(of_queue(*interval, costs));
            }
        }
        // Not every JVM can have queues; the figures of everything else are worth something without them.
        Err(failure) => eprintln!("bench: no figures of the queue: {}", failure.message),
    }
    Ok(figures)
}

fn of_queue((interval, at_least): (&str, f64), costs: &QueueCosts) -> [Figure; 5] {
    let figure = |what: &str, value: f64, unit| {
        Figure::new("asgst", format!("{what}, every {interval}"), value, unit)
    };
    let microseconds = |nanoseconds: u32| f64::from(nanoseconds) / 1e3;
    let unbiased = format!("unbiased of {} samples in Java", costs.in_java);
    let share = share(costs.unbiased, costs.in_java);
    [
        figure(&unbiased, share, "%").at_least(at_least),
        figure("enqueue p50", costs.enqueue_p50_ns.into(), "ns").at_most(ENQUEUE_NS),
        figure("enqueue p99", costs.enqueue_p99_ns.into(), "ns"),
        figure("latency p50", microseconds(costs.latency_p50_ns), "us").at_most(LATENCY_US),
        figure("latency p99", microseconds(costs.latency_p99_ns), "us"),
    ]
}
