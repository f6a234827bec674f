//! The walks of one input, at one moment: a control walk, then each perturbation.
//!
//! Runs on a held thread: allocates nothing, locks nothing. What came of it stands in a [`BatchReport`], which may lie in
//! memory that is shared with a frozen copy.

use walkfuzz_context::{
    Address, Batch, BlobKind, LandscapeTable, MAX_WALKS, Perturbation, Registers,
};
use walkfuzz_engine::{Moment, Written};
use walkfuzz_record::{Counter, Lane, WalkOutcome, WalkerId};
use walkfuzz_vmstructs::CodeMap;
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::blocks;
use crate::oracle::{Given, Judging};
use crate::watch::Watch;

/// What came of one walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkReport {
    /// Its outcome.
    pub outcome: WalkOutcome,
    /// SafeFetch faults on the way.
    pub near_misses: u32,
    /// Time inside the walker.
    pub ticks: u64,
    /// How its frames compare with the control's.
    pub relation: Relation,
    /// How many blocks of the walk code walks have reached by now.
    pub blocks: usize,
    /// What the walked pc lies in.
    pub kind: BlobKind,
    /// Whether anything came of it: a walk that leaves its snapshot has no outcome.
    pub made: bool,
}

impl WalkReport {
    const NONE: WalkReport = WalkReport {
        outcome: WalkOutcome::Frames(0),
        near_misses: 0,
        ticks: 0,
        relation: Relation::NONE,
        blocks: 0,
        kind: BlobKind::Outside,
        made: false,
    };
}

/// A walk's frames beside those of the untouched walk at the same moment. What a moment shows by chance (which methods run, how
/// deep) is the same in both, so that this tells perturbations apart and not moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Which of the control's frames the walk begins with; [`Relation::ELSEWHERE`] when it is none of the topmost.
    pub first: u8,
    /// How many frames it has more than the control from there on.
    pub longer: i32,
}

impl Relation {
    /// No frames to compare.
    pub const NONE: Relation = Relation {
        first: u8::MAX,
        longer: 0,
    };
    /// The walk's first frame is not among the control's first [`COMPARED`].
    pub const ELSEWHERE: u8 = COMPARED as u8;
}

/// How many of the control's frames a walk's first frame is looked for in.
pub const COMPARED: usize = 14;

/// What came of one input.
#[derive(Clone, Copy, Debug)]
pub struct BatchReport {
    /// The untouched walk.
    pub control: WalkReport,
    /// Number of the moment.
    pub serial: u64,
    /// Whether the untouched walk did what its walker should.
    pub did_well: bool,
    length: usize,
    /// Methods of the control's topmost frames, and how many frames it had.
    methods: [u64; COMPARED],
    frames: u32,
    walks: [WalkReport; MAX_WALKS],
}

impl BatchReport {
    /// Nothing walked yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            control: WalkReport::NONE,
            serial: 0,
            did_well: false,
            length: 0,
            methods: [0; COMPARED],
            frames: 0,
            walks: [WalkReport::NONE; MAX_WALKS],
        }
    }

    /// The perturbed walks, in the order of the batch.
    #[must_use]
    pub fn walks(&self) -> &[WalkReport] {
        self.walks.get(..self.length).unwrap_or(&[])
    }
}

impl Default for BatchReport {
    fn default() -> Self {
        Self::new()
    }
}

/// What a walk needs beside the moment.
pub struct Bench<'a> {
    /// The code under test.
    pub walker: &'a dyn Walker,
    /// Its number in the record.
    pub walker_id: WalkerId,
    /// What the value classes resolve to.
    pub landscape: &'a LandscapeTable,
    /// What an address lies in.
    pub code: &'a CodeMap,
    /// Where the walk is written down before it is made.
    pub lane: &'a Lane,
    /// Who judges frames.
    pub oracle: Option<Judging<'a>>,
}

