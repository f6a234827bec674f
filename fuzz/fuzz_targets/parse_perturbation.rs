//! The codec of perturbations: any bytes decode, what they decode to round-trips through both the byte and the text form,
//! and no text makes the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walkfuzz_context::codec::{decode_perturbation, perturbation_to_bytes};
use walkfuzz_context::text::ArchPerturbation;
use walkfuzz_context::{Arch, Batch, Perturbation};

fuzz_target!(|data: &[u8]| {
    let batch = Batch::decode(data);
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
    if let Ok(batch) = text.parse::<Batch>() {
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
