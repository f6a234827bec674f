//! What a walk tells the fuzzer.

use walkfuzz_coverage::{Domain, Feedback, depth_step, spread};
use walkfuzz_record::{Generation, OutcomeKind, WalkOutcome};

use crate::walks::WalkReport;

/// Marks one walk's outcome in each domain it belongs to. Signal-safe.
pub(crate) fn mark(feedback: &Feedback, generation: Generation, walk: &WalkReport) {
    let kind = walk.kind as u64;
    let shade = match walk.outcome {
        WalkOutcome::Frames(frames) => {
            feedback.mark(Domain::Depth, depth_step(frames));
            feedback.mark(Domain::TopMethod, spread(walk.top_method));
            0
        }
        WalkOutcome::Error(code) => {
            let code = u64::from(code.0.unsigned_abs()) & 31;
            feedback.mark(Domain::Code, (generation as u64) << 5 | code);
            // One shade per code would crowd the domain: the low three bits tell AsyncGetCallTrace's common codes apart.
            1 + (code & 7)
        }
        WalkOutcome::Fault(fault) => {
            feedback.mark(Domain::FaultSite, spread(fault.pc.0));
            10
        }
        WalkOutcome::Wrote(fault) => {
            feedback.mark(Domain::FaultSite, spread(fault.pc.0));
            15
        }
        ref other => 10 + other.kind() as u64 - OutcomeKind::Fault as u64,
    };
    feedback.mark(Domain::BlobKind, kind << 4 | shade);
    if walk.near_misses != 0 {
        feedback.mark(
            Domain::NearMiss,
            u64::from(walk.near_misses.min(7)) << 3 | kind & 7,
        );
    }
}
