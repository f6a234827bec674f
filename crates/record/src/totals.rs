//! The sum of all records of a run: several processes, many lanes, one table.
//!
//! Contract: pure.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use jiff::Timestamp;

use crate::codes::{Code, Generation};
use crate::lane::Counter;
use crate::reader::Record;
use crate::recorder::WalkerInfo;
use crate::tally::{Tally, empty_histogram};

/// One walker's untouched or perturbed walks.
#[derive(Clone, Debug, Default)]
pub struct WalkerTotals {
    /// Outcomes.
    pub tally: Tally,
    /// Nanoseconds per walk; kept beside the tally because processes can have different clocks.
    latency: Option<Histogram<u64>>,
}

impl WalkerTotals {
    /// Nanoseconds per walk that gave frames or a code.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        self.latency.clone().unwrap_or_else(empty_histogram)
    }

    fn add(&mut self, tally: &Tally, tick_hz: u64) {
        self.tally.add(tally);
        let more = tally.latency_histogram(tick_hz);
        let sum = self.latency.get_or_insert_with(empty_histogram);
        // It resizes itself.
        let _ = sum.add(&more);
    }
}

/// Sums over records.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many records went in.
    pub records: u64,
    /// Of these, how many were damaged.
    pub damaged: u64,
    /// Per walker, untouched (`false`) and perturbed (`true`).
    pub walkers: BTreeMap<(WalkerInfo, bool), WalkerTotals>,
    /// Walks of walkers that the record's table does not name; only a damaged record has them.
    pub unnamed_walks: u64,
    /// Seconds that the threads of all records report, and walkers' share of them.
    pub thread_seconds: f64,
    /// Seconds in walkers.
    pub walker_seconds: f64,
    /// The last sign of life of any process.
    pub last_alive: Option<Timestamp>,
    /// Seconds that the processes lived, as far as they said.
    pub process_seconds: f64,
    counters: BTreeMap<Counter, u64>,
}

impl Totals {
    /// Of some records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut totals = Self::default();
        for record in records {
            totals.add(record);
        }
        totals
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        self.damaged += u64::from(!record.damage.is_empty());
        let lived = record.alive.duration_since(record.started);
        self.process_seconds += lived.as_secs_f64().max(0.0);
        self.last_alive = self.last_alive.max(Some(record.alive));
        let hz = record.tick_hz.max(1) as f64;
        for lane in &record.lanes {
            for &counter in Counter::ALL {
                let sum = self.counters.entry(counter).or_default();
                *sum = match counter {
                    // Each process begins anew with the same blocks.
                    Counter::BlocksSeen | Counter::BlocksPlanted => {
                        (*sum).max(lane.counter(counter))
                    }
                    _ => sum.saturating_add(lane.counter(counter)),
                };
            }
            self.thread_seconds += lane.counter(Counter::TotalTicks) as f64 / hz;
            self.walker_seconds += lane.counter(Counter::WalkerTicks) as f64 / hz;
            for (id, perturbed, tally) in &lane.tallies {
                match record.walker(*id) {
                    Some(walker) => {
                        let key = (walker.clone(), *perturbed);
                        let slot = self.walkers.entry(key).or_default();
                        slot.add(tally, record.tick_hz);
                    }
                    None => {
                        self.unnamed_walks = self.unnamed_walks.saturating_add(tally.walks());
                    }
                }
            }
        }
    }

    /// A counter's sum; of blocks, the greatest number.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or(0)
    }

    /// All outcomes together, untouched or perturbed or (`None`) both.
    #[must_use]
    pub fn outcomes(&self, perturbed: Option<bool>) -> Tally {
        let mut sum = Tally::default();
        for ((_, nature), totals) in &self.walkers {
            if perturbed.is_none_or(|wanted| wanted == *nature) {
                sum.add(&totals.tally);
            }
        }
        sum
    }

    /// All latencies together, in nanoseconds.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        let mut sum = empty_histogram();
        for totals in self.walkers.values() {
            // It resizes itself.
            let _ = sum.add(totals.latency());
        }
        sum
    }

    /// The code table: never by code alone, since a number means different things in different generations.
    #[must_use]
    pub fn codes(&self, perturbed: bool) -> BTreeMap<(Generation, Code), u64> {
        let mut table = BTreeMap::new();
        let walkers = self.walkers.iter().filter(|((_, p), _)| *p == perturbed);
        for ((walker, _), totals) in walkers {
            for (code, count) in totals.tally.codes() {
                let sum: &mut u64 = table.entry((walker.generation, code)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        table
    }
}
