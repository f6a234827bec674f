//! Fuzzing without a JVM: inputs become walks of snapshots.
//!
//! The same loop, generator, pool and feedback as in [`crate::Session`]. Each snapshot serves a slice of inputs, because showing another
//! one costs milliseconds. Nothing depends on time: the same seed and snapshots give the same walks and the same ends, which
//! [`SnapshotSession::chain`] shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_context::{Address, Arch, Batch, MemoryEdits, Perturbation};
use walkfuzz_coverage::Feedback;
use walkfuzz_engine::{Engine as _, Request, SnapshotWalker, Snapshots};
use walkfuzz_record::recorder::Options;
use walkfuzz_record::{
    Counter, Generation, Lane, Recorder, RunFacts, RunFolder, WalkOutcome, WalkerId,
};
use walkfuzz_walkers::TraceBuffer;

use crate::chosen::WalkerChoice;
use crate::error::HarnessError;
use crate::feedback;
use crate::names;
use crate::run;
use crate::session::breed::{CHILDREN, Nursery};
use crate::session::{InputVerdict, Mode};
use crate::settings::Settings;
use crate::snapshots::hits::{Hit, Hits};
use crate::snapshots::set::{self, Known};
use crate::snapshots::synthetic::{Synthetic, SyntheticEffort};
use crate::walks::{BatchReport, Bench, is_suspicious};

/// Batches that one snapshot serves before the next.
const SLICE: u64 = 4096;
/// What the walked stack's mapping is called.
const STACK: &str = "walked stack";
/// Between two lines.
const EVERY: Duration = Duration::from_secs(5);

/// What a session has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Walks, controls included; none of edited memory.
    pub walks: u64,
    /// Of those, walks that faulted, hung or broke the contract.
    pub hits: u64,
    /// Of those, walks that left their snapshot.
    pub left: u64,
    /// What the memory was for that such walks wanted to read, and how many of a sample did.
    pub left_for: BTreeMap<String, u64>,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// Of that, what went into judging and minimising hits.
    pub judging_seconds: f64,
    /// See [`walkfuzz_engine::Snapshots::chain`].
    pub chain: u64,
    /// Signatures that the puppet has confirmed, and those that it has not.
    pub signatures: (usize, usize),
    /// Pairs of perturbation and what it showed that was new.
    pub features: usize,
    /// Walks of edited memory, which are in none of the counts above (the chain has them all).
    pub synthetic: SyntheticEffort,
}

/// Snapshots that are being fuzzed.
pub struct SnapshotSession {
    mode: Mode,
    engine: Snapshots,
    known: Vec<Known>,
    walker: SnapshotWalker,
    lane: &'static Lane,
    recorder: &'static Recorder,
    feedback: Feedback,
    trace: Box<TraceBuffer>,
    report: Box<BatchReport>,
    batch: Box<Batch>,
    encoded: Box<[u8; MAX_BATCH_BYTES]>,
    nursery: Nursery,
    hits: Hits,
    run: Arc<RunFolder>,
    facts: RunFacts,
    synthetic: Synthetic,
    options: Options,
    batches: u64,
    walks: u64,
    walk_hits: u64,
    left: u64,
    /// The engine's count that is accounted for.
    left_seen: u64,
    left_for: BTreeMap<String, u64>,
    last_line: (Instant, u64),
    tick_hz: f64,
}

