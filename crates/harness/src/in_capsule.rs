//! Minimising in a capsule: each candidate is a walk of the puppet, over the same memory, put back to what it was.
//!
//! Deterministic: candidates come in the order of [`minimise`], each ends as it must, whatever was walked before it, and no clock has a
//! say. A walk under ptrace costs a hundred times what one in a frozen copy does: where there is a copy, it asks the puppet
//! only about what it would accept itself.

use std::collections::{BTreeMap, BTreeSet};

use walkfuzz_capsule::capture::Ground;
use walkfuzz_capsule::{Capsule, Ended, FaultOutcome, Outcome, Perturbed, PuppetError};
use walkfuzz_context::{Arch, Edit, Landscape, LandscapeTable, Perturbation, Registers, Tier};
use walkfuzz_record::{FaultRecord, WalkOutcome};

use crate::minimise::minimise;
use crate::opinion::{CapsuleOpinion, frames};

/// Candidates that hang cost half a second of CPU time each: after so many of them the search is over.
const MOST_HANGS: usize = 8;
/// Walks that a search may cost.
const BUDGET: usize = 5_000;
/// How natural a context is cannot be told without the JVM's structures: the least natural tier is not too much said.
pub(crate) const TIER: Tier = Tier::T4;

/// Walks in the puppet.
pub(crate) struct Judge<'g, 'm> {
    ground: &'g mut Ground<'m>,
    /// Who says which frames are wrong.
    opinion: Option<&'g CapsuleOpinion<'g>>,
    unneeded: Option<&'g Unneeded>,
    hangs: usize,
    /// Why it cannot walk any more.
    lost: Option<String>,
}

impl<'g, 'm> Judge<'g, 'm> {
    pub(crate) fn new(ground: &'g mut Ground<'m>) -> Self {
        Self {
            ground,
            opinion: None,
            unneeded: None,
            hangs: 0,
            lost: None,
        }
    }

    /// The fault that a walk from `registers` ends with, if it does.
    pub(crate) fn fault(&mut self, registers: &Registers) -> Option<WalkOutcome> {
        let end = self.end(registers);
        end.map(|end| end.in_words)
            .filter(|outcome| matches!(outcome, WalkOutcome::Fault(_)))
    }

    /// How a walk from `registers` ends, if it does.
    fn end(&mut self, registers: &Registers) -> Option<End> {
        if self.lost.is_some() || self.hangs >= MOST_HANGS {
            return None;
        }
        let walked = self
            .unneeded
            .map_or(*registers, |unneeded| unneeded.zeroed(registers));
        let ended = self.ground.walk(&walked);
        self.hangs += usize::from(matches!(ended, Ok(Ended::Hang)));
        let outcome = match self.kept(ended)? {
            Ended::Outcome(outcome) => outcome,
            _ => return None,
        };
        let in_words = match &outcome {
            Outcome::Fault(fault) => in_words(fault),
            Outcome::Frames(returned) => {
                let given = self.ground.frames();
                let given = frames(&self.kept(given)?);
                let opinion = self.opinion;
                let found = opinion.and_then(|opinion| opinion.contradiction(registers, &given));
                // A code is no frames.
                let count = u32::try_from(returned.frames).unwrap_or(0);
                found.map_or(WalkOutcome::Frames(count), WalkOutcome::WrongFrames)
            }
        };
        Some(End { outcome, in_words })
    }

    /// What there is; else why nothing can be walked any more is remembered.
    fn kept<T>(&mut self, what: Result<T, PuppetError>) -> Option<T> {
        what.map_err(|error| self.lost = Some(error.to_string()))
            .ok()
    }
}

/// Registers that a capsule's own walk does not need: they are zeros in its context, as all words are that it does not need, and a walk that met
/// them would go on to memory that is zeros as well.
pub(crate) struct Unneeded {
    /// As the capsule's walk began.
    captured: Registers,
    needed: BTreeSet<&'static str>,
}

impl Unneeded {
    /// `captured` are the registers that the capsule's walk began with.
    pub(crate) fn of(capsule: &Capsule, captured: Registers) -> Self {
        let words = capsule.words();
        Self {
            captured,
            needed: words
                .filter_map(|(address, _)| capsule.facts.register_at(address))
                .collect(),
        }
    }

    /// `registers` with zeros in those that are not needed and still hold what they held.
    pub(crate) fn zeroed(&self, registers: &Registers) -> Registers {
        let mut walked = *registers;
        let names = registers.arch.register_names().iter();
        for ((name, word), captured) in names.zip(&mut walked.words).zip(self.captured.words) {
            if *word == captured && !self.needed.contains(name) {
                *word = 0;
            }
        }
        walked
    }
}

/// How a walk of the puppet ended.
struct End {
    /// To the last register.
    outcome: Outcome,
    /// As a session tells it.
    in_words: WalkOutcome,
}

/// The smallest perturbation in a capsule, where nobody can tell another tier than `TIER`.
pub(crate) struct Search<'a> {
    /// The registers as the kernel delivered them.
    pub(crate) untouched: &'a Registers,
    /// What value classes resolve to.
    pub(crate) landscape: &'a LandscapeTable,
    /// What has the signature.
    pub(crate) start: &'a Perturbation,
    /// Who says which frames are wrong.
    pub(crate) opinion: Option<&'a CapsuleOpinion<'a>>,
    /// Of a capsule whose memory was minimised.
    pub(crate) unneeded: Option<&'a Unneeded>,
}

/// What a search came to.
pub(crate) struct Smallest {
    pub(crate) perturbation: Perturbation,
    pub(crate) walks: usize,
    /// The untouched registers have the signature as well: there is too little memory to tell perturbations apart by it, so that the very same
    /// end was asked for, to the last register of a fault or the last frame.
    pub(crate) same_end: bool,
}

impl Search<'_> {
    /// Searches `ground`. `same` says whether an outcome has the signature.
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
        let mut judge = Judge {
            opinion: self.opinion,
            unneeded: self.unneeded,
            ..Judge::new(ground)
        };
        let untouched = judge.end(self.untouched);
        let same_end = untouched.is_some_and(|end| same(&end.in_words));
        let wanted = if same_end {
            let mut registers = *self.untouched;
            start.apply(&mut registers, self.landscape);
            judge.end(&registers).map(|end| end.outcome)
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
            let end = judge.end(&registers)?;
            let is_it = if same_end {
                Some(end.outcome) == wanted
            } else {
                same(&end.in_words)
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
                same_end,
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
