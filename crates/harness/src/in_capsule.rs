//! Minimising in a capsule: each candidate is a walk of the puppet, over the same memory, put back to what it was.
//!
//! Deterministic: candidates come in the order of [`minimise`], each ends as it must, whatever was walked before it, and no clock has a
//! say. A walk under ptrace costs a hundred times what one in a frozen copy does: where there is a copy, it asks the puppet
//! only about what it would accept itself.

use std::collections::BTreeMap;

use walkfuzz_capsule::capture::Ground;
use walkfuzz_capsule::{Ended, FaultOutcome, Outcome, Perturbed};
use walkfuzz_context::{Arch, Edit, Landscape, LandscapeTable, Perturbation, Registers, Tier};
use walkfuzz_record::{FaultRecord, WalkOutcome};

use crate::minimise::minimise;

/// Candidates that hang cost half a second of CPU time each: after so many of them the search is over.
const MOST_HANGS: usize = 8;
/// Walks that a search may cost.
const BUDGET: usize = 5_000;
/// How natural a context is cannot be told without the JVM's structures: the least natural tier is not too much said.
pub(crate) const TIER: Tier = Tier::T4;

/// Walks in the puppet.
pub(crate) struct Judge<'g, 'm> {
    ground: &'g mut Ground<'m>,
    hangs: usize,
    /// Why it cannot walk any more.
    lost: Option<String>,
}

impl<'g, 'm> Judge<'g, 'm> {
    pub(crate) fn new(ground: &'g mut Ground<'m>) -> Self {
        Self {
            ground,
            hangs: 0,
            lost: None,
        }
    }

    /// The fault that a walk from `registers` ends with, if it does.
    pub(crate) fn fault(&mut self, registers: &Registers) -> Option<WalkOutcome> {
        self.whole_fault(registers).map(|fault| in_words(&fault))
    }

    /// The same with all registers.
    fn whole_fault(&mut self, registers: &Registers) -> Option<FaultOutcome> {
        if self.lost.is_some() || self.hangs >= MOST_HANGS {
            return None;
        }
        match self.ground.walk(registers) {
            Ok(Ended::Outcome(Outcome::Fault(fault))) => Some(fault),
            Ok(ended) => {
                self.hangs += usize::from(ended == Ended::Hang);
                None
            }
            Err(error) => {
                self.lost = Some(error.to_string());
                None
            }
        }
    }
}

/// The smallest perturbation in a capsule, where nobody can tell another tier than `TIER`.
pub(crate) struct Search<'a> {
    /// The registers as the kernel delivered them.
    pub(crate) untouched: &'a Registers,
    /// What value classes resolve to.
    pub(crate) landscape: &'a LandscapeTable,
    /// What has the signature.
    pub(crate) start: &'a Perturbation,
}

/// What a search came to.
pub(crate) struct Smallest {
    pub(crate) perturbation: Perturbation,
    pub(crate) walks: usize,
    /// The untouched registers have the signature as well: there is too little memory to tell perturbations apart by it, so that the very same
    /// fault, to the last register, was asked for.
    pub(crate) same_fault: bool,
}

impl Search<'_> {
    /// Searches `ground`. `same` says whether a fault has the signature.
    ///
    /// # Errors
    /// The puppet is lost, or the start has another signature there.
    pub(crate) fn run(
        &self,
        ground: &mut Ground<'_>,
        same: impl Fn(&WalkOutcome) -> bool,
    ) -> Result<Smallest, String> {
        // Edits whose class has no values here change nothing; no smaller candidate shall have them.
        let known = |edit: &&Edit| resolves(edit, self.landscape);
        let start: Perturbation = self.start.edits().iter().filter(known).copied().collect();
        let mut judge = Judge::new(ground);
        let untouched = judge.fault(self.untouched);
        let same_fault = untouched.is_some_and(|fault| same(&fault));
        let wanted = if same_fault {
            let mut registers = *self.untouched;
            start.apply(&mut registers, self.landscape);
            judge.whole_fault(&registers)
        } else {
            None
        };
        let mut attempt = |candidate: &Perturbation| {
            let edits = candidate.edits();
            if !edits.iter().all(|edit| resolves(edit, self.landscape)) {
                return None;
            }
            let mut registers = *self.untouched;
            candidate.apply(&mut registers, self.landscape);
            let fault = judge.whole_fault(&registers)?;
            let is_it = if same_fault {
                Some(fault) == wanted
            } else {
                same(&in_words(&fault))
            };
            is_it.then_some(TIER)
        };
        let begins = attempt(&start).is_some();
        let (smallest, _, walks) = minimise(Arch::NATIVE, &start, TIER, &[], BUDGET, &mut attempt);
        match judge.lost {
            Some(lost) => Err(lost),
            None if !begins => Err("in the capsule its walk ends otherwise".to_owned()),
            None => Ok(Smallest {
                perturbation: smallest,
                walks,
                same_fault,
            }),
        }
    }
}

/// Whether its value is known.
fn resolves(edit: &Edit, landscape: &LandscapeTable) -> bool {
    match edit {
        Edit::Set { value, .. } => landscape.resolve(value.class, value.selector).is_some(),
        _ => true,
    }
}

/// What a later search in the capsule alone needs to know.
pub(crate) fn perturbed(
    untouched: &Registers,
    perturbation: &Perturbation,
    tier: Tier,
    landscape: &LandscapeTable,
) -> Perturbed {
    let mut values = BTreeMap::new();
    for edit in perturbation.edits() {
        let Edit::Set { value, .. } = edit else {
            continue;
        };
        let all = landscape.values(value.class);
        // A selector that goes round needs all.
        let reached = all.get(..=usize::from(value.selector)).unwrap_or(all);
        let kept: &mut Vec<u64> = values.entry(value.class.name().to_owned()).or_default();
        if kept.len() < reached.len() {
            *kept = reached.to_vec();
        }
    }
    Perturbed {
        untouched: *untouched,
        tier: tier.name().to_owned(),
        values,
    }
}

/// A puppet's fault as walks have it.
pub(crate) fn in_words(fault: &FaultOutcome) -> WalkOutcome {
    WalkOutcome::Fault(FaultRecord {
        signal: fault.signal,
        code: fault.code,
        address: fault.address,
        pc: fault.registers.pc(),
    })
}
