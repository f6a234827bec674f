//! What must hold for the codec and the text form of any bytes. The fuzz target `parse_perturbation` calls it.

use crate::codec::{decode_perturbation, perturbation_to_bytes};
use crate::text::ArchPerturbation;
use crate::{Arch, Batch, Perturbation};

/// Reads `data` in every way there is, and checks that what comes out reads back from bytes and from text. Gives the batch that the
/// bytes are, and what the text parser says of them.
///
/// # Panics
/// If anything does not read back, or bytes are not canonical.
pub fn check(data: &[u8]) -> (Batch, Result<Batch, String>) {
    let batch = Batch::decode(data);
    check_batch(&batch);

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
    for arch in Arch::ALL {
        if let Ok(perturbation) = Perturbation::parse(arch, &text) {
            let shown = perturbation.display(arch).to_string();
            assert_eq!(
                Perturbation::parse(arch, &shown),
                Ok(perturbation),
                "{shown}"
            );
        }
    }
    let parsed = text.parse::<Batch>();
    if let Ok(batch) = &parsed {
        check_batch(batch);
    }
    (batch, parsed.map_err(|error| error.to_string()))
}

fn check_batch(batch: &Batch) {
    let bytes = batch.to_bytes();
    let back = Batch::decode(&bytes);
    assert_eq!(back, *batch, "bytes do not read back");
    assert_eq!(back.to_bytes(), bytes, "bytes are not canonical");
    for text in [batch.to_string(), format!("{batch:#}")] {
        assert_eq!(text.parse(), Ok(*batch), "text does not read back: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn says_what_the_bytes_are_as_batch_and_as_text() {
        let (batch, text) = check(b"");
        assert_eq!(batch.walks().len(), 1);
        assert!(text.is_err());
        let (_, text) = check(batch.to_string().as_bytes());
        assert_eq!(text, Ok(batch));
    }
}
