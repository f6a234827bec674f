//! A hit put to the puppet: the same walk under ptrace, without this program's memory and handlers.

use std::path::Path;

use walkfuzz_capsule::capture::again;
use walkfuzz_capsule::{Capsule, CaptureError, Content, Ended, Outcome, limits};
use walkfuzz_record::finding::FindingCapsule;
use walkfuzz_record::{Breach, RunFolder, WalkOutcome};

use crate::snapshots::hits::Hit;
use crate::snapshots::set::read_whole;

/// Offset in `ASGCT_CallTrace`: where the frames are; and bytes of a frame.
const TRACE_FRAMES: u64 = 16;
const FRAME: u64 = 16;
/// What is said of a confirmed hang.
const HANG: &str = "a capsule holds no hang; under the puppet the walk used up its CPU time, too";

/// Walks again under the puppet. If it ends the same, the capsule is kept as `file`; a hang has none.
pub(crate) fn judge(
    run: &RunFolder,
    hit: &Hit<'_>,
    signature: &str,
    file: &str,
) -> Result<FindingCapsule, String> {
    let snapshot = read_whole(&hit.known.path).map_err(|error| error.to_string())?;
    let memory: Vec<_> = hit
        .memory
        .iter()
        .map(|one| (one.address, one.after))
        .collect();
    let depth = i32::from(hit.batch.depth.frames());
    let capsule = match again(
        &snapshot,
        &hit.after(),
        &memory,
        depth,
        signature,
        &hit.text(),
    ) {
        Err(CaptureError::NoOutcome(ended))
            if matches!((hit.outcome, &*ended), (WalkOutcome::Hang, Ended::Hang)) =>
        {
            return Ok(FindingCapsule {
                path: None,
                problem: Some(HANG.to_owned()),
            });
        }
        Err(error) => return Err(error.to_string()),
        Ok(capsule) => capsule,
    };
    if !is_same(hit.outcome, &capsule) {
        let judged = &capsule.facts.expected;
        return Err(format!("the puppet's walk ends otherwise: {judged}"));
    }
    write(&capsule, &run.path().join(file))?;
    Ok(FindingCapsule {
        path: Some(file.to_owned()),
        problem: None,
    })
}

fn write(capsule: &Capsule, path: &Path) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    capsule.write(path).map_err(|error| error.to_string())
}

/// Whether the puppet's walk ended as this process's did.
fn is_same(here: &WalkOutcome, capsule: &Capsule) -> bool {
    match (here, &capsule.facts.expected) {
        (WalkOutcome::Fault(fault), Outcome::Fault(judged)) => {
            (
                judged.signal,
                judged.code,
                judged.address,
                judged.registers.pc(),
            ) == (fault.signal, fault.code, fault.address, fault.pc)
        }
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
