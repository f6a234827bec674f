//! Two walkers side by side: untouched contexts on held threads, perturbed ones in frozen copies of them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use walkfuzz_context::generate::blind;
use walkfuzz_context::{Address, Arch, Perturbation, Registers, Tier};
use walkfuzz_engine::{FrozenEnd, Moment, Request, Shared, freeze};
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Tid;
use walkfuzz_walkers::{Agreement, Explainer, TraceBuffer, Walker, compare, contradiction};

use crate::chosen;
use crate::compared::{Comparison, Example};
use crate::contradicted;
use crate::counted::{Counts, Plain};
use crate::describe::code_at;
use crate::error::HarnessError;
use crate::natural_states::natural_states;
use crate::oracle::{Oracle, walk};
use crate::settings::EngineKind;
use crate::watch::Watch;
use crate::world::World;

use super::Session;
use super::standing::{self, Voices};

/// What is compared, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct ComparePlan {
    /// At most so many contexts.
    pub contexts: u64,
    /// At most so long.
    pub time: Duration,
    /// Perturbed contexts in each frozen copy.
    pub in_copy: u64,
    /// The most frames of a walk.
    pub depth: i32,
    /// Of what is generated.
    pub seed: u64,
    /// At most so many threads are asked for their stack by JVMTI; it takes at most a quarter of the time.
    pub asked: u64,
}

/// Untouched contexts between two frozen copies, where each instruction is a moment.
const BETWEEN_COPIES: u64 = 256;
/// Moments after which another thread, and another kind of work, is looked at.
const MOMENTS_A_TURN: u64 = 256;
/// Kinds of work that a workload has; it takes them modulo what it has.
const WORKS: u64 = 64;
/// How long a copy may take: a fraction of a second, unless the machine is busy with other things.
const LIMIT: Duration = Duration::from_secs(20);
/// The clock is looked at after so many moments.
const LOOK: u64 = 64;

impl Session {
    /// Compares the session's walker with its oracle. `go_on` is asked every now and then.
    ///
    /// # Errors
    /// There is no oracle, no thread can be held any more, or examples cannot be written.
    pub fn compare(
        &mut self,
        plan: &ComparePlan,
        mut go_on: impl FnMut(&Counts) -> bool,
    ) -> Result<Comparison, HarnessError> {
        let system = |what| move |source| HarnessError::System { what, source };
        let path = self.run.path().join("examples.jsonl");
        let examples = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(system("cannot write the run folder's examples.jsonl"))?;
        let mut counts = Shared::new(Counts::new()).map_err(system("cannot map shared memory"))?;
        // JVMTI waits for threads that are held.
        self.engine.go_home()?;
        let Self {
            settings,
            engine,
            world,
            walker,
            jvm,
            ..
        } = self;
        let began = Instant::now();
        let oracle = world.oracle.take().ok_or(HarnessError::Variable {
            name: "WALKFUZZ_ORACLE",
            value: chosen::NO_ORACLE.to_owned(),
            wanted: "the walker to compare with".to_owned(),
        })?;
        let explainer = world.reference().ok();
        let explainer = explainer.and_then(|walker| walker.reference());
        let jvmti = match explainer.filter(|_| plan.asked > 0) {
            Some(reference) => {
                let voices = Voices {
                    jvm,
                    world,
                    walker: &**walker,
                    oracle: &oracle,
                    reference,
                };
                Some(standing::ask(&voices, plan, &mut || go_on(&counts))?)
            }
            None => None,
        };
        let mut pair = Pair {
            walker: &**walker,
            oracle: &oracle,
            depth: plan.depth,
            first: TraceBuffer::new(),
            second: TraceBuffer::new(),
            explainer: explainer
                .filter(|_| chosen::are_known(&**walker, oracle.walker()))
                .map(Explainer::new),
            examples,
        };
        let between = if settings.engine == EngineKind::Step {
            BETWEEN_COPIES
        } else {
            1
        };
        let mut moments = 0;
        let mut failed = None;
        while counts.contexts() < plan.contexts {
            if moments % LOOK == 0 && (began.elapsed() >= plan.time || !go_on(&counts)) {
                break;
            }
            let turn = moments / MOMENTS_A_TURN;
            let request = Request {
                worker: Some(turn as usize % settings.threads),
                kind: (1 + turn % WORKS) as u32,
                steps: 0,
                fresh: between == 1,
                natural: &|_| {},
            };
            let freezes = moments % between == 0 && plan.in_copy > 0;
            let counts = &mut *counts;
            engine.visit(&request, &mut |moment| {
                if !freezes {
                    let untouched = moment.untouched;
                    pair.compare(moment, world, &untouched, &Perturbation::UNTOUCHED, counts);
                    return;
                }
                world.meet(moment);
                if let Err(error) = in_copy(moment, world, &mut pair, plan, counts) {
                    failed = Some(error);
                }
            })?;
            if let Some(source) = failed.take() {
                return Err(system("cannot fork a frozen copy")(source));
            }
            moments += 1;
            if moments % LOOK == 0 {
                world.refresh(engine.counts().parks);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let names = [
            (walker.name(), walker.generation()),
            (oracle.name(), oracle.generation()),
        ];
        world.oracle = Some(oracle);
        Ok(Comparison {
            jvmti,
            ..Comparison::of(&counts, names, seconds, read(&path))
        })
    }
}

/// Compares in a frozen copy of the moment: the untouched context, what the code there passes through, and generated ones.
fn in_copy(
    moment: &mut Moment,
    world: &mut World,
    pair: &mut Pair<'_>,
    plan: &ComparePlan,
    counts: &mut Counts,
) -> std::io::Result<()> {
    counts.copies += 1;
    let shared = &raw mut *counts;
    let mut copy = freeze(moment, LIMIT, |moment| {
        // SAFETY: the mapping is shared, and the process that it came from waits for the copy's end.
        let counts = unsafe { &mut *shared };
        pair.copy(moment, world, plan, counts);
    })?;
    if copy.wait() != FrozenEnd::Done {
        counts.lost += 1;
    }
    Ok(())
}

/// Two walkers, with room for a walk of each.
struct Pair<'a> {
    walker: &'a dyn Walker,
    oracle: &'a Oracle,
    depth: i32,
    first: Box<TraceBuffer>,
    second: Box<TraceBuffer>,
    explainer: Option<Explainer<'static>>,
    examples: File,
}

impl Pair<'_> {
    /// In a frozen copy.
    fn copy(
        &mut self,
        moment: &mut Moment,
        world: &mut World,
        plan: &ComparePlan,
        counts: &mut Counts,
    ) {
        let untouched = moment.untouched;
        if world.code.blob(Address(untouched.pc().0)).is_none() {
            // Compiled since the last survey.
            world.look_at_code_again(Tid(moment.thread.tid));
        }
        let natural = natural_states(world, &untouched);
        let before = counts.contexts();
        let began = Instant::now();
        self.compare(moment, world, &untouched, &Perturbation::UNTOUCHED, counts);
        for perturbation in natural.iter().take(plan.in_copy as usize / 2) {
            let mut registers = untouched;
            perturbation.apply(&mut registers, &world.landscape);
            self.compare(moment, world, &registers, perturbation, counts);
        }
        let mut seed = plan.seed.wrapping_mul(1 << 40).wrapping_add(before);
        while counts.contexts() - before < plan.in_copy {
            seed = seed.wrapping_add(1);
            let batch = blind(seed);
            for perturbation in batch.walks() {
                let mut registers = untouched;
                perturbation.apply(&mut registers, &world.landscape);
                self.compare(moment, world, &registers, perturbation, counts);
            }
            // What a walk writes must not be another's stack.
            let mut watch = Watch {
                stack: &mut world.stack,
                code: &world.code,
                is_corrected: false,
            };
            watch.undo();
        }
        counts.in_copies += counts.contexts() - before;
        counts.nanoseconds_in_copies += began.elapsed().as_nanos() as u64;
    }

