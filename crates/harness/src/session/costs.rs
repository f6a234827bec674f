//! What walkers cost on the same contexts: plain guarded loops, no record and no feedback.

use std::time::{Duration, Instant};

use walkfuzz_asgst::IteratorWalker;
use walkfuzz_asgst::api::IteratorApi;
use walkfuzz_engine::{Ended, Moment, Request};
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::asgst;
use crate::error::HarnessError;
use crate::measure::thread_cpu_ns;

use super::Session;

/// Walks of one walker at one moment; all walkers' together are far shorter than a park may last.
const WALKS: u32 = 500;
/// More than the workload's stacks have, so that both walkers see their ends.
const DEPTH: i32 = 1024;

/// What one walker's walks cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameCosts {
    /// Walks.
    pub walks: u64,
    /// Frames that they gave.
    pub frames: u64,
    /// CPU time of the walking threads, in seconds.
    pub cpu_seconds: f64,
}

impl FrameCosts {
    /// Nanoseconds a frame.
    #[must_use]
    pub fn per_frame(&self) -> f64 {
        self.cpu_seconds * 1e9 / (self.frames as f64).max(1.0)
    }
}

impl Session {
    /// A walker by ASGST's iterators, over our own functions.
    ///
    /// # Errors
    /// As for [`asgst::publish`].
    pub fn asgst_iterator(&self) -> Result<IteratorWalker, HarnessError> {
        asgst::publish(&self.world, &self.jvm)?;
        Ok(IteratorWalker::new(IteratorApi::own()))
    }

    /// Walks with these walkers in turns at the same moments; moments at which one of them gives no frames do not count. The session's walker stands first
    /// in what is given back.
    ///
    /// # Errors
    /// When no thread can be held any more.
    pub fn frame_costs(
        &mut self,
        others: &[&dyn Walker],
        time: Duration,
    ) -> Result<Vec<FrameCosts>, HarnessError> {
        let Self {
            engine,
            walker,
            trace,
            ..
        } = self;
        let mut all: Vec<&dyn Walker> = vec![&**walker];
        all.extend(others);
        let mut costs = vec![FrameCosts::default(); all.len()];
        let began = Instant::now();
        while began.elapsed() < time {
            engine.visit(&Request::fresh(), &mut |moment| {
                // Once each beforehand: what follows finds the same caches.
                if all.iter().any(|walker| frames(moment, *walker, trace) == 0) {
                    return;
                }
                for (walker, costs) in all.iter().zip(&mut costs) {
                    let before = thread_cpu_ns();
                    for _ in 0..WALKS {
                        costs.frames += frames(moment, *walker, trace);
                    }
                    costs.walks += u64::from(WALKS);
                    costs.cpu_seconds += (thread_cpu_ns() - before) / 1e9;
                }
            })?;
        }
        Ok(costs)
    }
}

/// Frames of an untouched walk.
fn frames(moment: &mut Moment, walker: &dyn Walker, trace: &mut TraceBuffer) -> u64 {
    let untouched = moment.untouched;
    match moment.walk(walker, &untouched, DEPTH, trace) {
        Some(walked) => match walked.ended {
            Ended::Returned(code) => u64::try_from(code.0).unwrap_or(0),
            Ended::Overran(_) | Ended::Broke(..) | Ended::Faulted => 0,
        },
        None => 0,
    }
}
