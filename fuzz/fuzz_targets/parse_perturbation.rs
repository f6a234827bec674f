//! The codec of perturbations: any bytes decode, what they decode to round-trips through both the byte and the text form,
//! and no text makes the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walkfuzz_context::round_trip::check;
use walkfuzz_context::{Batch, Edit, Perturbation};
use walkfuzz_coverage::{Domain, Feedback, spread};

/// The codec is not instrumented (scripts/rustc-wrapper): what an input decodes to is the feedback.
fn mark(batch: &Batch) {
    let feedback = Feedback::extra_counters();
    feedback.mark(Domain::Depth, batch.walks().len() as u64);
    for edit in batch.walks().iter().flat_map(Perturbation::edits) {
        let (kind, operand) = match *edit {
            Edit::Nudge { delta, .. } => (0, u64::from(delta.unsigned_abs().leading_zeros())),
            Edit::Set { value, .. } => (1, value.class as u64),
            Edit::Flip { bit, .. } => (2, u64::from(bit)),
            Edit::Swap { b, .. } => (3, u64::from(b.0)),
            Edit::Alias { source, .. } => (4, u64::from(source.0)),
            Edit::Sign { bits, .. } => (5, u64::from(bits)),
        };
        feedback.mark(Domain::BlobKind, kind << 5 | u64::from(edit.register().0));
        feedback.mark(Domain::TopMethod, spread(kind << 8 | operand));
    }
}

fuzz_target!(|data: &[u8]| {
    let (batch, text) = check(data);
    mark(&batch);
    match text {
        Ok(batch) => mark(&batch),
        Err(said) => {
            let letters = said.bytes().filter(u8::is_ascii_alphabetic);
            Feedback::extra_counters().mark(
                Domain::FaultSite,
                letters.fold(0, |hash, byte| spread(hash ^ u64::from(byte))),
            );
        }
    }
});
