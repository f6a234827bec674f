//! Minimising a capsule that is a file: with the memory that it has, and without a JVM.
//!
//! What memory it has not, no candidate may read; and words that were not needed are zeros in it. So what is found holds for the file. Where the
//! file has all that its moment had (a snapshot's capsule), that is the same.

use walkfuzz_capsule::capture::{Ground, Keep};
use walkfuzz_capsule::{Capsule, Outcome, Perturbed};
use walkfuzz_context::{Arch, LandscapeTable, Perturbation, Registers, ValueClass};
use walkfuzz_engine::SnapshotWalker;
use walkfuzz_record::{Generation, WalkOutcome};

use crate::error::HarnessError;
use crate::in_capsule::{Search, TIER, Unneeded, in_words, perturbed};
use crate::names::Names;
use crate::opinion::{CapsuleOpinion, frames, holds_wrong_frames};
use crate::snapshots::modules;

/// A capsule's smallest form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimised {
    /// It.
    pub capsule: Capsule,
    /// Walks that the search took. None where the tier is lower than the least natural one: of no other context the tier could be told.
    pub walks: usize,
    /// Whether the very same end was asked for, to the last register of a fault or the last frame, and not the signature alone: the file's memory is
    /// what one walk needs, and without the rest the untouched registers have the signature, too.
    pub same_end: bool,
}

/// Looks for the smallest perturbation that has the signature in `capsule`, which has no page by reference.
///
/// # Errors
/// The capsule holds neither a fault nor wrong frames, or does not say of what moment, or cannot be walked here; [`HarnessError::NoOpinion`] where
/// nobody can say in it which frames are wrong.
pub fn minimise_capsule(capsule: &Capsule) -> Result<Minimised, HarnessError> {
    let failed = |what: String| HarnessError::NotMinimisable(what);
    let facts = &capsule.facts;
    let opinion = if holds_wrong_frames(capsule) {
        Some(CapsuleOpinion::of(capsule)?)
    } else {
        None
    };
    if matches!(facts.expected, Outcome::Frames(_)) && opinion.is_none() {
        return Err(failed(
            "it holds a walk that came back with nothing wrong, and there is no fault to keep"
                .to_owned(),
        ));
    }
    let Some(moment) = &facts.perturbed else {
        return Err(failed(
            "it does not say what its context was before it was perturbed (older versions left that out): replay works, and a capsule \
             that this version captures of the same finding can be minimised"
                .to_owned(),
        ));
    };
    let start = Perturbation::parse(Arch::NATIVE, &facts.perturbation)
        .map_err(|error| failed(error.to_string()))?;
    let landscape = landscape(moment);
    let mut captured = moment.untouched;
    start.apply(&mut captured, &landscape);
    let unneeded = Unneeded::of(capsule, captured);
    let search = Search {
        untouched: &moment.untouched,
        landscape: &landscape,
        start: &start,
        opinion: opinion.as_ref(),
        unneeded: Some(&unneeded),
    };
    let mut ground = Ground::of_capsule(capsule).map_err(|error| failed(error.to_string()))?;
    let (smallest, walks, same_end) = if moment.tier == TIER.name() {
        let modules = modules(capsule);
        let walker = SnapshotWalker {
            name: "agct",
            generation: Generation::Agct,
        };
        let names = Names::new(None);
        let signature = |outcome: &WalkOutcome| match (outcome, &opinion) {
            (WalkOutcome::WrongFrames(found), Some(opinion)) => {
                Some(opinion.signature(found).into())
            }
            _ => names.signature(&modules, &walker, outcome),
        };
        let wanted = match &facts.expected {
            Outcome::Fault(fault) => signature(&in_words(fault)),
            Outcome::Frames(_) => Some(facts.signature.as_str().into()),
        };
        let found = search
            .run(&mut ground, |outcome| signature(outcome) == wanted)
            .map_err(failed)?;
        (found.perturbation, found.walks, found.same_end)
    } else {
        (start, 0, false)
    };
    let mut registers = moment.untouched;
    smallest.apply(&mut registers, &landscape);
    let walked = unneeded.zeroed(&registers);
    let keep = Keep {
        registers: Some(walked),
        signature: facts.signature.clone(),
        perturbation: smallest.display(Arch::NATIVE).to_string(),
        perturbed: Some(Perturbed {
            tier: moment.tier.clone(),
            ..perturbed(&moment.untouched, &smallest, TIER, &landscape)
        }),
        minimise: true,
        whole: Vec::new(),
    };
    let (mut smaller, _) = ground
        .capsule(&keep)
        .map_err(|error| failed(error.to_string()))?;
    if let Some(opinion) = opinion {
        let ended = ground.walk(&walked);
        let given = ended.and_then(|_| ground.frames());
        let given = given.map_err(|error| failed(error.to_string()))?;
        smaller.opinion = Some(opinion.again(&registers, &frames(&given))?);
    }
    Ok(Minimised {
        capsule: smaller,
        walks,
        same_end,
    })
}

/// The registers as the kernel delivered them, and those that the perturbation makes of them; nothing where the capsule does not say.
#[must_use]
pub fn registers(capsule: &Capsule) -> Option<(Registers, Registers)> {
    let facts = &capsule.facts;
    let moment = facts.perturbed.as_ref()?;
    let perturbation = Perturbation::parse(Arch::NATIVE, &facts.perturbation).ok()?;
    let mut after = moment.untouched;
    perturbation.apply(&mut after, &landscape(moment));
    Some((moment.untouched, after))
}

fn landscape(moment: &Perturbed) -> LandscapeTable {
    let mut table = LandscapeTable::new();
    for (name, values) in &moment.values {
        if let Some(class) = ValueClass::from_name(name) {
            table.set(class, values.clone());
        }
    }
    table
}