    /// Walks `registers` with both.
    #[inline]
    fn compare(
        &mut self,
        moment: &mut Moment,
        world: &mut World,
        registers: &Registers,
        perturbation: &Perturbation,
        counts: &mut Counts,
    ) {
        let first = walk(moment, self.walker, registers, self.depth, &mut self.first);
        let second = self
            .oracle
            .walk(moment, registers, self.depth, &mut self.second);
        let agreement = compare(
            self.first.frames(first.frames()),
            self.second.frames(second.frames()),
        );
        let mode = world.walk_mode;
        let tier = if *registers == moment.untouched {
            Tier::T0
        } else {
            let World {
                classifier,
                code,
                landscape,
                ..
            } = &mut *world;
            let before = &moment.untouched;
            classifier.tier(code, landscape, before, registers, mode)
        };
        counts.count(tier, [first, second], agreement);
        if matches!(
            agreement,
            Agreement::Differ { .. } | Agreement::Prefix { .. }
        ) {
            let walks = [first, second];
            self.explain(moment, world, registers, perturbation, walks, tier, counts);
        }
    }

    /// Why they do not agree; the first of a kind are written down.
    #[cold]
    #[expect(
        clippy::too_many_arguments,
        reason = "one comparison with all that belongs to it"
    )]
    fn explain(
        &mut self,
        moment: &Moment,
        world: &mut World,
        registers: &Registers,
        perturbation: &Perturbation,
        walks: [Plain; 2],
        tier: Tier,
        counts: &mut Counts,
    ) {
        let [first, second] = walks.map(Plain::frames);
        let (first, second) = (self.first.frames(first), self.second.frames(second));
        let known = match &mut self.explainer {
            // Where nobody can say who is right there is nothing to explain.
            Some(explainer) if tier < Tier::T4 => {
                let given = self.oracle.known_voice(self.walker, first, second);
                let depth = usize::try_from(self.depth).unwrap_or(0);
                explainer.explain(
                    &CheckedMemory,
                    Address(moment.java_thread),
                    registers,
                    given,
                    depth,
                )
            }
            _ => None,
        };
        let wanted = counts.explain(tier, known);
        let Agreement::Differ { at } = compare(first, second) else {
            return;
        };
        if !wanted {
            return;
        }
        if world.code.blob(Address(registers.pc().0)).is_none() {
            // Compiled since the last survey.
            world.look_at_code_again(Tid(moment.thread.tid));
        }
        let mut found = contradiction(first, second, at);
        found.known = known;
        let example = Example {
            tier: tier.name().to_owned(),
            perturbation: perturbation.display(Arch::NATIVE).to_string(),
            code: code_at(world, registers.pc()),
            contradiction: contradicted::frames(world, self.oracle.name(), &found, first, second),
        };
        if let Ok(line) = serde_json::to_string(&example) {
            // An example that cannot be kept does not change the counts.
            let _ = self.examples.write_all(format!("{line}\n").as_bytes());
        }
    }
}

fn read(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let examples = text.lines().map(serde_json::from_str);
    examples.map_while(Result::ok).collect()
}
