//! A hit put to the puppet: the same walk under ptrace, without this program's memory and handlers.

use std::path::Path;

use walkfuzz_capsule::capture::{Ground, Keep};
use walkfuzz_capsule::{Capsule, Content, Ended, Outcome, limits};
use walkfuzz_context::{Perturbation, Registers};
use walkfuzz_record::finding::FindingCapsule;
use walkfuzz_record::{Breach, RunFolder, WalkOutcome};

use crate::in_capsule::{Search, TIER, in_words, perturbed};
use crate::snapshots::hits::Hit;

/// Offset in `ASGCT_CallTrace`: where the frames are; and bytes of a frame.
const TRACE_FRAMES: u64 = 16;
const FRAME: u64 = 16;
/// What is said of a confirmed hang.
const HANG: &str = "a capsule holds no hang; under the puppet the walk used up its CPU time, too";

/// What the puppet made of a hit.
pub(crate) struct Judged {
    /// The smallest perturbation that ends the same.
    pub(crate) perturbation: Perturbation,
    /// The registers that it makes.
    pub(crate) after: Registers,
    /// What then comes of the walk.
    pub(crate) outcome: WalkOutcome,
    /// Where it is kept; a hang is not.
    pub(crate) capsule: FindingCapsule,
}

/// Walks again under the puppet. If that ends the same, looks (for a fault) for the smallest perturbation that does, and keeps its capsule as
/// `file`; a hang has none.
pub(crate) fn judge(
    run: &RunFolder,
    hit: &Hit<'_>,
    signature: &str,
    file: &str,
) -> Result<Judged, String> {
    let judged = hit.engine.on_ground(hit.snapshot, |ground| {
        judge_on(ground, run, hit, signature, file)
    });
    judged.map_err(|error| error.to_string())?
}

fn judge_on(
    mut ground: Ground<'_>,
    run: &RunFolder,
    hit: &Hit<'_>,
    signature: &str,
    file: &str,
) -> Result<Judged, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let known = hit.known;
    let memory = hit.memory.iter().map(|one| (one.address, one.after));
    ground
        .edit(&memory.collect::<Vec<_>>())
        .map_err(|error| text(&error))?;
    ground.limit_depth(i32::from(hit.batch.depth.frames()));
    let after = hit.after(hit.perturbation);
    let ended = ground.walk(&after).map_err(|error| text(&error))?;
    let mut perturbation = *hit.perturbation;
    match (hit.outcome, ended) {
        (WalkOutcome::Hang, Ended::Hang) => {
            return Ok(Judged {
                perturbation,
                after,
                outcome: *hit.outcome,
                capsule: FindingCapsule {
                    path: None,
                    problem: Some(HANG.to_owned()),
                },
            });
        }
        (WalkOutcome::Fault(_), Ended::Outcome(Outcome::Fault(judged)))
            if in_words(&judged) == *hit.outcome =>
        {
            let search = Search {
                untouched: hit.untouched,
                landscape: &known.landscape,
                start: hit.perturbation,
                opinion: None,
                unneeded: None,
            };
            let same = |outcome: &WalkOutcome| {
                crate::snapshots::hits::signature(hit, outcome).as_deref() == Some(signature)
            };
            perturbation = search.run(&mut ground, same)?.perturbation;
        }
        (WalkOutcome::Breach(_), Ended::Outcome(Outcome::Frames(_))) => {}
        (_, other) => return Err(format!("the puppet's walk ends otherwise: {other}")),
    }
    let after = hit.after(&perturbation);
    let keep = Keep {
        registers: Some(after),
        signature: signature.to_owned(),
        perturbation: hit.text(&perturbation),
        perturbed: Some(perturbed(
            hit.untouched,
            &perturbation,
            TIER,
            &known.landscape,
        )),
        minimise: true,
        whole: Vec::new(),
    };
    let (capsule, _) = ground.capsule(&keep).map_err(|error| text(&error))?;
    let outcome = match (&capsule.facts.expected, hit.outcome) {
        (Outcome::Fault(fault), WalkOutcome::Fault(_)) => in_words(fault),
        (_, breach @ WalkOutcome::Breach(_)) if is_broken(breach, &capsule) => *breach,
        (other, _) => return Err(format!("the puppet's walk ends otherwise: {other}")),
    };
    write(&capsule, &run.path().join(file))?;
    Ok(Judged {
        perturbation,
        after,
        outcome,
        capsule: FindingCapsule {
            path: Some(file.to_owned()),
            problem: None,
        },
    })
}

fn write(capsule: &Capsule, path: &Path) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    capsule.write(path).map_err(|error| error.to_string())
}

/// Whether the puppet's walk broke the contract as this process's did.
fn is_broken(here: &WalkOutcome, capsule: &Capsule) -> bool {
    match (here, &capsule.facts.expected) {
        (WalkOutcome::Breach(Breach::Depth), Outcome::Frames(judged)) => {
            judged.frames > capsule.facts.entry.depth
        }
        (WalkOutcome::Breach(Breach::Canary), Outcome::Frames(_)) => wrote_behind(capsule),
        _ => false,
    }
}

/// Whether the walk wrote behind the last frame that it was allowed to write.
fn wrote_behind(capsule: &Capsule) -> bool {
    let entry = &capsule.facts.entry;
    let frames = word(capsule, entry.trace.0 + TRACE_FRAMES, false);
    let Some(frames) = frames else { return false };
    let behind = frames.wrapping_add(u64::from(entry.depth.unsigned_abs()) * FRAME);
    (0..FRAME / 8).any(|index| {
        let at = behind + 8 * index;
        word(capsule, at, true) != word(capsule, at, false)
    })
}

/// A word at the begin of the walk, or at its end.
fn word(capsule: &Capsule, address: u64, at_end: bool) -> Option<u64> {
    let within = address % limits::PAGE;
    let page = capsule.pages.get(&(address - within))?;
    let bytes = match (&page.outcome, &page.entry) {
        (Some(bytes), _) if at_end => bytes,
        (_, Content::Bytes(bytes)) => bytes,
        (_, Content::Zero) => return Some(0),
        (_, Content::File { .. }) => return None,
    };
    let bytes = bytes.get(within as usize..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}
