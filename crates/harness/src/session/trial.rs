//! One finding's walks at many moments of this JVM: what a cell of the variants grid and a check of the corpus are made of.
//!
//! Only moments whose context, with the edits applied, is of the finding's class count: another class is another experiment. A class
//! that never comes up is "not met", which is not the same as "did not happen".

use std::time::{Duration, Instant};

use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Batch, BlobKind, Perturbation, Registers};
use walkfuzz_engine::{FrozenEnd, Request, Shared, freeze};
use walkfuzz_record::{KOfN, WalkOutcome};

use crate::describe;
use crate::error::HarnessError;
use crate::examine::{REPETITION_LIMIT, REPETITIONS, walk_unrecorded};
use crate::names;
use crate::settings::EngineKind;
use crate::walks::{BatchReport, is_suspicious};
use crate::world::Instruments;

use super::{Session, THREAD_BITS};

/// What is tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The walks, and the thread, steps and depth that they are made with. Without a walk, the untouched context is walked.
    pub batch: Batch,
    /// What the walked pc has to lie in; anything if absent.
    pub kind: Option<BlobKind>,
    /// Where in it the walked pc has to be; anywhere if absent.
    pub offset: Option<OffsetClass>,
    /// The signature that is looked for.
    pub signature: String,
    /// What the text of the faulting instruction has to begin with: two faults in one function have one signature. Empty: anything.
    pub instruction: String,
    /// Moments of the class.
    pub moments: u64,
    /// How often it has to happen for no more to be tried.
    pub enough: u64,
    /// How long it may take.
    pub time: Duration,
    /// How long to wait for the first moment of the class.
    pub patience: Duration,
    /// Seed of the threads' order.
    pub seed: u64,
}

/// An outcome that a maintainer should see, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialSite {
    /// Its signature.
    pub signature: String,
    /// The faulting instruction.
    pub instruction: Option<String>,
    /// Moments at which it came.
    pub moments: u64,
    /// Whether it is what was looked for.
    pub wanted: bool,
}

/// What came of it so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    /// Moments of the class at which what was looked for happened, of all moments of the class.
    pub again: KOfN,
    /// Moments of other classes.
    pub others: u64,
    /// Untouched walks that succeeded, of those at moments of the class.
    pub controls: KOfN,
    /// Repetitions in frozen copies of the first moment at which it happened.
    pub frozen: Option<KOfN>,
    /// Every outcome that a maintainer should see.
    pub sites: Vec<TrialSite>,
}

/// What came of one moment of the class.
struct AtMoment {
    control: WalkOutcome,
    /// The walks', with their places in the batch.
    outcomes: Vec<(usize, WalkOutcome)>,
}

/// Moments after which another thread is walked.
const MOMENTS_A_TURN: u64 = 16;
/// Moments between two looks at the clock, the landscape and the caller.
const MOMENTS_A_LOOK: u64 = 64;

impl Session {
    /// Tries the walks of `trial` at fresh moments. `tell` hears every now and then how far it is, for the JVM may die any time.
    ///
    /// # Errors
    /// When no thread can be held any more.
    pub fn try_out(
        &mut self,
        trial: &Trial,
        mut tell: impl FnMut(&Tried),
    ) -> Result<Tried, HarnessError> {
        *self.batch = trial.batch;
        if self.batch.walks().is_empty() {
            self.batch.set_walks(&[Perturbation::UNTOUCHED]);
        }
        self.begin_batch();
        let began = Instant::now();
        let mut tried = Tried::default();
        let mut sites = Vec::new();
        let mut moments = 0;
        while tried.again.of < trial.moments && tried.again.k < trial.enough {
            if moments % MOMENTS_A_LOOK == 0 {
                let met = tried.again.of > 0;
                let limit = if met {
                    trial.time
                } else {
                    trial.time.min(trial.patience)
                };
                if began.elapsed() >= limit {
                    break;
                }
                self.world.refresh(self.engine.counts().parks);
                tell(&tried);
            }
            let outcomes = self.try_moment(trial, moments)?;
            moments += 1;
            match outcomes {
                None => tried.others += 1,
                Some(seen) => self.count(trial, &seen, &mut tried, &mut sites),
            }
        }
        self.flush();
        Ok(tried)
    }

