//! What a frozen copy finds out about a suspect: does it come back, and how small can it be.
//!
//! Runs in a copy of the moment in which the walk faulted: single-threaded, may allocate, is ended when its time is over.
//! The answer goes back through a file, because the copy shares no heap with the process it came from.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walkfuzz_capsule::Opinion;
use walkfuzz_capsule::capture::{Ground, Keep};
use walkfuzz_context::tier::Tier;
use walkfuzz_context::{Address, Arch, Pc, Perturbation, Registers};
use walkfuzz_engine::{Ended, FrozenCopy, FrozenEnd, Moment, Shared, freeze};
use walkfuzz_guard::{keep_stacks, kept_stack, read_word};
use walkfuzz_record::finding::{
    FaultRegister, FindingBlob, FindingCapsule, FindingContradiction, FindingMoment,
    FindingRegisters,
};
use walkfuzz_record::{Generation, WalkOutcome};
use walkfuzz_reference::CheckedMemory;
use walkfuzz_symbols::{SymbolisedPc, unwind};
use walkfuzz_vmstructs::Tid;
use walkfuzz_walkers::{MAX_DEPTH, TraceBuffer, Walker};

use crate::capsules::{self, End, Wanted};
use crate::contradicted;
use crate::describe::{self, Control};
use crate::in_capsule::{Judge, perturbed};
use crate::meaning::Meanings;
use crate::minimise::minimise;
use crate::names::Names;
use crate::natural_states::natural_states;
use crate::needed;
use crate::opinion::{self, Asked};
use crate::oracle::{Given, Judging};
use crate::watch::Watch;
use crate::world::World;

/// Repetitions in further copies of the same moment.
pub(crate) const REPETITIONS: u64 = 3;
/// Walks that minimising may cost; a hang costs a second each.
const BUDGET: usize = 20_000;
const BUDGET_HANG: usize = 6;
/// How much of the walker's stack is kept for the backtrace: what 32 frames of libjvm take many times over.
const STACK_BYTES: usize = 256 << 10;
/// The function of libjvm that a walk begins in.
const ENTRY: &str = "AsyncGetCallTrace";
/// How long one copy may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);
/// How long one repetition may take: milliseconds, unless the machine is busy with other things.
pub(crate) const REPETITION_LIMIT: Duration = Duration::from_secs(8);

/// A walk that did what a maintainer should see.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Its signature.
    pub(crate) signature: String,
    /// What was done to the moment's context.
    pub(crate) perturbation: Perturbation,
    /// How many frames were asked for.
    pub(crate) depth: i32,
    /// The batch's choice of thread.
    pub(crate) thread: u8,
    /// The batch's single steps before its walks.
    pub(crate) steps: u8,
    /// What came of it.
    pub(crate) outcome: WalkOutcome,
}

/// What the copy found out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Examined {
    /// How many of the copies that came to an end gave the same signature, and how many did; [`REPETITIONS`] were made.
    pub(crate) repeated: (u64, u64),
    /// The smallest perturbation, as its stable bytes.
    pub(crate) perturbation: Vec<u8>,
    /// Its tier, as a number.
    pub(crate) tier: u8,
    /// How many walks the search took.
    pub(crate) walks: usize,
    /// The class of the context, as [`walkfuzz_context::NaturalClass::index`].
    pub(crate) class: usize,
    /// Registers before and after.
    pub(crate) registers: FindingRegisters,
    /// Where its frames and the oracle's part.
    #[serde(default)]
    pub(crate) contradiction: Option<FindingContradiction>,
    /// Where it faulted.
    pub(crate) fault_pc: u64,
    /// What it accessed.
    pub(crate) address: u64,
    /// The signal's code.
    pub(crate) code: i32,
    /// The faulting instruction.
    pub(crate) instruction: Option<String>,
    /// Native frames from the fault outwards, as text.
    pub(crate) backtrace: Vec<String>,
    /// The registers at the fault.
    pub(crate) at_the_fault: Vec<FaultRegister>,
    /// What was accessed, in words.
    pub(crate) accessed: Option<String>,
    /// As in the suspect: a smaller perturbation of the same batch is all that the search looks for.
    pub(crate) depth: i32,
    /// As in the suspect.
    pub(crate) thread: u8,
    /// As in the suspect.
    pub(crate) steps: u8,
    /// The walk in a file.
    #[serde(default)]
    pub(crate) capsule: FindingCapsule,
    /// The code at the walked pc.
    pub(crate) blob: FindingBlob,
    /// What the thread was doing.
    pub(crate) moment: FindingMoment,
}

