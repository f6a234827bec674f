//! Walks of contexts that nobody touched: at every instruction (what a verdict rests on), and in a bare loop (what a walk costs).

use std::time::{Duration, Instant};

use walkfuzz_context::{Arch, Batch};
use walkfuzz_engine::{Ended, Request};
use walkfuzz_record::WalkOutcome;

use crate::error::HarnessError;
use crate::measure::thread_cpu_ns;
use crate::walks::BatchReport;
use crate::world::Instruments;

use super::Session;

/// Walks that were made, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WalkCosts {
    /// Walks.
    pub walks: u64,
    /// Of those, with more than one frame.
    pub beyond_first_frame: u64,
    /// CPU time of the walking threads, in seconds.
    pub cpu_seconds: f64,
}

/// Walks at one moment of the bare loop; far shorter than a park may last.
const BARE_WALKS: u32 = 2_000;

/// Moments, single steps included, after which another thread is walked.
const MOMENTS_A_TURN: u64 = 1 << 14;
/// Untouched walks in a row that may fail before the process counts as insane.
const INSANE: u32 = 100_000;

impl Session {
    /// Walks untouched contexts, one walk at each moment that the engine shows (with the step engine: at each instruction), until
    /// `walks` are made or `go_on` says no; it is asked every thousand walks. Each walk counts as a control.
    ///
    /// # Errors
    /// When no thread can be held any more; the process should then end.
    pub fn walk_naturally(
        &mut self,
        walks: u64,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<WalkCosts, HarnessError> {
        *self.batch = Batch::untouched(Arch::NATIVE);
        self.begin_batch();
        let cpu_before = self.engine.counts().cpu_nanoseconds;
        let mut costs = WalkCosts::default();
        let mut failed = 0;
        while costs.walks < walks && (costs.walks % 1_000 != 0 || go_on()) {
            self.visit_untouched()?;
            costs.walks += 1;
            if let WalkOutcome::Frames(frames) = self.report.control.outcome {
                costs.beyond_first_frame += u64::from(frames > 1);
                failed = 0;
            } else {
                failed += 1;
            }
            // Whole stubs cannot be walked from: a long row of failures is no sign of an insane process here.
            self.failed_moments = 0;
            if failed > INSANE {
                self.retire();
            }
            self.account(false)?;
        }
        costs.cpu_seconds = self
            .engine
            .counts()
            .cpu_nanoseconds
            .saturating_sub(cpu_before) as f64
            / 1e9;
        Ok(costs)
    }

    fn visit_untouched(&mut self) -> Result<(), HarnessError> {
        let Self {
            settings,
            engine,
            world,
            walker,
            walker_id,
            lane,
            trace,
            report,
            batch,
            ..
        } = self;
        let depth = i32::from(batch.depth.frames());
        // A thread that loses its turn first finishes its slice of work: let each keep it for a while.
        let worker = (engine.moments() / MOMENTS_A_TURN) as usize % settings.threads;
        let request = Request {
            worker: Some(worker),
            kind: 0,
            steps: 0,
            fresh: false,
            natural: &|_| {},
        };
        let report: &mut BatchReport = report;
        engine.visit(&request, &mut |moment| {
            // The walked stack's words matter to perturbations alone, and reading them costs more than a step.
            if moment.stepped {
                world.stack.keep(moment);
                world.observe(&moment.untouched);
            } else {
                world.meet(moment);
            }
            let Instruments {
                bench, mut watch, ..
            } = world.instruments(&**walker, *walker_id, lane);
            bench.walk_control(moment, depth, trace, report);
            bench.look_for_writes(moment, batch, &mut watch, trace, report);
        })?;
        Ok(())
    }

    /// Calls the walker for untouched contexts in a plain guarded loop: no input, no record, no feedback. The rate that a fuzzing
    /// loop is measured against.
    ///
    /// # Errors
    /// When no thread can be held any more.
    pub fn walk_bare(&mut self, time: Duration) -> Result<WalkCosts, HarnessError> {
        let Self {
            engine,
            walker,
            trace,
            batch,
            ..
        } = self;
        let depth = i32::from(batch.depth.frames());
        let mut costs = WalkCosts::default();
        let began = Instant::now();
        while began.elapsed() < time {
            engine.visit(&Request::fresh(), &mut |moment| {
                let untouched = moment.untouched;
                let before = thread_cpu_ns();
                for _ in 0..BARE_WALKS {
                    let Some(walked) = moment.walk(&**walker, &untouched, depth, trace) else {
                        break;
                    };
                    costs.walks += 1;
                    costs.beyond_first_frame +=
                        u64::from(matches!(walked.ended, Ended::Returned(code) if code.0 > 1));
                }
                costs.cpu_seconds += (thread_cpu_ns() - before) / 1e9;
            })?;
        }
        Ok(costs)
    }
}
