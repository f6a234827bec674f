//! Export of depth and latency in hdrhistogram's own formats, for the tools that read them.
//!
//! `*.hlog` is an HdrHistogram interval log: V2 histograms, deflated, base64, one line per walker and nature. `*.hgrm` is the
//! percentile table that plotters take.
//!
//! Contract: writes to what it is given; may allocate.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jiff::Timestamp;

use crate::totals::{Totals, WalkerTotals};

/// What of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Frames.
    Depth,
    /// Nanoseconds.
    Latency,
}

impl Metric {
    /// Both.
    pub const ALL: [Metric; 2] = [Metric::Depth, Metric::Latency];

    /// The file's name without ending.
    #[must_use]
    pub const fn file_stem(self) -> &'static str {
        match self {
            Metric::Depth => "depth-frames",
            Metric::Latency => "latency-ns",
        }
    }

    fn of(self, totals: &WalkerTotals) -> Histogram<u64> {
        match self {
            Metric::Depth => totals.tally.depth_histogram(),
            Metric::Latency => totals.latency(),
        }
    }
}

/// All histograms of a metric, with the tag of each: `agct.untouched`, `agct.perturbed`.
#[must_use]
pub fn tagged(totals: &Totals, metric: Metric) -> Vec<(String, Histogram<u64>)> {
    let tagged = totals.walkers.iter().map(|((walker, perturbed), totals)| {
        let nature = if *perturbed { "perturbed" } else { "untouched" };
        // What separates fields and lines of the log may not stand in a tag.
        let name = walker.name.replace([',', ' ', '\n', '\r'], "_");
        (format!("{name}.{nature}"), metric.of(totals))
    });
    tagged.filter(|(_, h)| !h.is_empty()).collect()
}

/// The interval log of a metric.
///
/// # Errors
/// What hdrhistogram says.
pub fn interval_log(
    totals: &Totals,
    metric: Metric,
    started: Timestamp,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let nanoseconds = u64::try_from(started.as_nanosecond()).unwrap_or(0);
    let start = UNIX_EPOCH + Duration::from_nanos(nanoseconds);
    let mut log = IntervalLogWriterBuilder::new()
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|error| error.to_string())?;
    let length = Duration::from_secs_f64(totals.process_seconds.clamp(0.0, 1e9));
    for (tag, histogram) in tagged(totals, metric) {
        log.write_histogram(&histogram, Duration::ZERO, length, Tag::new(&tag))
            .map_err(|error| format!("{error:?}"))?;
    }
    Ok(bytes)
}

/// The percentile table of one histogram, five steps per half distance.
#[must_use]
pub fn percentile_table(histogram: &Histogram<u64>) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut counted = 0_u64;
    for step in histogram.iter_quantiles(5) {
        counted = counted.saturating_add(step.count_since_last_iteration());
        let (value, quantile) = (step.value_iterated_to(), step.quantile_iterated_to());
        let _ = write!(text, "{value:12} {quantile:2.12} {counted:10}");
        if quantile < 1.0 {
            let _ = write!(text, " {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12}, Total count    = {:12}]",
        histogram.mean(),
        histogram.stdev(),
        histogram.max(),
        histogram.len(),
    );
    text
}
