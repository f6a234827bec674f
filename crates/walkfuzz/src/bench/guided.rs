//! Guided against blind fuzzing: the same generator and value classes, one side without corpus and feedback.
//!
//! Each side has one fuzzing thread and the same time, and takes its turn in each round. A run that did not find a site is
//! censored at its end, and counts as later than every time that was seen.

use std::collections::BTreeMap;

use serde::Serialize;
use walkfuzz_record::Summary;

use super::parts::Bench;
use crate::failure::Failure;
use crate::table::table;

/// Points of the curve: shares of a run's time.
const CURVE: [f64; 6] = [1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0];

/// One side.
#[derive(Debug, Default, Serialize)]
struct Side {
    /// Sites found in each run.
    sites: Vec<usize>,
    /// CPU seconds of each run's fuzzing threads.
    cpu_seconds: Vec<f64>,
    /// Walks of each run.
    walks: Vec<u64>,
    /// Mean number of sites found by the shares of [`CURVE`].
    curve: Vec<f64>,
    #[serde(skip)]
    found: Vec<BTreeMap<String, f64>>,
}

/// One site on one side.
#[derive(Debug, Serialize)]
struct Times {
    /// Median seconds, censored runs included; absent if the median run is censored.
    median_seconds: Option<f64>,
    found_in: usize,
    censored: usize,
}

#[derive(Debug, Serialize)]
struct Site {
    title: String,
    guided: Times,
    blind: Times,
}

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    rounds: u32,
    seconds: u32,
    guided: Side,
    blind: Side,
    sites: Vec<Site>,
    /// Sites whose median is earlier on the guided side, and on the blind side.
    earlier: (usize, usize),
}

pub(crate) fn compare(bench: &Bench<'_>) -> Result<Comparison, Failure> {
    let (mut guided, mut blind) = (Side::default(), Side::default());
    let mut titles = BTreeMap::new();
    for round in 1..=bench.args.rounds {
        guided.add(&bench.fuzz(false, round)?.0, &mut titles);
        blind.add(&bench.fuzz(true, round)?.0, &mut titles);
    }
    guided.finish(bench.args.seconds);
    blind.finish(bench.args.seconds);
    let sites: Vec<Site> = titles
        .into_iter()
        .map(|(id, title)| Site {
            title,
            guided: guided.times(&id),
            blind: blind.times(&id),
        })
        .collect();
    let is_earlier = |one: &Times, other: &Times| {
        one.median_seconds.unwrap_or(f64::INFINITY) < other.median_seconds.unwrap_or(f64::INFINITY)
    };
    let earlier = (
        sites
            .iter()
            .filter(|site| is_earlier(&site.guided, &site.blind))
            .count(),
        sites
            .iter()
            .filter(|site| is_earlier(&site.blind, &site.guided))
            .count(),
    );
    Ok(Comparison {
        rounds: bench.args.rounds,
        seconds: bench.args.seconds,
        guided,
        blind,
        sites,
        earlier,
    })
}

impl Side {
    fn add(&mut self, summary: &Summary, titles: &mut BTreeMap<String, String>) {
        let mut found = BTreeMap::new();
        for row in &summary.findings {
            found.insert(row.id.clone(), row.after_seconds);
            titles
                .entry(row.id.clone())
                .or_insert_with(|| row.title.clone());
        }
        self.sites.push(found.len());
        self.cpu_seconds.push(summary.thread_seconds);
        self.walks.push(summary.walks);
        self.found.push(found);
    }

    fn finish(&mut self, seconds: u32) {
        let runs = self.found.len().max(1) as f64;
        let by = |share: f64| {
            // The last point takes what came while the run ended.
            let limit = if share < 1.0 {
                share * f64::from(seconds)
            } else {
                f64::INFINITY
            };
            let all = self.found.iter().flat_map(BTreeMap::values);
            all.filter(|seconds| **seconds <= limit).count() as f64 / runs
        };
        self.curve = CURVE.map(by).to_vec();
    }

    fn times(&self, id: &str) -> Times {
        let times: Vec<Option<f64>> = self.found.iter().map(|run| run.get(id).copied()).collect();
        let found_in = times.iter().flatten().count();
        Times {
            median_seconds: median(&times),
            found_in,
            censored: times.len() - found_in,
        }
    }
}

/// The median, if it is a time that was seen: every censored run counts as later. Of an even number, the later middle one.
fn median(times: &[Option<f64>]) -> Option<f64> {
    let mut sorted: Vec<f64> = times
        .iter()
        .map(|time| time.unwrap_or(f64::INFINITY))
        .collect();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len() / 2)
        .copied()
        .filter(|time| time.is_finite())
}

impl Comparison {
    pub(crate) fn for_people(&self) -> String {
        let mean =
            |side: &Side| side.sites.iter().sum::<usize>() as f64 / side.sites.len().max(1) as f64;
        let numbers = |values: &[f64]| {
            values
                .iter()
                .map(|value| format!("{value:.1}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut rows = vec![["", "guided", "blind"].map(str::to_owned).to_vec()];
        let mut row = |what: &str, of: &dyn Fn(&Side) -> String| {
            rows.push(vec![what.to_owned(), of(&self.guided), of(&self.blind)]);
        };
        row("sites, mean of the runs", &|side| {
            format!("{:.1}", mean(side))
        });
        row("sites of each run", &|side| {
            side.sites
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        });
        row("CPU seconds of each run", &|side| {
            numbers(&side.cpu_seconds)
        });
        row("M walks of each run", &|side| {
            numbers(
                &side
                    .walks
                    .iter()
                    .map(|walks| *walks as f64 / 1e6)
                    .collect::<Vec<_>>(),
            )
        });
        row("sites by 1/32 1/16 1/8 1/4 1/2 1 of the time", &|side| {
            numbers(&side.curve)
        });
        let time = |times: &Times| {
            let median = times.median_seconds.map_or_else(
                || format!("> {}", self.seconds),
                |median| format!("{median:.1}"),
            );
            format!(
                "{median} s ({} of {}, {} censored)",
                times.found_in, self.rounds, times.censored
            )
        };
        rows.extend(
            self.sites
                .iter()
                .map(|site| vec![site.title.clone(), time(&site.guided), time(&site.blind)]),
        );
        rows.push(vec![
            "sites that this side found earlier (median)".to_owned(),
            self.earlier.0.to_string(),
            self.earlier.1.to_string(),
        ]);
        format!(
            "\nguided against blind, {} runs of {} s each\n{}",
            self.rounds,
            self.seconds,
            table(&rows)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn censored_runs_are_later_than_all_others() {
        assert_eq!(median(&[Some(3.0), None, Some(1.0)]), Some(3.0));
        assert_eq!(median(&[None, None, Some(1.0)]), None);
        assert_eq!(median(&[Some(1.0), None]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_curve_counts_sites_by_time() {
        let found = |times: &[(&str, f64)]| {
            times
                .iter()
                .map(|(id, time)| ((*id).to_owned(), *time))
                .collect()
        };
        let mut side = Side {
            found: vec![found(&[("a", 1.0), ("b", 40.0)]), found(&[("a", 9.0)])],
            ..Side::default()
        };
        side.finish(64);
        assert_eq!(side.curve, [0.5, 0.5, 0.5, 1.0, 1.0, 1.5]);
        let times = side.times("b");
        assert_eq!(
            (times.found_in, times.censored, times.median_seconds),
            (1, 1, None)
        );
    }
}
