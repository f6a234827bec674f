//! The second opinion: another walker walks the same context at the same held moment, and says whether the frames are right.
//!
//! Two walkers may differ at a context that no thread can be in, and nobody can say which of them is right. So frames are wrong only where that is proven:
//! at an untouched context; where the oracle gives the very frames that both walkers give for the untouched context of the moment, which is what is on the
//! stack; and at a context that the code passes through (T1 and T2), if both walkers agree on the untouched one. A context of T3 has pc, sp and fp of
//! different moments over the stack of another one, and no right answer. All else is unproven, and counted.
//!
//! Where AsyncGetCallTrace is the oracle, the reference has a say as well: the known mistakes of AsyncGetCallTrace convict nobody.
//! A walk that ends too early contradicts nothing.
//!
//! Runs on a held thread, in the flow. Agreeing walks allocate nothing.

use std::cell::RefCell;

use walkfuzz_context::{Address, LandscapeTable, Registers, Tier, WalkMode};
use walkfuzz_engine::Moment;
use walkfuzz_record::{Contradiction, Counter, Generation, Lane, WalkOutcome};
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::CodeMap;
use walkfuzz_walkers::{
    Agreement, Explainer, Frame, MAX_DEPTH, TraceBuffer, Voice, Walker, compare, contradiction,
};

use crate::chosen;
use crate::classify::Classifier;
use crate::counted::Plain;

/// A walker beside the walker under test.
pub struct Oracle {
    walker: Box<dyn Walker>,
    room: RefCell<Room>,
}

/// What judging needs; one buffer is one walk's.
struct Room {
    /// The oracle's frames.
    said: Box<TraceBuffer>,
    /// The walker's frames of the untouched context.
    control: Box<TraceBuffer>,
    /// The oracle's frames of the untouched context.
    truth: Box<TraceBuffer>,
    known: Known,
    explainer: Option<Explainer<'static>>,
}

/// What the untouched context of a moment has shown.
#[derive(Clone, Copy)]
struct Known {
    /// The moment's serial number.
    moment: u64,
    /// Whose frames they are, and how many, if the two walkers do not contradict each other.
    frames: Option<(Voice, usize)>,
}

/// What the oracle says to a walk that gave frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It gives no frames itself.
    Silent,
    /// The same frames.
    Agreed,
    /// The same frames as far as the shorter walk goes.
    Prefix,
    /// Other frames, at a context of which nobody can say what is right.
    Unproven,
    /// Other frames, and it is the oracle that is wrong, in a known way.
    Known,
    /// Frames that are wrong.
    Wrong(Contradiction),
}

/// A walk that gave frames.
pub(crate) struct Given<'a> {
    /// The walker.
    pub(crate) walker: &'a dyn Walker,
    /// What it walked.
    pub(crate) registers: &'a Registers,
    /// How many frames it was asked for.
    pub(crate) depth: i32,
    /// What it gave.
    pub(crate) frames: &'a [Frame],
}

impl Oracle {
    /// `explainer` knows the differences between AsyncGetCallTrace and the reference; without AsyncGetCallTrace there are none to explain.
    #[must_use]
    pub fn new(walker: Box<dyn Walker>, explainer: Option<Explainer<'static>>) -> Self {
        Self {
            walker,
            room: RefCell::new(Room {
                said: TraceBuffer::new(),
                control: TraceBuffer::new(),
                truth: TraceBuffer::new(),
                known: Known {
                    moment: 0,
                    frames: None,
                },
                explainer,
            }),
        }
    }