/// Starts the examination of `suspect` in a copy of `moment`. Its result appears at `path`.
pub(crate) fn start(
    moment: &mut Moment,
    world: &mut World,
    walker: &dyn Walker,
    names: &Names,
    suspect: &Suspect,
    path: PathBuf,
    jvm: &str,
) -> std::io::Result<FrozenCopy> {
    freeze(moment, LIMIT, |moment| {
        let mut examiner = Examiner {
            world,
            walker,
            names,
            suspect,
            trace: TraceBuffer::new(),
            control: TraceBuffer::new(),
        };
        if let Some(examined) = examiner.examine(moment, &path, jvm) {
            let _ = write(&path, &examined);
        }
    })
}

/// Written beside and renamed, so that the reader never sees half of it.
fn write(path: &Path, examined: &Examined) -> std::io::Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, serde_json::to_vec(examined)?)?;
    std::fs::rename(beside, path)
}

/// Reads an examination's result, and removes it.
pub(crate) fn take(path: &Path) -> Option<Examined> {
    let bytes = std::fs::read(path).ok()?;
    let _ = std::fs::remove_file(path);
    serde_json::from_slice(&bytes).ok()
}

/// One walk that is not written down: in a copy, whose record is that of the process it came from.
pub(crate) fn walk_unrecorded(
    moment: &mut Moment,
    world: &mut World,
    walker: &dyn Walker,
    registers: &Registers,
    depth: i32,
    trace: &mut TraceBuffer,
) -> WalkOutcome {
    let Some(walked) = moment.walk(walker, registers, depth, trace) else {
        return WalkOutcome::Frames(0);
    };
    let mut outcome = walked.outcome(moment.fault(), depth);
    if let (Some(oracle), WalkOutcome::Frames(frames)) = (&world.oracle, outcome) {
        let judging = Judging {
            oracle,
            classifier: RefCell::new(&mut world.classifier),
            code: &world.code,
            landscape: &world.landscape,
            walk_mode: world.walk_mode,
        };
        let given = Given {
            walker,
            registers,
            depth,
            frames: trace.frames(frames as usize),
        };
        outcome = judging.outcome(moment, &given, outcome, None);
    }
    let mut watch = Watch {
        stack: &mut world.stack,
        code: &world.code,
        is_corrected: false,
    };
    let wrote = watch.blame(moment, walker, registers, depth, trace);
    wrote.map_or(outcome, WalkOutcome::Wrote)
}

struct Examiner<'a> {
    world: &'a mut World,
    walker: &'a dyn Walker,
    names: &'a Names,
    suspect: &'a Suspect,
    trace: Box<TraceBuffer>,
    control: Box<TraceBuffer>,
}

