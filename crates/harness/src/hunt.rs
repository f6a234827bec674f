//! Findings of a session: noticed, examined in frozen copies, tried at other moments, written down.

mod ran_on;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use walkfuzz_context::codec::decode_perturbation;
use walkfuzz_context::{Batch, NaturalClass, Perturbation, Tier, Witness};
use walkfuzz_engine::{FrozenCopy, FrozenEnd, Moment};
use walkfuzz_record::{Finding, KOfN, OutcomeKind, RunFacts, RunFolder, WalkOutcome};
use walkfuzz_symbols::Modules;
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::assemble::{Parts, finding};
use crate::examine::{self, Examined, Suspect};
use crate::names::{self, Names};
use crate::settings::EngineKind;
use crate::walks::{BatchReport, Bench};
use crate::watch::Watch;
use crate::world::World;

pub(crate) use ran_on::RanOn;

/// Copies that may examine at the same time: each may use a core and the memory that the JVM changes meanwhile.
const COPIES: usize = 2;
/// Other moments that a confirmed finding is tried at.
pub(crate) const MOMENTS: u64 = 100;
/// The same for a walk that hangs: each try holds a thread for up to twice the hang's limit.
const HANGING_MOMENTS: u64 = 10;
/// How often an examination is tried before it is given up.
const ATTEMPTS: u32 = 3;
/// How long the end of a run waits for examinations under way.
const LAST_WAIT: Duration = Duration::from_secs(25);

/// Where a signature stands.
enum Stage {
    /// Not examined yet, or not with success.
    Noticed,
    /// A copy is at work.
    Examining(Box<Examination>),
    /// Examined; being tried at other moments.
    Examined,
    /// Given up, or done.
    Settled,
}

struct Examination {
    copy: FrozenCopy,
    result: PathBuf,
}

/// One signature.
struct Case {
    signature: String,
    stage: Stage,
    attempts: u32,
    finding: Finding,
    class: Option<NaturalClass>,
    tier: Tier,
    perturbation: Perturbation,
    depth: i32,
    elsewhere: KOfN,
    /// Occurrences that are not written down yet.
    unwritten: u64,
    /// Its thread ran on while it was walked: no copy has that moment.
    ran_on: bool,
}

impl Case {
    /// Other moments that it is tried at.
    fn moments(&self) -> u64 {
        match self.finding.outcome.kind {
            OutcomeKind::Hang => HANGING_MOMENTS,
            _ => MOMENTS,
        }
    }
}

/// All signatures of a session.
pub(crate) struct Hunt {
    run: Arc<RunFolder>,
    facts: RunFacts,
    engine: EngineKind,
    names: Names,
    /// From (signal, pc) to the case.
    sites: HashMap<(i32, u64), usize>,
    cases: Vec<Case>,
    examinations: u32,
    recovered: bool,
    last_new: Option<Instant>,
    /// Whether it was said that findings cannot be written.
    complained: bool,
}

/// What the progress line shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Signatures.
    pub(crate) signatures: usize,
    /// Of those, examined.
    pub(crate) examined: usize,
    /// Signatures per tier.
    pub(crate) tiers: [usize; 5],
    /// When the last new one came.
    pub(crate) last_new: Option<Instant>,
}

impl Hunt {
    pub(crate) fn new(
        run: Arc<RunFolder>,
        facts: RunFacts,
        engine: EngineKind,
        names: Names,
    ) -> Self {
        Self {
            run,
            facts,
            engine,
            names,
            sites: HashMap::new(),
            cases: Vec::new(),
            examinations: 0,
            recovered: false,
            last_new: None,
            complained: false,
        }
    }

    /// The JVM's version.
    pub(crate) fn jvm_version(&self) -> &str {
        &self.facts.jvm.version
    }

    /// The JVM.
    pub(crate) fn jvm(&self) -> &walkfuzz_record::JvmFacts {
        &self.facts.jvm
    }

    /// Counts an occurrence. True if somebody should [`pursue`](Self::pursue) it.
    pub(crate) fn notice(&mut self, outcome: &WalkOutcome) -> bool {
        let Some(&case) = self.sites.get(&names::site(outcome)) else {
            return true;
        };
        let Some(case) = self.cases.get_mut(case) else {
            return false;
        };
        case.unwritten += 1;
        matches!(case.stage, Stage::Noticed) && self.running() < COPIES
    }