    /// Its walker's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.walker.name()
    }

    /// Its walker.
    pub(crate) fn walker(&self) -> &dyn Walker {
        &*self.walker
    }

    /// Whose codes it speaks.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.walker.generation()
    }

    /// Its own walk of a context.
    #[inline]
    pub(crate) fn walk(
        &self,
        moment: &mut Moment,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Plain {
        walk(moment, &*self.walker, registers, depth, trace)
    }

    /// Of the frames of `walker` and its own, those whose ways are known: the reference explains the others.
    pub(crate) fn known_voice<'f>(
        &self,
        walker: &dyn Walker,
        first: &'f [Frame],
        second: &'f [Frame],
    ) -> &'f [Frame] {
        if walker.generation() == Generation::Reference {
            second
        } else {
            first
        }
    }

    /// Judges a walk of `moment`. `tier` says how natural the walked context is; it is asked where that matters.
    pub(crate) fn judge(
        &self,
        moment: &mut Moment,
        given: &Given<'_>,
        tier: impl FnOnce() -> Tier,
    ) -> Judgement {
        let Ok(mut room) = self.room.try_borrow_mut() else {
            return Judgement::Silent;
        };
        let room = &mut *room;
        let walker = &*self.walker;
        let said = walk(moment, walker, given.registers, given.depth, &mut room.said).frames();
        match compare(given.frames, room.said.frames(said)) {
            Agreement::Agree => Judgement::Agreed,
            Agreement::Prefix { .. } => Judgement::Prefix,
            Agreement::Differ { at } => {
                if self.is_proven(room, moment, given, said, tier) {
                    excused(room, moment, given, said).unwrap_or_else(|| {
                        Judgement::Wrong(contradicted(room, moment, given, said, at))
                    })
                } else {
                    Judgement::Unproven
                }
            }
            Agreement::OnlyFirst | Agreement::OnlySecond | Agreement::Neither => Judgement::Silent,
        }
    }

    /// The oracle's frames of a context, for reports.
    pub(crate) fn frames(
        &self,
        moment: &mut Moment,
        registers: &Registers,
        depth: i32,
    ) -> Vec<Frame> {
        let Ok(mut room) = self.room.try_borrow_mut() else {
            return Vec::new();
        };
        let count = walk(moment, &*self.walker, registers, depth, &mut room.said).frames();
        room.said.frames(count).to_vec()
    }

    /// Whether the oracle's frames are right.
    #[cold]
    fn is_proven(
        &self,
        room: &mut Room,
        moment: &mut Moment,
        given: &Given<'_>,
        said: usize,
        tier: impl FnOnce() -> Tier,
    ) -> bool {
        if *given.registers == moment.untouched {
            return true;
        }
        let Some((voice, frames)) = self.control(room, moment, given.walker) else {
            return false;
        };
        let truth = match voice {
            Voice::First => room.control.frames(frames),
            Voice::Second => room.truth.frames(frames),
        };
        let depth = usize::try_from(given.depth).unwrap_or(0);
        let truth = truth.get(..depth).unwrap_or(truth);
        compare(room.said.frames(said), truth) == Agreement::Agree || tier() <= Tier::T2
    }

    /// The frames of the moment's untouched context, if the walkers do not contradict each other there.
    fn control(
        &self,
        room: &mut Room,
        moment: &mut Moment,
        walker: &dyn Walker,
    ) -> Option<(Voice, usize)> {
        if room.known.moment != moment.serial {
            let depth = MAX_DEPTH as i32;
            let untouched = moment.untouched;
            let first = walk(moment, walker, &untouched, depth, &mut room.control).frames();
            let second = walk(moment, &*self.walker, &untouched, depth, &mut room.truth).frames();
            let frames = match compare(room.control.frames(first), room.truth.frames(second)) {
                Agreement::Agree
                | Agreement::Prefix {
                    shorter: Voice::First,
                    ..
                } => Some((Voice::Second, second)),
                Agreement::Prefix {
                    shorter: Voice::Second,
                    ..
                } => Some((Voice::First, first)),
                _ => None,
            };
            room.known = Known {
                moment: moment.serial,
                frames,
            };
        }
        room.known.frames
    }
}

