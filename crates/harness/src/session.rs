//! One fuzzing session in this process: what becomes of an input.
//!
//! [`Session::run_input`] is called by the fuzzer's loop. It may return on another thread than it was called on (see
//! `walkfuzz_engine`): hold no reference to thread-local storage across the call.

pub(crate) mod breed;
mod compare;
mod costs;
mod healthy;
mod natural;
mod ran_on;
mod snapshots;
mod standing;
mod strict;
mod trial;

use std::sync::Arc;
use std::time::{Duration, Instant};

use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_context::generate::blind;
use walkfuzz_context::{Arch, Batch, WalkMode};
use walkfuzz_coverage::{Domain, Feedback};
use walkfuzz_engine::{Engine, Frozen, Request, Shared, Step};
use walkfuzz_jvm::Jvm;
use walkfuzz_record::{Counter, Lane, Recorder, RunFolder, WalkOutcome, WalkerId};
use walkfuzz_walkers::{Agct, Manner, TraceBuffer, Walker};

use crate::blocks::Blocks;
use crate::chosen::{self, WalkerChoice};
use crate::error::HarnessError;
use crate::feedback;
use crate::hunt::Hunt;
use crate::names::Names;
use crate::oracle::Oracle;
use crate::progress::Progress;
use crate::remote;
use crate::run;
use crate::settings::{EngineKind, Settings};
use crate::start::{self, Subject};
use crate::walks::{BatchReport, WalkReport, is_suspicious};
use crate::world::{Instruments, World};

use breed::Nursery;

pub use compare::ComparePlan;
pub use costs::FrameCosts;
pub use natural::WalkCosts;
pub use trial::{Trial, TrialSite, Tried};

/// What the inputs of a session are run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Recover from each finding, count it, keep its first input, go on.
    Survey,
    /// The first finding ends the process with an abort, so that minimising and reproducing work.
    Strict,
    /// Inputs are only measured for a smaller corpus: recover and keep nothing.
    Merge,
}

/// What libFuzzer should do with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputVerdict {
    /// It may join the corpus.
    Keep,
    /// It must not join the corpus.
    Reject,
}

/// The engine's kind of work for a batch's `thread`: the low two bits choose the thread, the others the work.
const THREAD_BITS: u32 = 2;
/// Moments (single steps included) after which a survey walks another thread.
const MOMENTS_A_TURN: u64 = 256;
/// Moments in a row whose control may fail before the process counts as insane.
const FAILED_MOMENTS: u32 = 300;
/// Visits of a moment whose control fails: such a context is natural, but most of its walks end at the first frame.
const POOR_VISITS: u32 = 48;

/// A running session.
pub struct Session {
    mode: Mode,
    settings: Settings,
    engine: Box<dyn Engine>,
    world: World,
    walker: Box<dyn Walker>,
    walker_id: WalkerId,
    lane: &'static Lane,
    feedback: Option<Feedback>,
    blocks: Option<Blocks>,
    trace: Box<TraceBuffer>,
    report: Shared<BatchReport>,
    batch: Box<Batch>,
    encoded: Box<[u8; MAX_BATCH_BYTES]>,
    blind_seed: u64,
    nursery: Nursery,
    hunt: Hunt,
    progress: Progress,
    failed_moments: u32,
    poor_visits: u32,
    serial: u64,
    /// After how many moments upkeep is due: the step engine has a new one for each input.
    moments_per_park: u64,
    tick_hz: f64,
    began: Instant,
    // Dropped last: the record is written to by the lane, the JVM lives as long as the process.
    recorder: &'static Recorder,
    run: Arc<RunFolder>,
    jvm: Jvm,
}

impl Session {
    /// Starts a session; `arguments` are those of the process, its name first. `run` is the run folder, made here if absent.
    ///
    /// # Errors
    /// What this machine lacks for a session.
    pub fn start(
        mode: Mode,
        arguments: &[String],
        run: Option<RunFolder>,
    ) -> Result<Self, HarnessError> {
        Self::start_around(mode, arguments, run, |walker| walker)
    }

