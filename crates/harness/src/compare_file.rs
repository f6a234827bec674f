//! Two walkers side by side on the one context that a capsule holds, without a JVM: the walker that was captured walks in the puppet, the reference
//! reads the words that the capsule has for it.

use std::time::Instant;

use walkfuzz_capsule::{Capsule, Ended, Outcome, Puppet, PuppetError};
use walkfuzz_context::{Address, Tier};
use walkfuzz_record::Generation;
use walkfuzz_record::finding::{FindingContradiction, MOST_SAID};
use walkfuzz_walkers::{Agreement, Frame};

use crate::chosen::WalkerChoice;
use crate::compared::{Comparison, Example};
use crate::counted::{Counts, Plain};
use crate::error::HarnessError;
use crate::opinion::{CapsuleOpinion, frames};

/// What came of it.
#[derive(Clone, Debug)]
pub struct ComparedCapsule {
    /// Of one context.
    pub comparison: Comparison,
    /// How the captured walk ended.
    pub ended: Ended,
    /// What of that is not as the capsule says.
    pub differences: Vec<String>,
}

/// Why nothing can be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareFileError {
    /// The capsule lacks something.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// Its walk cannot be made.
    #[error(transparent)]
    Puppet(#[from] PuppetError),
    /// The reference walker reads what the capsule has not.
    #[error("no second opinion: the reference walker reads {0}, which is not in the capsule")]
    Missing(Address),
}

/// Compares in `capsule`, which has no page by reference.
///
/// # Errors
/// [`CompareFileError`], in one sentence.
pub fn compare_capsule(capsule: &Capsule) -> Result<ComparedCapsule, CompareFileError> {
    let began = Instant::now();
    let opinion = CapsuleOpinion::of(capsule)?;
    let facts = &capsule.facts;
    let mut puppet = Puppet::new(capsule)?;
    let ended = puppet.walk()?;
    let given = frames(&puppet.frames()?);
    let said = opinion
        .said(opinion.registers(), &given)
        .map_err(CompareFileError::Missing)?;
    let first = match ended {
        Ended::Outcome(Outcome::Frames(returned)) => Plain::Returned(returned.frames),
        _ => Plain::Broke,
    };
    let tier = facts.perturbed.as_ref().and_then(|moment| {
        let mut all = Tier::ALL.into_iter();
        all.find(|tier| tier.name() == moment.tier)
    });
    let tier = tier.unwrap_or(Tier::T4);
    let mut counts = Counts::new();
    counts.count(tier, [first, Plain::Returned(said.code)], said.agreement);
    if matches!(
        said.agreement,
        Agreement::Differ { .. } | Agreement::Prefix { .. }
    ) {
        counts.explain(tier, said.known);
    }
    let example = said.contradiction(&given).map(|found| {
        let named = |frames: &[Frame]| {
            let from = frames.iter().skip(found.frame as usize).take(MOST_SAID);
            from.map(|frame| opinion.java_frame(frame)).collect()
        };
        Example {
            tier: tier.name().to_owned(),
            perturbation: facts.perturbation.clone(),
            code: opinion.code(),
            contradiction: FindingContradiction {
                oracle: WalkerChoice::Reference.name().to_owned(),
                kind: found.kind,
                frame: found.frame,
                known: found.known,
                given: named(&given),
                expected: named(&said.frames),
            },
        }
    });
    let walkers = [
        (&*facts.walker, generation_of(&facts.walker)),
        (WalkerChoice::Reference.name(), Generation::Reference),
    ];
    let seconds = began.elapsed().as_secs_f64();
    Ok(ComparedCapsule {
        comparison: Comparison::of(&counts, walkers, seconds, example.into_iter().collect()),
        ended,
        differences: facts.expected.differences(&ended),
    })
}

/// Whose codes the walker of a capsule speaks: its name is all that a capsule knows of it.
#[must_use]
pub fn generation_of(walker: &str) -> Generation {
    WalkerChoice::from_name(walker).map_or(Generation::Plugin, WalkerChoice::generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_of_asyncgetcalltrace_from_another_thread_have_its_codes() {
        for walker in ["agct", "agct-remote-env", "agct-remote-running"] {
            assert_eq!(generation_of(walker), Generation::Agct, "{walker}");
        }
        assert_eq!(generation_of("mine"), Generation::Plugin);
        // A library may be called what it likes.
        assert_eq!(generation_of("agct-of-mine"), Generation::Plugin);
    }
}
