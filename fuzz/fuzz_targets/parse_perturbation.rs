//! The codec of perturbations: any bytes decode, what they decode to round-trips through both the byte and the text form,
//! and no text makes the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walkfuzz_context::codec::{decode_perturbation, perturbation_to_bytes};
use walkfuzz_context::text::ArchPerturbation;
use walkfuzz_context::{Arch, Batch, Edit, Perturbation};
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
    let batch = Batch::decode(data);
    mark(&batch);
    let bytes = batch.to_bytes();
    assert_eq!(Batch::decode(&bytes), batch, "bytes do not read back");
    assert_eq!(
        Batch::decode(&bytes).to_bytes(),
        bytes,
        "bytes are not canonical"
    );
    for text in [batch.to_string(), format!("{batch:#}")] {
        assert_eq!(text.parse(), Ok(batch), "text does not read back: {text}");
    }

    let (arch, perturbation) = decode_perturbation(data);
    let bytes = perturbation_to_bytes(arch, &perturbation);
    assert_eq!(
        decode_perturbation(&bytes),
        (arch, perturbation),
        "bytes do not read back"
    );
    let named = ArchPerturbation { arch, perturbation };
    assert_eq!(
        named.to_string().parse(),
        Ok(named),
        "text does not read back: {named}"
    );

    let text = String::from_utf8_lossy(data);
    let parsed = text.parse::<Batch>();
    if let Err(error) = &parsed {
        let said = error.to_string();
        let words = said.bytes().filter(u8::is_ascii_alphabetic);
        Feedback::extra_counters().mark(
            Domain::FaultSite,
            words.fold(0, |hash, byte| spread(hash ^ u64::from(byte))),
        );
    }
    if let Ok(batch) = parsed {
        mark(&batch);
        assert_eq!(
            Batch::decode(&batch.to_bytes()),
            batch,
            "a text's batch does not read back: {text}"
        );
    }
    for arch in [Arch::X86_64, Arch::Aarch64] {
        if let Ok(perturbation) = Perturbation::parse(arch, &text) {
            let shown = perturbation.display(arch).to_string();
            assert_eq!(
                Perturbation::parse(arch, &shown),
                Ok(perturbation),
                "{shown}"
            );
        }
    }
});
