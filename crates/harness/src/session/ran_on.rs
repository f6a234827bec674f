//! Walks of threads that run on: what a walker meets that does not hold the threads which it walks.

use std::cell::{Cell, RefCell};

use walkfuzz_context::{Address, WalkMode};
use walkfuzz_engine::{Behind, Request};
use walkfuzz_guard::Fault;
use walkfuzz_record::Counter;

use crate::error::HarnessError;
use crate::hunt::RanOn;

use super::{Mode, Session};

impl Session {
    /// Lets the held thread go and holds another moment; if the walker is one that lets threads run on, it walks the thread meanwhile, from the
    /// registers that it had.
    pub(super) fn walk_running(&mut self) -> Result<(), HarnessError> {
        let Self {
            mode,
            settings,
            engine,
            world,
            walker,
            walker_id,
            lane,
            trace,
            batch,
            hunt,
            ..
        } = self;
        if *mode != Mode::Survey || world.walk_mode != WalkMode::OtherThreadRunning {
            return Ok(());
        }
        let depth = i32::from(batch.depth.frames());
        let worker = engine.held().map(|moment| moment.worker);
        let world = RefCell::new(&mut *world);
        let request = Request {
            worker: worker.map(|worker| worker % settings.threads),
            kind: 0,
            steps: batch.steps,
            fresh: true,
            natural: &|moment| {
                world.borrow_mut().observe(&moment.untouched);
            },
        };
        let mut fault = Fault::NONE;
        let begun = Cell::new(None);
        let behind = Behind {
            walker: &**walker,
            depth,
            trace,
            fault: &mut fault,
            begin: &|moment| {
                let registers = moment.untouched;
                let kind = world.borrow().code.kind(Address(registers.pc().0));
                lane.begin_walk(u8::MAX, *walker_id, &registers, &registers, kind);
                lane.mark_perturbed();
                begun.set(Some((registers, moment.worker)));
            },
        };
        let walked = engine.let_go(&request, behind)?;
        let Some((walked, (registers, worker))) = walked.zip(begun.get()) else {
            return Ok(());
        };
        let outcome = walked.outcome(&fault, depth);
        lane.end_walk(&outcome, u32::try_from(walked.ticks).unwrap_or(u32::MAX));
        if walked.near_misses != 0 {
            lane.add(Counter::NearMisses, u64::from(walked.near_misses));
        }
        let walk = RanOn {
            registers,
            worker,
            depth,
            outcome,
        };
        hunt.ran_on(&walk, &mut world.borrow_mut(), &**walker);
        Ok(())
    }
}
