//! The text form: the documented examples, errors, and the way back.

use proptest::prelude::*;
use walkfuzz_context::text::{ArchPerturbation, TextError};
use walkfuzz_context::{Arch, Batch, Perturbation, Register, Value};

use crate::strategies;

#[test]
fn the_documented_texts_read_and_print() {
    for (arch, text) in [
        (
            Arch::X86_64,
            "pc=nmethod-body[12]+3 sp+=16 fp~bit5 swap(sp,fp) fp=&sp-8",
        ),
        (Arch::X86_64, "fp=7 fp=0-8 rax-=2147483648 r15=&r14"),
        (Arch::Aarch64, "lr^pac0x5a lr=return-address[1] x19+=8"),
        (Arch::X86_64, "untouched"),
    ] {
        let perturbation = Perturbation::parse(arch, text).unwrap();
        assert_eq!(perturbation.display(arch).to_string(), text);
    }
    let other_spelling =
        Perturbation::parse(Arch::X86_64, " rip=literal[0x10] \n rsp+=0x10 ").unwrap();
    assert_eq!(
        other_spelling.display(Arch::X86_64).to_string(),
        "pc=16 sp+=16"
    );
}

#[test]
fn errors_name_what_was_not_understood() {
    for (text, error) in [
        ("pc", "not an edit: \"pc\""),
        ("pc*3", "not an edit: \"pc*3\""),
        ("swap(pc)", "not an edit: \"swap(pc)\""),
        ("x19+=8", "no register \"x19\" on x86_64"),
        ("pc=attic[3]", "no value class \"attic\""),
        ("pc=attic", "no value class \"attic\""),
        ("pc=heap[65536]", "not a number in 0..=65535: \"65536\""),
        (
            "pc=heap[1]-40000",
            "not a number in -32768..=32767: \"-40000\"",
        ),
        ("fp~bit64", "not a number in 0..=63: \"64\""),
        ("fp^pac128", "not a number in 0..=127: \"128\""),
        ("sp+=+8", "not a number in 0..=2147483647: \"+8\""),
        (
            "sp-=99999999999",
            "not a number in -2147483648..=2147483647: \"-99999999999\"",
        ),
        (
            "sp+=1 sp+=2 sp+=3 sp+=4 sp+=5 sp+=6 sp+=7",
            "more than 6 edits: \"sp+=1 sp+=2 sp+=3 sp+=4 sp+=5 sp+=6 sp+=7\"",
        ),
    ] {
        let got = Perturbation::parse(Arch::X86_64, text).unwrap_err();
        assert_eq!(got.to_string(), error);
    }
}

#[test]
fn a_batch_reads_with_defaults_and_prints_in_full() {
    let batch: Batch = "aarch64: sp+=16\n untouched".parse().unwrap();
    assert_eq!(batch.walks().len(), 2);
    assert_eq!(
        batch.to_string(),
        "aarch64 thread=0 steps=0 depth=64: sp+=16; untouched"
    );
    assert_eq!(
        format!("{batch:#}"),
        "aarch64 thread=0 steps=0 depth=64:\n  sp+=16\n  untouched"
    );
    assert_eq!(
        "x86_64:".parse::<Batch>().unwrap(),
        Batch::untouched(Arch::X86_64)
    );
    for (text, error) in [
        ("sp+=16", "no architecture and colon in front: \"sp+=16\""),
        (
            "arm: sp+=16",
            "no architecture and colon in front: \"arm: sp+=16\"",
        ),
        (
            "x86_64 depth=5: sp+=16",
            "no depth limit 5: one of [64, 1, 2, 3, 4, 8, 16, 32, 128, 256, 1024, 2048]",
        ),
        ("x86_64 thread=256:", "not a number in 0..=255: \"256\""),
    ] {
        assert_eq!(text.parse::<Batch>().unwrap_err().to_string(), error);
    }
    let many = format!("x86_64:{}", "sp+=8;".repeat(17));
    assert_eq!(many.parse::<Batch>(), Err(TextError::TooManyWalks));
}

proptest! {
    #[test]
    fn batches_round_trip(batch in strategies::batch()) {
        prop_assert_eq!(batch.to_string().parse::<Batch>(), Ok(batch));
        prop_assert_eq!(format!("{batch:#}").parse::<Batch>(), Ok(batch));
    }

    #[test]
    fn perturbations_and_values_round_trip(
        (arch, perturbation) in strategies::arch_perturbation(),
        value in strategies::value(),
    ) {
        let text = perturbation.display(arch).to_string();
        prop_assert_eq!(Perturbation::parse(arch, &text), Ok(perturbation));
        let tagged = ArchPerturbation { arch, perturbation };
        prop_assert_eq!(tagged.to_string().parse::<ArchPerturbation>(), Ok(tagged));
        prop_assert_eq!(value.to_string().parse::<Value>(), Ok(value));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "(?s).{0,64}", edits in "[a-z0-9=+&^~\\[\\]()x,; :-]{0,40}") {
        for text in [text, edits.clone(), format!("x86_64:{edits}"), format!("pc={edits}")] {
            let _ = text.parse::<Batch>();
            let _ = text.parse::<ArchPerturbation>();
            let _ = Perturbation::parse(Arch::Aarch64, &text);
        }
    }
}

#[test]
fn every_register_has_a_name_that_leads_back() {
    for arch in Arch::ALL {
        for index in 0..arch.register_count() as u8 {
            let name = Register(index).name(arch).unwrap();
            assert_eq!(Register::from_name(arch, name), Some(Register(index)));
            let own = arch.register_names()[usize::from(index)];
            assert_eq!(Register::from_name(arch, own), Some(Register(index)));
        }
        let past = Register(arch.register_count() as u8);
        assert_eq!(past.name(arch), None);
        assert_eq!(Arch::from_name(arch.name()), Some(arch));
    }
}
