//! Threads that are held in Java.

use walkfuzz_context::Address;
use walkfuzz_engine::{Ended, Engine, Live, Moment, Request, Step};
use walkfuzz_harness::world::World;
use walkfuzz_reference::{CheckedMemory, Reference, ReferenceFrame};
use walkfuzz_walkers::{Agct, TraceBuffer, as_interrupted, behind_whole};

use crate::Options;
use crate::tally::{Pair, Tally};

const DEPTH: usize = 1024;
/// The reference has frames without methods as well.
const FRAMES: usize = 4 * DEPTH;
/// Moments after which another thread, and another kind of work, is looked at.
const TURN: u64 = 64;
const WORKS: u64 = 64;

struct Bench<'a> {
    world: &'a World,
    agct: &'a Agct,
    reference: &'a Reference,
    trace: Box<TraceBuffer>,
    frames: Vec<ReferenceFrame>,
    again: Vec<ReferenceFrame>,
    behind: Vec<ReferenceFrame>,
    /// Methods whose `jmethodID` was AsyncGetCallTrace's.
    ids: u64,
    tally: Tally,
}

impl Bench<'_> {
    fn compare(&mut self, moment: &mut Moment) {
        let registers = moment.untouched;
        let memory = &CheckedMemory;
        let thread = self
            .reference
            .thread(memory, Address(moment.java_thread))
            .unwrap();
        let walk = self
            .reference
            .walk(memory, &thread, &registers, &mut self.frames);
        let frames = &self.frames[..walk.frames];
        let again = as_interrupted(
            self.reference,
            &CheckedMemory,
            &thread,
            &registers,
            frames,
            &mut self.again,
        );
        let behind = behind_whole(
            self.reference,
            &CheckedMemory,
            &thread,
            &registers,
            frames,
            &mut self.behind,
        );
        let walked = moment
            .walk(self.agct, &registers, DEPTH as i32, &mut self.trace)
            .unwrap();
        let code = match walked.ended {
            Ended::Returned(code) => Some(code.0),
            _ => None,
        };
        let agct = self.trace.frames(code.unwrap_or(0).max(0) as usize);
        for (frame, agct) in frames
            .iter()
            .filter(|frame| frame.kind.has_method())
            .zip(agct)
        {
            let method = self.reference.method_of_id(memory, agct.method);
            if method == Some(frame.method) {
                let id = self.reference.id_of_method(memory, frame.method);
                assert_eq!(id, Some(agct.method), "the id of {:?}", frame.method);
                self.ids += 1;
            }
        }
        let resolve = |id| self.reference.method_of_id(memory, id).unwrap_or_default();
        let methods: Vec<Address> = agct.iter().map(|frame| resolve(frame.method)).collect();
        self.tally.add(
            self.world,
            &Pair {
                reference: self.reference,
                registers: &registers,
                thread: &thread,
                code,
                agct,
                methods: &methods,
                walk,
                frames,
                interrupted: &self.again[..again],
                whole: behind.map(|behind| &self.behind[..behind]),
                depth: DEPTH,
            },
        );
    }

    fn run(&mut self, engine: &mut dyn Engine, walks: u64, turn: u64, fresh: bool) {
        for index in 0..walks {
            let turn = index / turn;
            let request = Request {
                worker: Some(turn as usize % 4),
                kind: (1 + turn % WORKS) as u32,
                steps: 0,
                fresh,
                natural: &|_| {},
            };
            engine
                .visit(&request, &mut |moment| self.compare(moment))
                .unwrap();
        }
        assert!(self.ids > walks, "{} jmethodIDs in {walks} walks", self.ids);
    }
}

fn bench<'a>(
    mode: &'static str,
    world: &'a World,
    agct: &'a Agct,
    reference: &'a Reference,
    options: &Options,
) -> Bench<'a> {
    Bench {
        world,
        agct,
        reference,
        trace: TraceBuffer::new(),
        frames: vec![ReferenceFrame::NONE; FRAMES],
        again: vec![ReferenceFrame::NONE; FRAMES],
        behind: vec![ReferenceFrame::NONE; FRAMES],
        ids: 0,
        tally: Tally::new(mode, options.examples),
    }
}

/// Samples of threads in Java.
pub(crate) fn park(
    live: &mut Live,
    world: &World,
    agct: &Agct,
    reference: &Reference,
    options: &Options,
) -> Tally {
    let mut bench = bench("park", world, agct, reference, options);
    bench.run(live, options.walks, TURN, true);
    live.go_home().unwrap();
    bench.tally
}

/// Every instruction from there.
pub(crate) fn step(
    live: Live,
    world: &World,
    agct: &Agct,
    reference: &Reference,
    options: &Options,
) -> Tally {
    let mut bench = bench("step", world, agct, reference, options);
    let mut step = Step::new(live, 512).unwrap();
    bench.run(&mut step, options.walks * 10, 16 * TURN, false);
    step.go_home().unwrap();
    bench.tally
}