impl Examiner<'_> {
    fn examine(&mut self, moment: &mut Moment, result: &Path, jvm: &str) -> Option<Examined> {
        let untouched = moment.untouched;
        let given = self.suspect.perturbation;
        // The last survey may be hundreds of parks old, and threads run in code that was compiled since.
        self.world.look_at_code_again(Tid(moment.thread.tid));
        let start_tier = self.tier(&untouched, &self.registers(&untouched, &given));
        let natural = natural_states(self.world, &untouched);
        let budget = if self.suspect.outcome == WalkOutcome::Hang {
            BUDGET_HANG
        } else {
            BUDGET
        };
        let first = self.registers(&untouched, &given);
        let mut ground = self.ground(moment, &first, jvm);
        // What does not come back there is the copy's own to judge.
        let mut judge = ground.as_mut().ok().map(Judge::new).and_then(|mut judge| {
            self.is_suspect(judge.fault(&first).as_ref())
                .then_some(judge)
        });
        let (smallest, tier, walks) = minimise(
            Arch::NATIVE,
            &given,
            start_tier,
            &natural,
            budget,
            |candidate| {
                let registers = self.registers(&untouched, candidate);
                let same = self.has_signature(moment, &registers)
                    && judge
                        .as_mut()
                        .is_none_or(|judge| self.is_suspect(judge.fault(&registers).as_ref()));
                same.then(|| self.tier(&untouched, &registers))
            },
        );
        let after = self.registers(&untouched, &smallest);
        let mut repeated = (0, 0);
        for _ in 0..REPETITIONS {
            if let Some(same) = self.repeats_in_copy(moment, &after) {
                repeated = (repeated.0 + u64::from(same), repeated.1 + 1);
            }
        }
        let control = self.control(moment, &untouched);
        // Walk once more here, for the details of the smallest form.
        keep_stacks(Box::leak(vec![0; STACK_BYTES].into_boxed_slice()));
        let outcome = self.walk(moment, &after);
        let fault = *moment.fault();
        let contradiction = self.contradiction(moment, &after, &outcome);
        let backtrace = match outcome {
            WalkOutcome::Fault(_) | WalkOutcome::Hang => self.backtrace(&fault.registers),
            _ => Vec::new(),
        };
        let (fault_pc, address, code) = match outcome {
            WalkOutcome::Fault(fault) | WalkOutcome::Wrote(fault) => {
                (fault.pc.0, fault.address.0, fault.code)
            }
            _ => (fault.pc().0, 0, 0),
        };
        let end = match outcome {
            WalkOutcome::Fault(_) => Some(End::Fault(&fault)),
            WalkOutcome::WrongFrames(_) => Some(End::Frames(self.trace.hash(self.frames()))),
            _ => None,
        };
        let (capsule, kept) = if let Some(end) = end {
            let keep = Keep {
                registers: Some(after),
                signature: self.suspect.signature.clone(),
                perturbation: smallest.display(Arch::NATIVE).to_string(),
                perturbed: Some(perturbed(
                    &untouched,
                    &smallest,
                    tier,
                    &self.world.landscape,
                )),
                minimise: true,
                whole: Vec::new(),
            };
            let ground = ground.as_mut().map_err(|problem| problem.clone());
            let opinion = self.opinion(moment, &after, &outcome);
            capsules::of_walk(ground, &keep, &end, opinion, result)
        } else {
            (FindingCapsule::default(), None)
        };
        let tid = Tid(moment.thread.tid);
        let class = self.world.classifier.class(&self.world.code, &after);
        let java_thread = Address(moment.java_thread);
        let meanings = Meanings::new(self.world, &untouched, tid, java_thread);
        let faulted = matches!(outcome, WalkOutcome::Fault(_) | WalkOutcome::Hang);
        let has_address = matches!(outcome, WalkOutcome::Fault(_) | WalkOutcome::Wrote(_));
        let accessed = Some(address).filter(|_| has_address);
        let frames = usize::try_from(control.unwrap_or(0)).unwrap_or(0);
        let control = Control {
            returned: control,
            frames: self.control.frames(frames),
        };
        let mut told = describe::moment(&meanings, &untouched, &after, accessed, &control);
        if let Some(kept) = &kept {
            needed::describe(&meanings, kept, &mut told);
        }
        Some(Examined {
            capsule,
            repeated,
            perturbation: walkfuzz_context::codec::perturbation_to_bytes(Arch::NATIVE, &smallest),
            tier: tier as u8,
            walks,
            class: class.index(),
            registers: FindingRegisters {
                meanings: describe::registers(&meanings, &untouched, &after),
                ..FindingRegisters::new(&untouched, &after)
            },
            contradiction,
            fault_pc,
            address,
            code,
            instruction: describe::instruction(Pc(fault_pc)),
            backtrace,
            at_the_fault: if faulted {
                describe::at_the_fault(&meanings, &fault)
            } else {
                Vec::new()
            },
            accessed: accessed.and_then(|address| meanings.accessed(address, code)),
            depth: self.suspect.depth,
            thread: self.suspect.thread,
            steps: self.suspect.steps,
            blob: FindingBlob {
                offset_class: Some(class.offset.name().to_owned()),
                ..describe::code_at(meanings.world, after.pc())
            },
            moment: told,
        })
    }

    /// How many frames the last walk gave.
    fn frames(&self) -> usize {
        usize::try_from(self.walker.finish(&self.trace).0).unwrap_or(0)
    }

    /// What both walkers say of the context that was walked last.
    fn contradiction(
        &self,
        moment: &mut Moment,
        after: &Registers,
        outcome: &WalkOutcome,
    ) -> Option<FindingContradiction> {
        let WalkOutcome::WrongFrames(found) = outcome else {
            return None;
        };
        let oracle = self.world.oracle.as_ref()?;
        let given = self.trace.frames(self.frames());
        let expected = oracle.frames(moment, after, self.suspect.depth);
        Some(contradicted::frames(
            self.world,
            oracle.name(),
            found,
            given,
            &expected,
        ))
    }

    /// What the oracle says of the context that was walked last, for a capsule. Only the reference walker reads nothing but memory.
    fn opinion(
        &self,
        moment: &Moment,
        after: &Registers,
        outcome: &WalkOutcome,
    ) -> Option<Opinion> {
        let oracle = self.world.oracle.as_ref()?;
        if oracle.generation() != Generation::Reference {
            return None;
        }
        let given = match outcome {
            WalkOutcome::WrongFrames(_) => self.trace.frames(self.frames()),
            _ => &[],
        };
        let libjvm = self.world.modules.by_name("libjvm.so")?;
        let asked = Asked {
            walker: self.walker.name(),
            thread: Address(moment.java_thread),
            registers: after,
            depth: self.suspect.depth,
            given,
        };
        // What it lacks was said when the session began.
        opinion::record(CheckedMemory, &|name| libjvm.address_of(name), &asked).ok()
    }

    /// The memory of this moment, for walks in a puppet.
    fn ground(
        &mut self,
        moment: &mut Moment,
        registers: &Registers,
        jvm: &str,
    ) -> Result<Ground<'static>, String> {
        if !matches!(
            self.suspect.outcome,
            WalkOutcome::Fault(_) | WalkOutcome::WrongFrames(_)
        ) {
            return Err("a capsule holds a fault or frames, and this is neither".to_owned());
        }
        let wanted = Wanted {
            registers: *registers,
            depth: self.suspect.depth,
            jvm: jvm.to_owned(),
            keep: Keep::default(),
        };
        capsules::ground(moment, self.world, self.walker, &wanted, &mut self.trace)
    }

    /// The walk of the untouched context: its frames stay in `self.control`.
    fn control(&mut self, moment: &mut Moment, untouched: &Registers) -> Option<i32> {
        let depth = MAX_DEPTH as i32;
        let walked = moment.walk(self.walker, untouched, depth, &mut self.control)?;
        match walked.ended {
            Ended::Returned(code) => Some(code.0),
            Ended::Overran(_) | Ended::Broke(..) | Ended::Faulted => None,
        }
    }

    /// Where the last walk stood when it was given up, up to the walker's entry.
    fn backtrace(&self, registers: &Registers) -> Vec<String> {
        let kept = kept_stack();
        let read = |address| {
            kept.and_then(|kept| kept.word(address))
                .or_else(|| read_word(address).ok())
        };
        let is_entry = |frame: &SymbolisedPc| frame.short.as_deref() == Some(ENTRY);
        let mut frames = unwind(&self.world.modules, registers, read, is_entry);
        // A walker that is no function of libjvm's has been called by the guard, which is no part of it.
        let guard = |frame: &SymbolisedPc| {
            let name = frame.short.as_deref().unwrap_or_default();
            name.starts_with("walkfuzz_guard::")
        };
        if let Some(outside) = frames.iter().position(guard) {
            frames.truncate(outside);
        }
        frames.iter().map(ToString::to_string).collect()
    }

    fn registers(&self, untouched: &Registers, perturbation: &Perturbation) -> Registers {
        let mut registers = *untouched;
        perturbation.apply(&mut registers, &self.world.landscape);
        registers
    }

    fn tier(&mut self, before: &Registers, after: &Registers) -> Tier {
        let world = &mut *self.world;
        world.classifier.tier(
            &world.code,
            &world.landscape,
            before,
            after,
            world.walk_mode,
        )
    }

    fn walk(&mut self, moment: &mut Moment, registers: &Registers) -> WalkOutcome {
        let depth = self.suspect.depth;
        walk_unrecorded(
            moment,
            self.world,
            self.walker,
            registers,
            depth,
            &mut self.trace,
        )
    }

    fn has_signature(&mut self, moment: &mut Moment, registers: &Registers) -> bool {
        let outcome = self.walk(moment, registers);
        self.is_suspect(Some(&outcome))
    }

    fn is_suspect(&self, outcome: Option<&WalkOutcome>) -> bool {
        let signature = outcome.and_then(|outcome| {
            self.names
                .signature(&self.world.modules, self.walker, outcome)
        });
        signature.as_deref() == Some(&self.suspect.signature)
    }

    /// The same walk in a copy of this copy: nothing that was walked before can have left a trace.
    fn repeats_in_copy(&mut self, moment: &mut Moment, registers: &Registers) -> Option<bool> {
        let mut answer = Shared::new(false).ok()?;
        let seen = &raw mut *answer;
        let mut copy = freeze(moment, REPETITION_LIMIT, |moment| {
            let same = self.has_signature(moment, registers);
            // SAFETY: the mapping is shared, lives until the copy has ended, and is read only after that.
            unsafe { seen.write_volatile(same) };
        })
        .ok()?;
        (copy.wait() == FrozenEnd::Done).then_some(*answer)
    }
}