impl SnapshotSession {
    /// Reads the snapshots in `folder` and makes a run folder. `seed` decides what is bred.
    ///
    /// # Errors
    /// No snapshots, or addresses that are taken: [`start_again`](super::start_again) may help.
    pub fn start(
        mode: Mode,
        folder: &Path,
        seed: u64,
        arguments: &[String],
    ) -> Result<Self, HarnessError> {
        let (resident, known) = set::read(folder)?;
        let megabytes = resident.bytes() as f64 / 1e6;
        let settings = Settings::from_environment()?;
        if settings.walker != WalkerChoice::Agct || settings.oracle.is_some() {
            return Err(HarnessError::Variable {
                name: if settings.oracle.is_some() {
                    "WALKFUZZ_ORACLE"
                } else {
                    "WALKFUZZ_WALKER"
                },
                value: settings.oracle.unwrap_or(settings.walker).name().to_owned(),
                wanted: "agct alone: a snapshot holds no other walker".to_owned(),
            });
        }
        let jvm = known.first().map(|known| known.scene.jvm.clone());
        let mut facts = run::facts_of(
            &settings,
            jvm.unwrap_or_default(),
            "agct",
            Generation::Agct,
            arguments,
        );
        facts.driver = "snapshots".to_owned();
        let run = Arc::new(RunFolder::create(&settings.runs, &facts)?);
        let options = run::record_options(&facts);
        // The record outlives everything: it is written to until the process ends.
        let recorder: &'static Recorder = Box::leak(Box::new(run.create_record(&options)?));
        let lane = recorder.lane(0).ok_or(HarnessError::System {
            what: "the record has no lane",
            source: std::io::Error::from_raw_os_error(libc::EINVAL),
        })?;
        eprintln!(
            "walkfuzz: {} snapshots, {megabytes:.0} MB; run folder {}",
            known.len(),
            run.path().display()
        );
        Ok(Self {
            mode,
            engine: Snapshots::new(resident)?,
            walker: SnapshotWalker {
                name: "agct",
                generation: Generation::Agct,
            },
            lane,
            recorder,
            feedback: Feedback::extra_counters(),
            trace: TraceBuffer::new(),
            report: Box::default(),
            batch: Box::new(Batch::untouched(Arch::NATIVE)),
            encoded: Box::new([0; MAX_BATCH_BYTES]),
            nursery: Nursery::seeded(seed.wrapping_mul(1 << 40)),
            hits: Hits::new(Arc::clone(&run)),
            run,
            synthetic: Synthetic::new(settings.memory_edits, seed.wrapping_mul(1 << 40)),
            batches: 0,
            walks: 0,
            walk_hits: 0,
            left: 0,
            left_seen: 0,
            left_for: BTreeMap::new(),
            last_line: (Instant::now(), 0),
            tick_hz: options.tick_hz as f64,
            options,
            facts,
            known,
        })
    }

    /// The run folder.
    #[must_use]
    pub fn run_folder(&self) -> &RunFolder {
        &self.run
    }

    /// Runs one input, and in a survey some that are bred here.
    ///
    /// # Errors
    /// A snapshot cannot be mapped.
    pub fn run_input(&mut self, data: &[u8]) -> Result<InputVerdict, HarnessError> {
        self.synthetic.edits = MemoryEdits::NONE;
        if !self.nursery.take_child(data, &mut self.batch) {
            let batch = match MemoryEdits::decode(data) {
                Some((edits, batch)) => {
                    self.synthetic.edits = edits;
                    batch
                }
                None => data,
            };
            self.batch.decode_from(batch);
        }
        if self.batch.arch != Arch::NATIVE {
            *self.batch = self.batch.adapt(Arch::NATIVE);
        }
        self.lane_of_batch()?.begin_input(data);
        if self.mode == Mode::Strict {
            return self.run_strictly();
        }
        self.visit(self.slice())?;
        self.account(true);
        if self.mode == Mode::Survey {
            for _ in 0..CHILDREN {
                self.breed_and_walk()?;
            }
        }
        Ok(InputVerdict::Keep)
    }

    /// Breeds and walks `batches` batches.
    ///
    /// # Errors
    /// A snapshot cannot be mapped.
    pub fn walk_batches(&mut self, batches: u64) -> Result<(), HarnessError> {
        for _ in 0..batches {
            self.breed_and_walk()?;
        }
        Ok(())
    }