    /// [`start`](Self::start) with something put around the walker that the environment chooses: a planted fault, say. The run's facts and findings
    /// have its name.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_around(
        mode: Mode,
        arguments: &[String],
        run: Option<RunFolder>,
        around: impl FnOnce(Box<dyn Walker>) -> Box<dyn Walker>,
    ) -> Result<Self, HarnessError> {
        let choice = Settings::from_environment()?.walker;
        Self::start_with(mode, arguments, run, |subject| {
            let walker = match choice {
                WalkerChoice::Remote(mode) => {
                    remote::walker(&subject.jvm, &mut subject.world, &mut subject.live, mode)
                }
                WalkerChoice::Plugin(manner @ (Manner::Held | Manner::Running), path) => {
                    remote::library(subject, manner, path)
                }
                WalkerChoice::Agct
                | WalkerChoice::Reference
                | WalkerChoice::Request
                | WalkerChoice::Frame(_)
                | WalkerChoice::PluginFrame(_)
                | WalkerChoice::Plugin(Manner::Own, _) => choice.make(subject),
            };
            walker.map(around)
        })
    }

    /// [`start`](Self::start) with another walker, made from the JVM's own: one with a planted fault, say. The run's facts and findings
    /// have its name.
    ///
    /// # Errors
    /// What this machine lacks for a session.
    pub fn start_with_walker(
        mode: Mode,
        arguments: &[String],
        run: Option<RunFolder>,
        walker: impl FnOnce(Agct) -> Box<dyn Walker>,
    ) -> Result<Self, HarnessError> {
        Self::start_with(mode, arguments, run, |subject| Ok(walker(subject.agct)))
    }

    fn start_with(
        mode: Mode,
        arguments: &[String],
        run: Option<RunFolder>,
        walker: impl FnOnce(&mut Subject) -> Result<Box<dyn Walker>, HarnessError>,
    ) -> Result<Self, HarnessError> {
        let mut settings = Settings::from_environment()?;
        if mode == Mode::Survey {
            // A fuzzer brings many inputs: each has its one moment, as in a survey.
            settings.attempts = 1;
        }
        let mode = if settings.strict && mode == Mode::Survey {
            Mode::Strict
        } else {
            mode
        };
        let options = start::jvm_options()?;
        let is_own = run.is_none();
        let run = Arc::new(match run {
            Some(run) => {
                chosen::check(settings.walker, settings.oracle)?;
                run
            }
            None => run::create(&settings, &options, arguments)?,
        });
        let mut subject = start::start(&settings, options, run.path())?;
        let walker = walker(&mut subject).inspect_err(|_| {
            if is_own {
                run::remove_unused(&run);
            }
        })?;
        let oracle = settings
            .oracle
            .map(|oracle| chosen::oracle(oracle, &*walker, &subject))
            .transpose()?;
        let Subject {
            jvm,
            guard: _,
            mut world,
            live,
            agct: _,
            mut timings,
        } = subject;
        // Walkers may have come from libraries.
        world.modules.refresh()?;
        world.oracle = oracle;
        let mut facts = run::facts(&settings, &jvm, &*walker, arguments);
        if let Ok(known) = run.facts() {
            // Said by whoever made the folder; this process may be a later one of the same run.
            (facts.started, facts.driver, facts.command) =
                (known.started, known.driver, known.command);
        }
        run.write_facts(&facts)?;
        let record_options = run::record_options(&facts);
        // The record outlives everything: it is written to until the process ends.
        let recorder: &'static Recorder = Box::leak(Box::new(run.create_record(&record_options)?));
        let lane = recorder.lane(0).ok_or(HarnessError::System {
            what: "the record has no lane",
            source: std::io::Error::from_raw_os_error(libc::EINVAL),
        })?;
        // In the frozen engine's copies every block would trap anew, and nobody would hear of it.
        let watches = mode == Mode::Survey
            && settings.blocks
            && !settings.blind
            && settings.engine != EngineKind::Frozen;
        let blocks = watches.then(|| Blocks::plant(&world.modules)).flatten();
        if let Some(blocks) = &blocks {
            timings.push(("blocks", blocks.planting_time()));
            lane.add(Counter::BlocksPlanted, blocks.planted() as u64);
        }
        let engine: Box<dyn Engine> = match settings.engine {
            EngineKind::Live => Box::new(live),
            EngineKind::Step => Box::new(Step::new(live, 512)?),
            EngineKind::Frozen => Box::new(Frozen::new(live, Duration::from_secs(10))),
        };
        let report = Shared::new(BatchReport::new()).map_err(|source| HarnessError::System {
            what: "cannot map shared memory",
            source,
        })?;
        let progress = Progress::new(mode, &facts, &timings);
        let oracle = world.oracle.as_ref().map(Oracle::name);
        let hunt = Hunt::new(
            Arc::clone(&run),
            facts,
            settings.engine,
            Names::new(world.assert_poison).with_oracle(oracle),
        );
        let tears = world.walk_mode == WalkMode::OtherThreadRunning;
        Ok(Self {
            mode,
            engine,
            world,
            walker,
            walker_id: WalkerId(0),
            lane,
            feedback: (!settings.blind).then(Feedback::extra_counters),
            blocks,
            trace: TraceBuffer::new(),
            report,
            batch: Box::new(Batch::untouched(Arch::NATIVE)),
            encoded: Box::new([0; MAX_BATCH_BYTES]),
            nursery: Nursery::new(tears),
            blind_seed: settings.seed.wrapping_mul(1 << 40),
            hunt,
            progress,
            failed_moments: 0,
            poor_visits: 0,
            serial: 0,
            moments_per_park: if settings.engine == EngineKind::Step {
                512
            } else {
                1
            },
            tick_hz: record_options.tick_hz as f64,
            began: Instant::now(),
            recorder,
            run,
            settings,
            jvm,
        })
    }

    /// Lets another fuzzer's map take the feedback.
    pub fn set_feedback(&mut self, feedback: Feedback) {
        self.feedback = Some(feedback);
    }

    /// The run folder.
    #[must_use]
    pub fn run_folder(&self) -> &RunFolder {
        &self.run
    }

    /// What is known about the JVM: natural contexts by class, symbols, the code cache.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The watched blocks of the JVM's walk code, if any are.
    #[must_use]
    pub fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_ref()
    }

    /// Runs one input.
    ///
    /// # Errors
    /// When no thread can be held any more; the process should then end.
    pub fn run_input(&mut self, data: &[u8]) -> Result<InputVerdict, HarnessError> {
        if self.settings.blind {
            // The baseline: the same loop and generator, without corpus and feedback.
            self.blind_seed = self.blind_seed.wrapping_add(1);
            *self.batch = blind(self.blind_seed);
            self.begin_batch();
        } else {
            if !self.nursery.take_child(data, &mut self.batch) {
                self.batch.decode_from(data);
            }
            if self.batch.arch != Arch::NATIVE {
                *self.batch = self.batch.adapt(Arch::NATIVE);
            }
            self.lane.begin_input(data);
        }
        if self.mode == Mode::Strict {
            return self.run_strictly();
        }
        self.walk_running()?;
        self.visit(self.poor_visits >= POOR_VISITS)?;
        self.account(true)?;
        if self.nursery.between_inputs {
            self.breed_here()?;
        }
        Ok(InputVerdict::Keep)
    }

    /// Runs an input that the user gave at the held moment: its own walks and nothing bred. They are counted apart.
    ///
    /// # Errors
    /// As [`run_input`](Self::run_input).
    pub fn run_given(&mut self, data: &[u8]) -> Result<(), HarnessError> {
        let between = std::mem::take(&mut self.nursery.between_inputs);
        let ran = self.run_input(data);
        self.nursery.between_inputs = between;
        ran?;
        let perturbed = self
            .batch
            .walks()
            .iter()
            .filter(|walk| !walk.is_untouched());
        self.lane.add(Counter::GivenWalks, perturbed.count() as u64);
        Ok(())
    }

    /// Remembers the batch, which came of no input's bytes, as what the next walks come from.
    fn begin_batch(&mut self) {
        let length = self.batch.encode(&mut *self.encoded);
        self.lane
            .begin_input(self.encoded.get(..length).unwrap_or(&[]));
    }

    /// Walks the batch at a moment: the held one, or a fresh one.
    fn visit(&mut self, fresh: bool) -> Result<(), HarnessError> {
        let Self {
            mode,
            settings,
            engine,
            world,
            walker,
            walker_id,
            lane,
            trace,
            report,
            batch,
            hunt,
            ..
        } = self;
        let natural = std::cell::RefCell::new(&mut *world);
        let request = Request {
            worker: Some(if *mode == Mode::Strict {
                usize::from(batch.thread) & ((1 << THREAD_BITS) - 1)
            } else {
                // A thread that loses its turn first finishes its slice of work: let each keep it for a while.
                (engine.moments() / MOMENTS_A_TURN) as usize % settings.threads
            }),
            kind: u32::from(batch.thread >> THREAD_BITS),
            steps: batch.steps,
            fresh,
            natural: &|moment| {
                natural.borrow_mut().observe(&moment.untouched);
            },
        };
        let report: &mut BatchReport = report;
        engine.visit(&request, &mut |moment| {
            let world = &mut **natural.borrow_mut();
            let first = world.meet(moment).is_some();
            let Instruments {
                bench,
                mut watch,
                modules,
            } = world.instruments(&**walker, *walker_id, lane);
            if first {
                hunt.try_elsewhere(moment, &bench, &mut watch, modules, trace);
            }
            bench.walk_batch(moment, batch, trace, report);
            bench.look_for_writes(moment, batch, &mut watch, trace, report);
        })?;
        Ok(())
    }

    /// Feedback (for the fuzzer, if the walks were its input's), findings and upkeep after a visit. Whether a perturbation showed
    /// something new.
    fn account(&mut self, tell: bool) -> Result<bool, HarnessError> {
        let mut new = false;
        let generation = self.walker.generation();
        let report: &BatchReport = &self.report;
        if let Some(feedback) = &self.feedback {
            if let Some(blocks) = &mut self.blocks {
                blocks.news(report.control.blocks, |block| {
                    if tell {
                        feedback.mark_block(block);
                    }
                });
            }
            let perturbations = self.batch.walks().iter();
            for (walk, perturbation) in report.walks().iter().zip(perturbations) {
                let further = !matches!(walk.outcome, WalkOutcome::Error(_));
                feedback::features(generation, walk, |domain, key| {
                    if tell {
                        feedback.mark(domain, key);
                    }
                    let feature = Feedback::index(domain, key);
                    new |= self.nursery.pool.saw(feature, perturbation, further);
                });
                if let Some(blocks) = &mut self.blocks {
                    blocks.news(walk.blocks, |block| {
                        if tell {
                            feedback.mark_block(block);
                        }
                        let feature = Feedback::index(Domain::Block, u64::from(block));
                        new |= self.nursery.pool.saw(feature, perturbation, further);
                    });
                }
            }
        }
        let new_moment = std::mem::replace(&mut self.serial, report.serial) != report.serial;
        if report.did_well {
            self.failed_moments = 0;
            self.poor_visits = 0;
        } else {
            self.failed_moments += u32::from(new_moment);
            self.poor_visits = if new_moment { 1 } else { self.poor_visits + 1 };
        }
        if is_suspicious(&report.control.outcome) {
            self.pursue(usize::MAX);
        }
        let suspicious = |walk: &WalkReport| is_suspicious(&walk.outcome);
        for index in 0..self.report.walks().len() {
            if self.report.walks().get(index).is_some_and(suspicious) {
                self.pursue(index);
            }
        }
        self.upkeep()?;
        Ok(new)
    }

    /// Counts what a walk of the batch did (past its end: the control), and examines it if it is new.
    #[cold]
    fn pursue(&mut self, index: usize) {
        let walk = self.report.walks().get(index);
        let outcome = walk.unwrap_or(&self.report.control).outcome;
        if self.hunt.notice(&outcome)
            && let Some(moment) = self.engine.held()
        {
            self.hunt.pursue(
                moment,
                &mut self.world,
                &*self.walker,
                &self.batch,
                index,
                &self.report,
            );
        }
    }

    /// What is due every so many parks or seconds.
    fn upkeep(&mut self) -> Result<(), HarnessError> {
        if self
            .progress
            .saw_park(self.engine.moments() / self.moments_per_park)
        {
            let counts = self.engine.counts();
            let surveyed = self.world.refresh(counts.parks);
            self.hunt.poll(&self.world);
            if surveyed && let Some(blocks) = &mut self.blocks {
                blocks.plant_again();
            }
            self.flush();
            self.progress
                .print(self.lane, self.hunt.found(), self.began.elapsed());
            if self.lane.counter(Counter::Recoveries) > self.settings.retire_after
                || self.failed_moments > FAILED_MOMENTS
            {
                self.retire();
            }
        }
        Ok(())
    }

    /// Brings the record's counters up to date.
    fn flush(&mut self) {
        let counts = self.engine.counts();
        for (counter, now) in [
            (Counter::Samples, counts.samples),
            (Counter::OutsideJava, counts.outside),
            (Counter::Parks, counts.parks),
            (Counter::Steps, counts.steps),
            (Counter::StaleHits, self.world.stale_hits),
            (
                Counter::BlocksSeen,
                self.blocks
                    .as_ref()
                    .map_or(0, |blocks| blocks.seen() as u64),
            ),
        ] {
            self.lane
                .add(counter, now.saturating_sub(self.lane.counter(counter)));
        }
        let total = (counts.cpu_nanoseconds as f64 * self.tick_hz / 1e9) as u64;
        self.lane.add(
            Counter::TotalTicks,
            total.saturating_sub(self.lane.counter(Counter::TotalTicks)),
        );
        self.recorder.alive();
    }

    /// Ends the process so that the supervisor starts a fresh one.
    fn retire(&mut self) -> ! {
        self.recorder
            .mark_tainted(self.lane.counter(Counter::Recoveries));
        self.finish();
        run::end_process(crate::supervisor::RETIRED)
    }

    /// Waits for what is still being examined, and writes everything down. Idempotent.
    pub fn finish(&mut self) {
        self.flush();
        self.hunt.finish(&self.world);
        self.progress
            .print(self.lane, self.hunt.found(), self.began.elapsed());
    }

    /// The input as a text for people.
    #[must_use]
    pub fn describe(data: &[u8]) -> String {
        format!("{}\n", Batch::decode(data))
    }
}
