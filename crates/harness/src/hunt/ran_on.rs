//! Findings in walks of threads that ran on: registers of one moment over the stack of later ones.
//!
//! No copy has such a moment, so that nothing is examined or minimised. What can be done again is the same use at other moments, which other threads'
//! runs are: each later walk of a thread that runs on is a try.

use std::time::Instant;

use walkfuzz_context::{Arch, Batch, Perturbation, Registers, Tier};
use walkfuzz_record::{KOfN, WalkOutcome};
use walkfuzz_walkers::Walker;

use super::{Case, Hunt, Stage};
use crate::assemble::{Parts, finding};
use crate::examine::Suspect;
use crate::names;
use crate::walks::is_suspicious;
use crate::world::World;

/// A walk of a thread that ran on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RanOn {
    /// Its registers when it was held.
    pub(crate) registers: Registers,
    /// Who it was.
    pub(crate) worker: usize,
    /// As many frames as were asked for.
    pub(crate) depth: i32,
    /// What came of it.
    pub(crate) outcome: WalkOutcome,
}

impl Hunt {
    /// Counts a walk of a thread that ran on, and writes a new finding down.
    pub(crate) fn ran_on(&mut self, walk: &RanOn, world: &mut World, walker: &dyn Walker) {
        let suspicious = is_suspicious(&walk.outcome);
        let signature = suspicious
            .then(|| self.names.signature(&world.modules, walker, &walk.outcome))
            .flatten();
        for case in &mut self.cases {
            let same = signature.as_deref() == Some(&*case.signature);
            if case.ran_on && case.elsewhere.of < case.moments() {
                let elsewhere = case.elsewhere;
                case.elsewhere = KOfN::new(elsewhere.k + u64::from(same), elsewhere.of + 1);
            }
        }
        let Some(signature) = signature else {
            return;
        };
        self.recovered |= !matches!(walk.outcome, WalkOutcome::WrongFrames(_));
        let known = self
            .cases
            .iter()
            .position(|case| *case.signature == *signature);
        match known.and_then(|index| self.cases.get_mut(index)) {
            // What held threads showed with registers that none ever had, this one shows with its own.
            Some(case) if case.tier > Tier::T3 && !matches!(case.stage, Stage::Examining(_)) => {}
            Some(case) => {
                case.unwritten += 1;
                return;
            }
            None => {}
        }
        let case = self.open_ran_on(&signature, walk, world, walker);
        let index = known.unwrap_or(self.cases.len());
        self.sites.insert(names::site(&walk.outcome), index);
        match self.cases.get_mut(index) {
            Some(known) => {
                let unwritten = known.unwritten;
                *known = Case { unwritten, ..case };
            }
            None => {
                self.last_new = Some(Instant::now());
                self.cases.push(case);
            }
        }
    }

    fn open_ran_on(
        &mut self,
        signature: &str,
        walk: &RanOn,
        world: &mut World,
        walker: &dyn Walker,
    ) -> Case {
        let suspect = Suspect {
            signature: signature.to_owned(),
            perturbation: Perturbation::UNTOUCHED,
            depth: walk.depth,
            thread: 0,
            steps: 0,
            outcome: walk.outcome,
        };
        let class = world.classifier.class(&world.code, &walk.registers);
        let finding = finding(&Parts {
            run: &self.run,
            facts: &self.facts,
            world,
            walker,
            oracle: self.names.oracle(),
            engine: self.engine,
            suspect: &suspect,
            batch: &Batch::untouched(Arch::NATIVE),
            untouched: &walk.registers,
            worker: walk.worker,
            after: &walk.registers,
            tier: Tier::T3,
            witness: world.witness.witness(class),
            tainted: self.recovered,
        });
        self.append(&finding);
        Case {
            signature: suspect.signature,
            stage: Stage::Examined,
            attempts: 0,
            finding,
            class: Some(class),
            tier: Tier::T3,
            perturbation: Perturbation::UNTOUCHED,
            depth: walk.depth,
            elsewhere: KOfN::new(0, 0),
            unwritten: 0,
            ran_on: true,
        }
    }
}
