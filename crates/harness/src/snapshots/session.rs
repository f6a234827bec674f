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
use walkfuzz_context::{Arch, Batch};
use walkfuzz_coverage::Feedback;
use walkfuzz_engine::{Engine as _, Request, SnapshotWalker, Snapshots};
use walkfuzz_record::{
    Counter, Generation, Lane, Recorder, RunFacts, RunFolder, WalkOutcome, WalkerId,
};
use walkfuzz_walkers::TraceBuffer;

use crate::error::HarnessError;
use crate::feedback;
use crate::run;
use crate::session::breed::{CHILDREN, Nursery};
use crate::session::{InputVerdict, Mode};
use crate::settings::Settings;
use crate::snapshots::hits::Hits;
use crate::snapshots::set::{self, Known};
use crate::walks::{BatchReport, Bench, is_suspicious};

/// Batches that one snapshot serves before the next.
const SLICE: u64 = 4096;
/// Between two lines.
const EVERY: Duration = Duration::from_secs(5);

/// What a session has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Walks, controls included.
    pub walks: u64,
    /// Of those, walks that left their snapshot.
    pub left: u64,
    /// What the memory was for that such walks wanted to read, and how many of a sample did.
    pub left_for: BTreeMap<String, u64>,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// See [`walkfuzz_engine::Snapshots::chain`].
    pub chain: u64,
    /// Signatures that the puppet has confirmed, and those that it has not.
    pub signatures: (usize, usize),
    /// Pairs of perturbation and what it showed that was new.
    pub features: usize,
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
    batches: u64,
    walks: u64,
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
            batches: 0,
            walks: 0,
            left_for: BTreeMap::new(),
            last_line: (Instant::now(), 0),
            tick_hz: options.tick_hz as f64,
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
        if !self.nursery.take_child(data, &mut self.batch) {
            self.batch.decode_from(data);
        }
        if self.batch.arch != Arch::NATIVE {
            *self.batch = self.batch.adapt(Arch::NATIVE);
        }
        self.lane.begin_input(data);
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
        self.lane
            .begin_input(self.encoded.get(..length).unwrap_or(&[]));
        self.visit(self.slice())?;
        if self.account(false) {
            self.nursery.queue(&self.batch);
        }
        Ok(())
    }

    /// The snapshot whose turn it is.
    fn slice(&self) -> usize {
        (self.batches / SLICE) as usize % self.known.len()
    }

    fn visit(&mut self, snapshot: usize) -> Result<(), HarnessError> {
        let Self {
            engine,
            known,
            walker,
            lane,
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
        };
        engine.visit(&request, &mut |moment| {
            bench.walk_batch(moment, batch, trace, report);
        })?;
        self.batches += 1;
        self.walks += 1 + self.report.walks().len() as u64;
        Ok(())
    }

    /// Feedback, hits, upkeep. Whether a perturbation showed something new.
    fn account(&mut self, tell: bool) -> bool {
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
                self.pursue(index);
            }
        }
        if self.batches.is_multiple_of(SLICE / 4) {
            self.upkeep();
        }
        new
    }

    /// Has a new hit judged and written down.
    #[cold]
    fn pursue(&mut self, index: usize) {
        let snapshot = self.engine.held().map_or(0, |moment| moment.worker);
        let (Some(walk), Some(perturbation), Some(known), Some(moment)) = (
            self.report.walks().get(index),
            self.batch.walks().get(index),
            self.known.get(snapshot),
            self.engine.held(),
        ) else {
            return;
        };
        self.hits.saw(
            known,
            snapshot,
            &walk.outcome,
            perturbation,
            &moment.untouched,
            &self.batch,
            &self.facts,
        );
    }

    fn upkeep(&mut self) {
        let known = &self.known;
        let snapshot = self.engine.held().map_or(0, |moment| moment.worker);
        let left_for = &mut self.left_for;
        self.engine.left(|address| {
            let region = known.get(snapshot).map(|known| known.scene.region(address));
            *left_for
                .entry(region.unwrap_or_default().to_owned())
                .or_default() += 1;
        });
        let (last, walks) = self.last_line;
        let since = last.elapsed();
        if self.mode == Mode::Survey && since >= EVERY {
            let rate = (self.walks - walks) as f64 / since.as_secs_f64();
            eprintln!(
                "walkfuzz: {:.1} M walks, {:.0} k/s, {} signatures, {} features, snapshot {} of {}",
                self.walks as f64 / 1e6,
                rate / 1e3,
                self.hits.counts().0,
                self.nursery.pool.len(),
                snapshot + 1,
                self.known.len()
            );
            self.last_line = (Instant::now(), self.walks);
            self.flush();
        }
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
        Effort {
            walks: self.walks,
            left: self.engine.left(|_| {}),
            left_for: self.left_for.clone(),
            cpu_seconds: counts.cpu_nanoseconds as f64 / 1e9,
            chain: self.engine.chain(),
            signatures: self.hits.counts(),
            features: self.nursery.pool.len(),
        }
    }

    /// Walks the input in each snapshot; the first hit aborts.
    fn run_strictly(&mut self) -> Result<InputVerdict, HarnessError> {
        for snapshot in 0..self.known.len() {
            self.visit(snapshot)?;
            let hit = self
                .report
                .walks()
                .iter()
                .position(|walk| is_suspicious(&walk.outcome));
            let Some(index) = hit else { continue };
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