/// What there is to say instead of "wrong" where the oracle may be AsyncGetCallTrace with a mistake of its own: the reference speaks for the walker.
#[cold]
fn excused(room: &mut Room, moment: &Moment, given: &Given<'_>, said: usize) -> Option<Judgement> {
    // AsyncGetCallTrace under test is judged by others: there is an explainer for its own frames.
    if chosen::is_agct(given.walker) {
        return None;
    }
    let explainer = room.explainer.as_mut()?;
    let thread = Address(moment.java_thread);
    let depth = usize::try_from(given.depth).unwrap_or(0);
    let (memory, registers) = (&CheckedMemory, given.registers);
    let known = explainer.explain(memory, thread, registers, room.said.frames(said), depth);
    if given.walker.generation() == Generation::Reference {
        return known.map(|_| Judgement::Known);
    }
    let third = explainer.frames(memory, thread, registers, depth);
    match compare(given.frames, &third) {
        Agreement::Agree | Agreement::Prefix { .. } if known.is_some() => Some(Judgement::Known),
        Agreement::Agree | Agreement::Prefix { .. } => Some(Judgement::Unproven),
        _ => None,
    }
}

/// What is wrong, and why, where that is understood: of AsyncGetCallTrace's frames.
#[cold]
fn contradicted(
    room: &mut Room,
    moment: &Moment,
    given: &Given<'_>,
    said: usize,
    at: usize,
) -> Contradiction {
    let mut found = contradiction(given.frames, room.said.frames(said), at);
    let explainer = room.explainer.as_mut();
    let explainer = explainer.filter(|_| chosen::is_agct(given.walker));
    found.known = explainer.and_then(|explainer| {
        let thread = Address(moment.java_thread);
        let depth = usize::try_from(given.depth).unwrap_or(0);
        explainer.explain(&CheckedMemory, thread, given.registers, given.frames, depth)
    });
    found
}

/// Walks, and nothing else.
#[inline]
pub(crate) fn walk(
    moment: &mut Moment,
    walker: &dyn Walker,
    registers: &Registers,
    depth: i32,
    trace: &mut TraceBuffer,
) -> Plain {
    Plain::of(moment.walk(walker, registers, depth, trace), depth)
}

/// The oracle, with what it needs to tell how natural a context is.
pub struct Judging<'a> {
    /// The oracle.
    pub(crate) oracle: &'a Oracle,
    /// Tells tiers.
    pub(crate) classifier: RefCell<&'a mut Classifier>,
    /// What an address lies in.
    pub(crate) code: &'a CodeMap,
    /// What the value classes resolve to.
    pub(crate) landscape: &'a LandscapeTable,
    /// How the walker gets its context.
    pub(crate) walk_mode: WalkMode,
}

impl Judging<'_> {
    /// What is left of `outcome` when the oracle has seen the frames; `lane`, if any, counts what it said.
    pub(crate) fn outcome(
        &self,
        moment: &mut Moment,
        given: &Given<'_>,
        outcome: WalkOutcome,
        lane: Option<&Lane>,
    ) -> WalkOutcome {
        let untouched = moment.untouched;
        let tier = || match self.classifier.try_borrow_mut() {
            Ok(mut classifier) => classifier.tier(
                self.code,
                self.landscape,
                &untouched,
                given.registers,
                self.walk_mode,
            ),
            Err(_) => Tier::T4,
        };
        let judgement = self.oracle.judge(moment, given, tier);
        if let Some(lane) = lane {
            let more = match judgement {
                Judgement::Silent => return outcome,
                Judgement::Agreed => Some(Counter::OracleAgreed),
                Judgement::Prefix => Some(Counter::OraclePrefixes),
                Judgement::Unproven => Some(Counter::OracleUnproven),
                Judgement::Known => Some(Counter::OracleKnown),
                Judgement::Wrong(_) => None,
            };
            lane.add(Counter::OracleCompared, 1);
            if let Some(counter) = more {
                lane.add(counter, 1);
            }
        }
        match judgement {
            Judgement::Wrong(contradiction) => WalkOutcome::WrongFrames(contradiction),
            _ => outcome,
        }
    }
}