    fn breed_and_walk(&mut self) -> Result<(), HarnessError> {
        self.nursery.breed(&mut self.batch);
        let length = self.batch.encode(&mut *self.encoded);
        let encoded = self.encoded.get(..length).unwrap_or(&[]);
        if self.synthetic.is_due(self.batches) {
            self.synthetic.breed(self.batches);
            let mut input = self.synthetic.edits.to_bytes();
            input.extend_from_slice(encoded);
            self.synthetic
                .lane(&self.run, &self.options)?
                .begin_input(&input);
        } else {
            self.synthetic.edits = MemoryEdits::NONE;
            self.lane.begin_input(encoded);
        }
        self.visit(self.slice())?;
        if self.account(false) {
            self.nursery.queue(&self.batch);
        }
        Ok(())
    }

    /// Where the walks of the batch are written down.
    fn lane_of_batch(&mut self) -> Result<&'static Lane, HarnessError> {
        if self.synthetic.edits.is_empty() {
            Ok(self.lane)
        } else {
            self.synthetic.lane(&self.run, &self.options)
        }
    }

    /// The snapshot whose turn it is.
    fn slice(&self) -> usize {
        (self.batches / SLICE) as usize % self.known.len()
    }

    /// Walks the batch in a snapshot, with the memory edited as it says.
    fn visit(&mut self, snapshot: usize) -> Result<(), HarnessError> {
        let lane = self.lane_of_batch()?;
        if !self.synthetic.edits.is_empty() {
            self.count_left();
        }
        let Self {
            engine,
            known,
            walker,
            synthetic,
            trace,
            report,
            batch,
            ..
        } = self;
        let Some(known) = known.get(snapshot) else {
            return Ok(());
        };
        let request = Request {
            worker: Some(snapshot),
            kind: 0,
            steps: 0,
            fresh: false,
            natural: &|_| {},
        };
        let bench = Bench {
            walker,
            walker_id: WalkerId(0),
            landscape: &known.landscape,
            code: &known.code,
            lane,
            oracle: None,
        };
        self.batches += 1;
        if synthetic.edits.is_empty() {
            engine.visit(&request, &mut |moment| {
                bench.walk_batch(moment, batch, trace, report);
            })?;
            self.walks += 1 + self.report.walks().len() as u64;
            return Ok(());
        }
        let mut sp = 0;
        engine.visit(&request, &mut |moment| sp = moment.untouched.sp().0)?;
        let on_stack = |address| address >= Address(sp) && known.scene.region(address) == STACK;
        if !synthetic.apply(engine, &known.landscape, on_stack) {
            synthetic.undo(engine);
            synthetic.effort.without_place += 1;
            **report = BatchReport::default();
            return Ok(());
        }
        engine.visit(&request, &mut |moment| {
            bench.walk_batch(moment, batch, trace, report);
        })?;
        synthetic.effort.walks += 1 + self.report.walks().len() as u64;
        Ok(())
    }

    /// Feedback, hits, upkeep. Whether a perturbation showed something new.
    fn account(&mut self, tell: bool) -> bool {
        if !self.synthetic.edits.is_empty() {
            self.account_synthetic();
            return false;
        }
        let mut new = false;
        let generation = self.walker.generation;
        let walks = self.report.walks().iter().zip(self.batch.walks());
        for (walk, perturbation) in walks {
            let further = !matches!(walk.outcome, WalkOutcome::Error(_));
            feedback::features(generation, walk, |domain, key| {
                if tell {
                    self.feedback.mark(domain, key);
                }
                let feature = Feedback::index(domain, key);
                new |= self.nursery.pool.saw(feature, perturbation, further);
            });
        }
        for index in 0..self.report.walks().len() {
            let walk = self.report.walks().get(index);
            if walk.is_some_and(|walk| is_suspicious(&walk.outcome)) {
                self.walk_hits += 1;
                self.pursue(index);
            }
        }
        if self.batches.is_multiple_of(SLICE / 4) {
            self.upkeep();
        }
        new
    }

    /// Hits of a batch that was walked in edited memory, and upkeep: no feedback. The walk from untouched registers counts, too.
    fn account_synthetic(&mut self) {
        let control = self.report.walks().len();
        for index in 0..=control {
            let walk = self
                .report
                .walks()
                .get(index)
                .unwrap_or(&self.report.control);
            if is_suspicious(&walk.outcome) && self.needs_its_edits(index) {
                self.synthetic.effort.hits += 1;
                self.pursue(index);
            }
        }
        self.synthetic.undo(&mut self.engine);
        let depth = i32::from(self.batch.depth.frames());
        if self.report.control.made
            && let Some(moment) = self.engine.held()
        {
            let untouched = moment.untouched;
            let walked = moment.walk(&self.walker, &untouched, depth, &mut self.trace);
            let without = walked.map(|walked| walked.outcome(moment.fault(), depth));
            let (changed, batches) = &mut self.synthetic.effort.changed;
            *changed += u64::from(without != Some(self.report.control.outcome));
            *batches += 1;
        }
        let left = self.engine.left(|_| {});
        self.synthetic.effort.left += left - self.left_seen;
        self.left_seen = left;
        if self.batches.is_multiple_of(SLICE / 4) {
            self.upkeep();
        }
    }

    /// Whether a walk of the batch ends otherwise without the edits of memory, which are made again.
    fn needs_its_edits(&mut self, index: usize) -> bool {
        let outcome = self
            .report
            .walks()
            .get(index)
            .unwrap_or(&self.report.control)
            .outcome;
        let edited = std::mem::take(&mut self.synthetic.edited);
        for edited in edited.iter().rev() {
            self.engine.edit_memory(edited.address, edited.before);
        }
        let mut same = false;
        let perturbation = self
            .batch
            .walks()
            .get(index)
            .copied()
            .unwrap_or(Perturbation::UNTOUCHED);
        let depth = i32::from(self.batch.depth.frames());
        if let Some(moment) = self.engine.held()
            && let Some(known) = self.known.get(moment.worker)
        {
            let mut registers = moment.untouched;
            perturbation.apply(&mut registers, &known.landscape);
            let walked = moment.walk(&self.walker, &registers, depth, &mut self.trace);
            same = walked.is_some_and(|walked| {
                let without = walked.outcome(moment.fault(), depth);
                names::site(&without) == names::site(&outcome)
            });
        }
        for edited in &edited {
            self.engine.edit_memory(edited.address, edited.after);
        }
        self.synthetic.edited = edited;
        !same
    }

    /// Has a new hit judged and written down.
    #[cold]
    fn pursue(&mut self, index: usize) {
        let snapshot = self.engine.held().map_or(0, |moment| moment.worker);
        let walk = self
            .report
            .walks()
            .get(index)
            .unwrap_or(&self.report.control);
        let perturbation = self.batch.walks().get(index).copied();
        let untouched = self.engine.held().map(|moment| moment.untouched);
        let (Some(known), Some(untouched)) = (self.known.get(snapshot), untouched) else {
            return;
        };
        self.hits.saw(&Hit {
            engine: &self.engine,
            known,
            snapshot,
            outcome: &walk.outcome,
            perturbation: &perturbation.unwrap_or(Perturbation::UNTOUCHED),
            untouched: &untouched,
            batch: &self.batch,
            facts: &self.facts,
            edits: &self.synthetic.edits,
            memory: &self.synthetic.edited,
        });
    }

    fn upkeep(&mut self) {
        let snapshot = self.engine.held().map_or(0, |moment| moment.worker);
        self.count_left();
        let (last, walks) = self.last_line;
        let since = last.elapsed();
        if self.mode == Mode::Survey && since >= EVERY {
            let rate = (self.walks - walks) as f64 / since.as_secs_f64();
            eprintln!(
                "walkfuzz: {:.1} M walks, {:.0} k/s, {} signatures, {} features, snapshot {} of {}",
                self.walks as f64 / 1e6,
                rate / 1e3,
                self.hits.counts().0.0,
                self.nursery.pool.len(),
                snapshot + 1,
                self.known.len()
            );
            self.last_line = (Instant::now(), self.walks);
            self.flush();
        }
    }

    /// Counts walks that left their snapshot since it was counted last, all of memory as it was.
    fn count_left(&mut self) {
        let known = &self.known;
        let snapshot = self.engine.held().map_or(0, |moment| moment.worker);
        let left_for = &mut self.left_for;
        let left = self.engine.left(|address| {
            let region = known.get(snapshot).map(|known| known.scene.region(address));
            *left_for
                .entry(region.unwrap_or_default().to_owned())
                .or_default() += 1;
        });
        self.left += left - self.left_seen;
        self.left_seen = left;
    }

    fn flush(&mut self) {
        let counts = self.engine.counts();
        let total = (counts.cpu_nanoseconds as f64 * self.tick_hz / 1e9) as u64;
        for (counter, now) in [(Counter::Parks, counts.parks), (Counter::TotalTicks, total)] {
            self.lane
                .add(counter, now.saturating_sub(self.lane.counter(counter)));
        }
        self.hits.write_sightings();
        self.recorder.alive();
    }

    /// Writes everything down, and says what was done. May be called again.
    pub fn finish(&mut self) -> Effort {
        self.flush();
        self.upkeep();
        let counts = self.engine.counts();
        let (signatures, synthetic) = self.hits.counts();
        Effort {
            walks: self.walks,
            hits: self.walk_hits,
            left: self.left,
            left_for: self.left_for.clone(),
            cpu_seconds: counts.cpu_nanoseconds as f64 / 1e9,
            judging_seconds: self.hits.judging_seconds(),
            chain: self.engine.chain(),
            signatures,
            features: self.nursery.pool.len(),
            synthetic: SyntheticEffort {
                signatures: synthetic,
                ..self.synthetic.effort
            },
        }
    }

    /// As [`finish`](Self::finish), for good: the run's facts say that it came to its end.
    pub fn end(&mut self) -> Effort {
        let effort = self.finish();
        self.facts.finished = Some(jiff::Timestamp::now());
        if let Err(error) = self.run.write_facts(&self.facts) {
            eprintln!("walkfuzz: {error}");
        }
        effort
    }

    /// Walks the input in each snapshot; the first hit aborts.
    fn run_strictly(&mut self) -> Result<InputVerdict, HarnessError> {
        for snapshot in 0..self.known.len() {
            self.visit(snapshot)?;
            let synthetic = !self.synthetic.edits.is_empty();
            // What the untouched registers do in edited memory counts; in memory as it was, a snapshot is none if they do it.
            let walks = self.report.walks().len() + usize::from(synthetic);
            let hit = (0..walks).find(|&index| {
                let walk = self
                    .report
                    .walks()
                    .get(index)
                    .unwrap_or(&self.report.control);
                is_suspicious(&walk.outcome) && (!synthetic || self.needs_its_edits(index))
            });
            let Some(index) = hit else {
                self.synthetic.undo(&mut self.engine);
                continue;
            };
            self.pursue(index);
            let name = self.known.get(snapshot).map(|known| known.path.display());
            eprintln!(
                "walkfuzz: {} in snapshot {}, walk {index}",
                self.hits.last().unwrap_or("a hit"),
                name.map_or_else(String::new, |name| name.to_string()),
            );
            eprintln!("DEDUP_TOKEN: {}", self.hits.last().unwrap_or_default());
            self.flush();
            std::process::abort();
        }
        Ok(InputVerdict::Keep)
    }

    /// As [`crate::Session::mutate`].
    pub fn mutate(&mut self, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
        self.nursery.mutate(self.mode, data, size, max_size, seed)
    }

    /// As [`crate::Session::crossover`].
    pub fn crossover(&mut self, a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
        self.nursery.crossover(self.mode, a, b, out, seed)
    }
}