    fn running(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| matches!(case.stage, Stage::Examining(_)))
            .count()
    }

    /// The signature of an outcome, for messages.
    pub(crate) fn signature(
        &self,
        modules: &Modules,
        walker: &dyn Walker,
        outcome: &WalkOutcome,
    ) -> String {
        self.names
            .signature(modules, walker, outcome)
            .map_or_else(String::new, |text| text.to_string())
    }

    /// Opens a case, or examines one that has waited. `index` is the walk's place in the batch; past its end: the control.
    pub(crate) fn pursue(
        &mut self,
        moment: &mut Moment,
        world: &mut World,
        walker: &dyn Walker,
        batch: &Batch,
        index: usize,
        report: &BatchReport,
    ) {
        let outcome = report
            .walks()
            .get(index)
            .map_or(report.control.outcome, |walk| walk.outcome);
        let perturbation = batch
            .walks()
            .get(index)
            .copied()
            .unwrap_or(Perturbation::UNTOUCHED);
        let Some(signature) = self.names.signature(&world.modules, walker, &outcome) else {
            return;
        };
        let suspect = Suspect {
            signature: signature.to_string(),
            perturbation,
            depth: i32::from(batch.depth.frames()),
            thread: batch.thread,
            steps: batch.steps,
            outcome,
        };
        let case = match self
            .cases
            .iter()
            .position(|case| *case.signature == *signature)
        {
            Some(case) => case,
            None => self.open(moment, world, walker, batch, &suspect),
        };
        self.sites.insert(names::site(&outcome), case);
        // Wrong frames come of a walk that returned: nothing was skipped.
        self.recovered |= !matches!(outcome, WalkOutcome::WrongFrames(_));
        if self.running() >= COPIES {
            return;
        }
        let result = self.run.path().join(format!(
            "examined-{}-{}.json",
            std::process::id(),
            self.examinations
        ));
        self.examinations += 1;
        let Some(case) = self.cases.get_mut(case) else {
            return;
        };
        if !matches!(case.stage, Stage::Noticed) {
            return;
        }
        case.attempts += 1;
        let jvm = &self.facts.jvm.version;
        match examine::start(
            moment,
            world,
            walker,
            &self.names,
            &suspect,
            result.clone(),
            jvm,
        ) {
            Ok(copy) => case.stage = Stage::Examining(Box::new(Examination { copy, result })),
            Err(_) if case.attempts >= ATTEMPTS => case.stage = Stage::Settled,
            Err(_) => {}
        }
    }

    /// Writes a new signature down at once, with what is known so far.
    fn open(
        &mut self,
        moment: &Moment,
        world: &mut World,
        walker: &dyn Walker,
        batch: &Batch,
        suspect: &Suspect,
    ) -> usize {
        let mut alone = *batch;
        alone.set_walks(&[suspect.perturbation]);
        let mut after = moment.untouched;
        suspect.perturbation.apply(&mut after, &world.landscape);
        let tier = world.classifier.tier(
            &world.code,
            &world.landscape,
            &moment.untouched,
            &after,
            world.walk_mode,
        );
        let class = world.classifier.class(&world.code, &after);
        let finding = finding(&Parts {
            run: &self.run,
            facts: &self.facts,
            world,
            walker,
            oracle: self.names.oracle(),
            engine: self.engine,
            suspect,
            batch: &alone,
            untouched: &moment.untouched,
            worker: moment.worker,
            after: &after,
            tier,
            witness: world.witness.witness(class),
            tainted: self.recovered,
        });
        self.append(&finding);
        self.last_new = Some(Instant::now());
        self.cases.push(Case {
            signature: suspect.signature.clone(),
            stage: Stage::Noticed,
            attempts: 0,
            finding,
            class: Some(class),
            tier,
            perturbation: suspect.perturbation,
            depth: suspect.depth,
            elsewhere: KOfN::new(0, 0),
            unwritten: 0,
            ran_on: false,
        });
        self.cases.len() - 1
    }

    /// Tries confirmed findings at a new moment.
    pub(crate) fn try_elsewhere(
        &mut self,
        moment: &mut Moment,
        bench: &Bench<'_>,
        watch: &mut Watch<'_>,
        modules: &Modules,
        trace: &mut TraceBuffer,
    ) {
        for case in &mut self.cases {
            let done = case.elsewhere.of >= case.moments();
            if !matches!(case.stage, Stage::Examined) || done || case.ran_on {
                continue;
            }
            let (registers, _) = bench.perturbed(moment, &case.perturbation);
            let walk = bench.walk(moment, &registers, u8::MAX, case.depth, trace);
            let wrote = watch.blame(moment, bench.walker, &registers, case.depth, trace);
            let outcome = wrote.map_or(walk.outcome, WalkOutcome::Wrote);
            let same = self.names.signature(modules, bench.walker, &outcome);
            let again = u64::from(same.as_deref() == Some(&*case.signature));
            case.elsewhere = KOfN::new(case.elsewhere.k + again, case.elsewhere.of + 1);
        }
    }

    /// Collects finished examinations, and writes down what has changed.
    pub(crate) fn poll(&mut self, world: &World) {
        for index in 0..self.cases.len() {
            let Some(case) = self.cases.get_mut(index) else {
                continue;
            };
            let moments = case.moments();
            match &mut case.stage {
                Stage::Examining(examination) => {
                    let Some(end) = examination.copy.poll() else {
                        continue;
                    };
                    let examined = examine::take(&examination.result);
                    let done = end == FrozenEnd::Done;
                    self.examined(index, examined.filter(|_| done), world);
                }
                Stage::Examined if case.elsewhere.of >= moments => {
                    case.stage = Stage::Settled;
                    self.write(index, world);
                }
                _ => {}
            }
        }
    }

    fn examined(&mut self, index: usize, examined: Option<Examined>, world: &World) {
        let Some(case) = self.cases.get_mut(index) else {
            return;
        };
        let Some(examined) = examined else {
            case.stage = if case.attempts >= ATTEMPTS {
                Stage::Settled
            } else {
                Stage::Noticed
            };
            return;
        };
        case.stage = Stage::Examined;
        case.perturbation = decode_perturbation(&examined.perturbation).1;
        case.tier = Tier::ALL
            .get(usize::from(examined.tier))
            .copied()
            .unwrap_or(Tier::T4);
        case.class = NaturalClass::from_index(examined.class);
        crate::assemble::refine(&self.run, &mut case.finding, &examined, &case.perturbation);
        self.write(index, world);
    }

    /// Appends the finding as it stands now, with the occurrences since it was last written.
    fn write(&mut self, index: usize, world: &World) {
        let Some(case) = self.cases.get_mut(index) else {
            return;
        };
        let witness = case
            .class
            .map_or(Witness::default(), |class| world.witness.witness(class));
        crate::assemble::judge(&mut case.finding, case.tier, witness, case.elsewhere);
        case.finding.count = case.unwritten;
        case.finding.last_seen = Timestamp::now();
        let finding = case.finding.clone();
        if self.append(&finding)
            && let Some(case) = self.cases.get_mut(index)
        {
            case.unwritten = 0;
        }
    }

    /// Whether it was written; if not, says so once, since a full disk stays full for a while.
    fn append(&mut self, finding: &Finding) -> bool {
        match self.run.append_finding(finding) {
            Ok(_) => true,
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    eprintln!("walkfuzz: {error}; findings are counted, but not kept");
                }
                false
            }
        }
    }

    /// Waits for examinations under way, and writes everything down.
    pub(crate) fn finish(&mut self, world: &World) {
        /// A wait that nobody notices needs no word.
        const NOTICEABLE: Duration = Duration::from_millis(500);
        let began = Instant::now();
        let mut said = false;
        while self.running() > 0 && began.elapsed() < LAST_WAIT {
            self.poll(world);
            if !said && began.elapsed() > NOTICEABLE {
                said = true;
                eprintln!(
                    "walkfuzz: waiting for {} examinations, at most {} s; Ctrl-C spares the wait",
                    self.running(),
                    LAST_WAIT.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for index in 0..self.cases.len() {
            self.write(index, world);
        }
    }

    /// For the progress line.
    pub(crate) fn found(&self) -> Found {
        let mut found = Found {
            signatures: self.cases.len(),
            last_new: self.last_new,
            ..Found::default()
        };
        for case in &self.cases {
            found.examined += usize::from(matches!(case.stage, Stage::Examined | Stage::Settled));
            if let Some(count) = found.tiers.get_mut(case.tier as usize) {
                *count += 1;
            }
        }
        found
    }
}