    /// Walks at a fresh moment; nothing if it is of another class.
    fn try_moment(
        &mut self,
        trial: &Trial,
        moments: u64,
    ) -> Result<Option<AtMoment>, HarnessError> {
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
        let turn = (trial.seed + moments) / MOMENTS_A_TURN;
        // The work that the thread did when it was found, and every other turn whatever it likes to do.
        let kind = u32::from(batch.thread >> THREAD_BITS);
        let request = Request {
            worker: Some((usize::from(batch.thread) + turn as usize / 2) % settings.threads),
            kind: if turn.is_multiple_of(2) { kind } else { 0 },
            steps: batch.steps,
            // The step engine has a new moment at each instruction.
            fresh: settings.engine != EngineKind::Step,
            natural: &|_| {},
        };
        let report: &mut BatchReport = report;
        let depth = i32::from(batch.depth.frames());
        let mut seen = None;
        engine.visit(&request, &mut |moment| {
            world.meet(moment);
            let mut wanted = Vec::new();
            for (index, perturbation) in batch.walks().iter().enumerate() {
                let mut registers = moment.untouched;
                perturbation.apply(&mut registers, &world.landscape);
                let class = world.classifier.class(&world.code, &registers);
                if trial.kind.is_none_or(|kind| kind == class.kind)
                    && trial.offset.is_none_or(|offset| offset == class.offset)
                {
                    wanted.push((index, registers));
                }
            }
            if wanted.is_empty() {
                return;
            }
            let Instruments {
                bench, mut watch, ..
            } = world.instruments(&**walker, *walker_id, lane);
            bench.walk_control(moment, depth, trace, report);
            let mut outcomes = Vec::new();
            for (index, registers) in wanted {
                let walk = bench.walk(moment, &registers, index as u8, depth, trace);
                let wrote = watch.blame(moment, bench.walker, &registers, depth, trace);
                outcomes.push((index, wrote.map_or(walk.outcome, WalkOutcome::Wrote)));
            }
            seen = Some(AtMoment {
                control: report.control.outcome,
                outcomes,
            });
        })?;
        Ok(seen)
    }

    /// Counts one moment; `sites` are the sites of `tried.sites`.
    fn count(
        &mut self,
        trial: &Trial,
        seen: &AtMoment,
        tried: &mut Tried,
        sites: &mut Vec<(i32, u64)>,
    ) {
        let walked = u64::from(matches!(seen.control, WalkOutcome::Frames(_)));
        tried.controls = KOfN::new(tried.controls.k + walked, tried.controls.of + 1);
        let mut here = Vec::new();
        let mut again = None;
        for (index, outcome) in &seen.outcomes {
            if !is_suspicious(outcome) {
                continue;
            }
            let site = names::site(outcome);
            let at = sites.iter().position(|known| *known == site);
            let at = at.unwrap_or_else(|| {
                sites.push(site);
                tried.sites.push(self.trial_site(trial, outcome));
                sites.len() - 1
            });
            let Some(known) = tried.sites.get_mut(at) else {
                continue;
            };
            if !here.contains(&at) {
                here.push(at);
                known.moments += 1;
            }
            if known.wanted && again.is_none() {
                again = Some(*index);
            }
        }
        tried.again = KOfN::new(
            tried.again.k + u64::from(again.is_some()),
            tried.again.of + 1,
        );
        if let Some(index) = again
            && tried.frozen.is_none()
        {
            tried.frozen = self.repeat_frozen(index, trial);
        }
    }

    fn trial_site(&self, trial: &Trial, outcome: &WalkOutcome) -> TrialSite {
        let signature = self
            .hunt
            .signature(&self.world.modules, &*self.walker, outcome);
        let instruction = match outcome {
            WalkOutcome::Fault(fault) | WalkOutcome::Wrote(fault) => {
                describe::instruction(fault.pc)
            }
            _ => None,
        };
        let text = instruction.as_deref().unwrap_or_default();
        TrialSite {
            wanted: signature == trial.signature && text.starts_with(&trial.instruction),
            signature,
            instruction,
            moments: 0,
        }
    }

    /// The walk at `index` of the batch in copies of the held moment.
    fn repeat_frozen(&mut self, index: usize, trial: &Trial) -> Option<KOfN> {
        let Self {
            engine,
            world,
            walker,
            trace,
            batch,
            hunt,
            ..
        } = self;
        let moment = engine.held()?;
        let depth = i32::from(batch.depth.frames());
        let mut registers: Registers = moment.untouched;
        batch
            .walks()
            .get(index)?
            .apply(&mut registers, &world.landscape);
        let mut repeated = KOfN::new(0, 0);
        for _ in 0..REPETITIONS {
            let mut answer = Shared::new(false).ok()?;
            let seen = &raw mut *answer;
            let copy = freeze(moment, REPETITION_LIMIT, |moment| {
                let outcome = walk_unrecorded(moment, world, &**walker, &registers, depth, trace);
                let same = hunt.signature(&world.modules, &**walker, &outcome) == trial.signature;
                // SAFETY: the mapping is shared, lives until the copy has ended, and is read only after that.
                unsafe { seen.write_volatile(same) };
            });
            if copy.ok()?.wait() == FrozenEnd::Done {
                repeated = KOfN::new(repeated.k + u64::from(*answer), repeated.of + 1);
            }
        }
        (repeated.of > 0).then_some(repeated)
    }
}
