//! Minimising in the puppet: each candidate is a walk of the same memory, put back to what it was.
//!
//! Deterministic: candidates come in the order of [`minimise`], each ends as it must, whatever was walked before it, and no clock has a
//! say. What a capsule cannot hold (hangs, breaches, walks that write) is minimised in the frozen copy instead.

use std::collections::BTreeMap;

use walkfuzz_capsule::capture::Ground;
use walkfuzz_capsule::{Ended, FaultOutcome, Outcome, Perturbed};
use walkfuzz_context::{Arch, Edit, Landscape, LandscapeTable, Perturbation, Registers, Tier};
use walkfuzz_record::{FaultRecord, WalkOutcome};

use crate::minimise::minimise;

/// Candidates that hang cost half a second of CPU time each: after so many of them the search is over.
const MOST_HANGS: usize = 8;

/// The smallest perturbation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smallest {
    /// It.
    pub perturbation: Perturbation,
    /// Its tier.
    pub tier: Tier,
    /// How many walks the search took.
    pub walks: usize,
}

/// What is searched.
pub(crate) struct Search<'a, L> {
    /// The registers as the kernel delivered them.
    pub(crate) untouched: &'a Registers,
    /// What value classes resolve to.
    pub(crate) landscape: &'a L,
    /// What has the signature.
    pub(crate) start: &'a Perturbation,
    /// The start's tier.
    pub(crate) tier: Tier,
    /// Candidates of low tiers.
    pub(crate) natural: &'a [Perturbation],
    /// Walks that it may cost.
    pub(crate) budget: usize,
}

impl<L: Landscape> Search<'_, L> {
    /// Searches `ground`. `same` says whether a fault has the signature; `tier_of` the tier of registers, `None` where it cannot be told.
    ///
    /// # Errors
    /// The puppet is lost, or the start has another signature there.
    pub(crate) fn run(
        &self,
        ground: &mut Ground<'_>,
        mut same: impl FnMut(&WalkOutcome) -> bool,
        mut tier_of: impl FnMut(&Registers) -> Option<Tier>,
    ) -> Result<Smallest, String> {
        let mut lost = None;
        let mut hangs = 0;
        let mut attempt = |candidate: &Perturbation| {
            if lost.is_some() || hangs >= MOST_HANGS || !resolves(candidate, self.landscape) {
                return None;
            }
            let mut registers = *self.untouched;
            candidate.apply(&mut registers, self.landscape);
            match ground.walk(&registers) {
                Ok(Ended::Outcome(Outcome::Fault(fault))) if same(&in_words(&fault)) => {
                    tier_of(&registers)
                }
                Ok(Ended::Hang) => {
                    hangs += 1;
                    None
                }
                Ok(_) => None,
                Err(error) => {
                    lost = Some(error.to_string());
                    None
                }
            }
        };
        let start = attempt(self.start);
        let (perturbation, tier, walks) = minimise(
            Arch::NATIVE,
            self.start,
            self.tier,
            self.natural,
            self.budget,
            &mut attempt,
        );
        match (lost, start) {
            (Some(lost), _) => Err(lost),
            (None, None) => Err("in the capsule its walk ends otherwise".to_owned()),
            (None, Some(_)) => Ok(Smallest {
                perturbation,
                tier,
                walks,
            }),
        }
    }
}

/// Whether each of its values is known.
fn resolves(perturbation: &Perturbation, landscape: &impl Landscape) -> bool {
    perturbation.edits().iter().all(|edit| match edit {
        Edit::Set { value, .. } => landscape.resolve(value.class, value.selector).is_some(),
        _ => true,
    })
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
