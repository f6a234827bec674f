//! What a walk tells the fuzzer.

use walkfuzz_coverage::{Domain, depth_step, spread};
use walkfuzz_record::{Generation, OutcomeKind, WalkOutcome};

use crate::walks::{Relation, WalkReport};

/// Names each feature that a walk's outcome shows. Signal-safe.
///
/// Frames count by how they differ from the control's: a moment brings its own methods and depth, and would make each input that
/// happens to meet it look new.
#[inline]
pub(crate) fn features(
    generation: Generation,
    walk: &WalkReport,
    mut show: impl FnMut(Domain, u64),
) {
    if !walk.made {
        return;
    }
    let kind = walk.kind as u64;
    let shade = match walk.outcome {
        WalkOutcome::Frames(_) => {
            let Relation { first, longer } = walk.relation;
            show(Domain::TopMethod, kind << 4 | u64::from(first));
            let sign = u64::from(longer > 0) << 5;
            show(
                Domain::Depth,
                sign | depth_step(longer.unsigned_abs()).min(31),
            );
            0
        }
        WalkOutcome::Error(code) => {
            let code = u64::from(code.0.unsigned_abs()) & 31;
            show(Domain::Code, (generation as u64) << 5 | code);
            // One shade per code would crowd the domain: the low three bits tell AsyncGetCallTrace's common codes apart.
            1 + (code & 7)
        }
        WalkOutcome::Fault(fault) => {
            show(Domain::FaultSite, spread(fault.pc.0));
            10
        }
        WalkOutcome::Wrote(fault) => {
            show(Domain::FaultSite, spread(fault.pc.0));
            15
        }
        WalkOutcome::WrongFrames(found) => {
            show(Domain::FaultSite, spread(found.site()));
            12
        }
        ref other => 10 + other.kind() as u64 - OutcomeKind::Fault as u64,
    };
    show(Domain::BlobKind, kind << 4 | shade);
    if walk.near_misses != 0 {
        show(
            Domain::NearMiss,
            u64::from(walk.near_misses.min(7)) << 3 | kind & 7,
        );
    }
}
