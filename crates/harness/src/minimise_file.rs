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
use crate::in_capsule::{Search, TIER, in_words, perturbed};
use crate::names::Names;
use crate::snapshots::modules;

/// A capsule's smallest form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimised {
    /// It.
    pub capsule: Capsule,
    /// Walks that the search took. None where the tier is lower than the least natural one: of no other context the tier could be told.
    pub walks: usize,
    /// Whether the very same fault was asked for, to the last register, and not the signature alone: the file's memory is what one walk needs, and
    /// without the rest the untouched registers end in the same function.
    pub same_fault: bool,
}

/// Looks for the smallest perturbation that has the signature in `capsule`, which has no page by reference.
///
/// # Errors
/// The capsule holds no fault, or does not say of what moment, or cannot be walked here.
pub fn minimise_capsule(capsule: &Capsule) -> Result<Minimised, HarnessError> {
    let failed = |what: String| HarnessError::NotMinimisable(what);
    let facts = &capsule.facts;
    let Outcome::Fault(fault) = facts.expected else {
        return Err(failed(
            "it holds a walk that came back, and there is no fault to keep".to_owned(),
        ));
    };
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
    let search = Search {
        untouched: &moment.untouched,
        landscape: &landscape,
        start: &start,
    };
    let mut ground = Ground::of_capsule(capsule).map_err(|error| failed(error.to_string()))?;
    let (smallest, walks, same_fault) = if moment.tier == TIER.name() {
        let modules = modules(capsule);
        let walker = SnapshotWalker {
            name: "agct",
            generation: Generation::Agct,
        };
        let names = Names::new(None);
        let signature = |outcome: &WalkOutcome| names.signature(&modules, &walker, outcome);
        let wanted = signature(&in_words(&fault));
        let found = search
            .run(&mut ground, |outcome| signature(outcome) == wanted)
            .map_err(failed)?;
        (found.perturbation, found.walks, found.same_fault)
    } else {
        (start, 0, false)
    };
    let mut registers = moment.untouched;
    smallest.apply(&mut registers, &landscape);
    let keep = Keep {
        registers: Some(registers),
        signature: facts.signature.clone(),
        perturbation: smallest.display(Arch::NATIVE).to_string(),
        perturbed: Some(Perturbed {
            tier: moment.tier.clone(),
            ..perturbed(&moment.untouched, &smallest, TIER, &landscape)
        }),
        minimise: true,
        whole: Vec::new(),
    };
    let (capsule, _) = ground
        .capsule(&keep)
        .map_err(|error| failed(error.to_string()))?;
    Ok(Minimised {
        capsule,
        walks,
        same_fault,
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