impl Bench<'_> {
    /// Walks from `registers` and writes it down; `index` is the walk's place in the batch.
    #[inline]
    pub fn walk(
        &self,
        moment: &mut Moment,
        registers: &Registers,
        index: u8,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> WalkReport {
        let kind = self.code.kind(Address(registers.pc().0));
        self.walk_in(kind, moment, registers, index, depth, trace)
    }

    /// As [`walk`](Self::walk), when it is known what the pc lies in.
    #[inline]
    fn walk_in(
        &self,
        kind: BlobKind,
        moment: &mut Moment,
        registers: &Registers,
        index: u8,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> WalkReport {
        self.lane
            .begin_walk(index, self.walker_id, registers, &moment.untouched, kind);
        let Some(walked) = moment.walk(self.walker, registers, depth, trace) else {
            return WalkReport::NONE;
        };
        let outcome = walked.outcome(moment.fault(), depth);
        let outcome = self.judged(outcome, moment, registers, depth, trace);
        self.lane
            .end_walk(&outcome, u32::try_from(walked.ticks).unwrap_or(u32::MAX));
        if walked.near_misses != 0 {
            self.lane
                .add(Counter::NearMisses, u64::from(walked.near_misses));
        }
        WalkReport {
            outcome,
            near_misses: walked.near_misses,
            ticks: walked.ticks,
            relation: Relation::NONE,
            blocks: blocks::reached(),
            kind,
            made: true,
        }
    }

    /// The outcome when the oracle, if there is one, has seen the frames.
    #[inline]
    fn judged(
        &self,
        outcome: WalkOutcome,
        moment: &mut Moment,
        registers: &Registers,
        depth: i32,
        trace: &TraceBuffer,
    ) -> WalkOutcome {
        let (Some(judging), WalkOutcome::Frames(frames)) = (&self.oracle, outcome) else {
            return outcome;
        };
        let given = Given {
            walker: self.walker,
            registers,
            depth,
            frames: trace.frames(frames as usize),
        };
        judging.outcome(moment, &given, outcome, Some(self.lane))
    }

    /// The registers that `perturbation` makes of the moment's.
    #[inline]
    #[must_use]
    pub fn perturbed(&self, moment: &Moment, perturbation: &Perturbation) -> (Registers, u8) {
        perturbed(&moment.untouched, perturbation, self.landscape)
    }

    /// Walks the moment's own context.
    pub fn walk_control(
        &self,
        moment: &mut Moment,
        depth: i32,
        trace: &mut TraceBuffer,
        report: &mut BatchReport,
    ) {
        let untouched = moment.untouched;
        report.serial = moment.serial;
        report.length = 0;
        report.control = self.walk(moment, &untouched, u8::MAX, depth, trace);
        report.frames = match report.control.outcome {
            WalkOutcome::Frames(frames) => frames,
            _ => 0,
        };
        for (method, frame) in report.methods.iter_mut().zip(trace.frames(COMPARED)) {
            *method = frame.method;
        }
        report.did_well = self.did_well(&report.control.outcome);
        self.lane.control(report.did_well);
    }

    /// Whether a control walk succeeded.
    #[inline]
    #[must_use]
    pub fn did_well(&self, outcome: &WalkOutcome) -> bool {
        match outcome {
            WalkOutcome::Frames(frames) => *frames != 0,
            WalkOutcome::Error(code) => self.walker.did_well(*code),
            _ => false,
        }
    }

    /// Walks a whole batch, a control walk first.
    pub fn walk_batch(
        &self,
        moment: &mut Moment,
        batch: &Batch,
        trace: &mut TraceBuffer,
        report: &mut BatchReport,
    ) {
        let depth = i32::from(batch.depth.frames());
        self.walk_control(moment, depth, trace, report);
        let mut registers = moment.untouched;
        for (index, (perturbation, slot)) in
            (0_u8..).zip(batch.walks().iter().zip(report.walks.iter_mut()))
        {
            registers.assign(&moment.untouched);
            let unresolved = perturbation
                .apply(&mut registers, self.landscape)
                .unresolved;
            if unresolved != 0 {
                self.lane
                    .add(Counter::UnresolvedValues, u64::from(unresolved));
            }
            // Most perturbations leave the pc alone: one search for them all.
            let kind = if registers.pc() == moment.untouched.pc() {
                report.control.kind
            } else {
                self.code.kind(Address(registers.pc().0))
            };
            *slot = self.walk_in(kind, moment, &registers, index, depth, trace);
            if let WalkOutcome::Frames(frames) = slot.outcome
                && slot.made
            {
                slot.relation = relate(&report.methods, report.frames, trace, frames);
            }
            report.length += 1;
        }
    }

    /// Looks whether the batch that was just walked wrote to the held thread's stack. If so, finds the walk that did, makes that its
    /// outcome, and puts back what was there.
    #[inline]
    pub(crate) fn look_for_writes(
        &self,
        moment: &mut Moment,
        batch: &Batch,
        watch: &mut Watch<'_>,
        trace: &mut TraceBuffer,
        report: &mut BatchReport,
    ) {
        while let Some(written) = watch.written() {
            self.attribute(&written, moment, batch, watch, trace, report);
        }
    }

    #[cold]
    fn attribute(
        &self,
        written: &Written,
        moment: &mut Moment,
        batch: &Batch,
        watch: &mut Watch<'_>,
        trace: &mut TraceBuffer,
        report: &mut BatchReport,
    ) {
        let depth = i32::from(batch.depth.frames());
        let untouched = moment.untouched;
        let mut writes = |registers: &Registers, trace: &mut TraceBuffer| {
            let fault = watch.writer(written, moment, self.walker, registers, depth, trace)?;
            self.lane.add(Counter::StackWrites, 1);
            Some(WalkOutcome::Wrote(fault))
        };
        if let Some(wrote) = writes(&untouched, trace) {
            report.control.outcome = wrote;
            return;
        }
        for (perturbation, slot) in batch.walks().iter().zip(report.walks.iter_mut()) {
            let (registers, _) = perturbed(&untouched, perturbation, self.landscape);
            if let Some(wrote) = writes(&registers, trace) {
                slot.outcome = wrote;
                return;
            }
        }
        watch.leave(written);
    }
}

/// The registers that `perturbation` makes of `untouched`, and how many of its values did not resolve.
#[inline]
fn perturbed(
    untouched: &Registers,
    perturbation: &Perturbation,
    landscape: &LandscapeTable,
) -> (Registers, u8) {
    let mut registers = *untouched;
    let applied = perturbation.apply(&mut registers, landscape);
    (registers, applied.unresolved)
}

/// Compares a walk's frames, which stand in `trace`, with the control's.
#[inline]
fn relate(control: &[u64; COMPARED], deep: u32, trace: &TraceBuffer, frames: u32) -> Relation {
    let top = trace.frames(1).first().map_or(0, |frame| frame.method);
    let known = control.get(..(deep as usize).min(COMPARED)).unwrap_or(&[]);
    let first = known.iter().position(|method| *method == top);
    let skipped = first.unwrap_or(0) as u32;
    Relation {
        first: first.map_or(Relation::ELSEWHERE, |first| first as u8),
        longer: frames
            .wrapping_add(skipped)
            .wrapping_sub(deep)
            .cast_signed(),
    }
}

/// Whether a maintainer should see it.
#[must_use]
pub fn is_suspicious(outcome: &WalkOutcome) -> bool {
    match outcome {
        WalkOutcome::Frames(_) | WalkOutcome::Error(_) => false,
        WalkOutcome::Fault(_)
        | WalkOutcome::Hang
        | WalkOutcome::WrongFrames(_)
        | WalkOutcome::Breach(_)
        | WalkOutcome::Wrote(_) => true,
    }
}
