//! The byte form: total, canonical, and stable.

use proptest::collection::vec;
use proptest::prelude::*;
use walkfuzz_context::codec::{
    MAX_BATCH_BYTES, MAX_PERTURBATION_BYTES, decode_perturbation, encode_perturbation,
    perturbation_to_bytes,
};
use walkfuzz_context::generate::{Dice, Rng};
use walkfuzz_context::{Arch, Batch, Edit, MAX_WALKS, Perturbation, ValueClass};

use crate::strategies;

/// As many bytes take proptest too long to draw one by one.
fn random_bytes(size: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<u8>> {
    (size, any::<u64>()).prop_map(|(size, seed)| {
        let mut dice = Rng::new(seed);
        (0..size).map(|_| dice.word() as u8).collect()
    })
}

proptest! {
    #[test]
    fn batches_round_trip(batch in strategies::batch()) {
        let bytes = batch.to_bytes();
        prop_assert_eq!(bytes.len(), batch.encoded_len());
        prop_assert!(bytes.len() <= MAX_BATCH_BYTES);
        prop_assert_eq!(Batch::decode(&bytes), batch);
    }

    #[test]
    fn perturbations_round_trip((arch, perturbation) in strategies::arch_perturbation()) {
        let bytes = perturbation_to_bytes(arch, &perturbation);
        prop_assert!(bytes.len() <= MAX_PERTURBATION_BYTES);
        prop_assert_eq!(decode_perturbation(&bytes), (arch, perturbation));
    }

    #[test]
    fn any_bytes_decode_and_their_encoding_is_a_fixed_point(
        bytes in prop_oneof![vec(any::<u8>(), 0..1024), random_bytes(0..=65536)],
    ) {
        let batch = Batch::decode(&bytes);
        prop_assert!((1..=MAX_WALKS).contains(&batch.walks().len()));
        let canonical = batch.to_bytes();
        prop_assert_eq!(Batch::decode(&canonical), batch);
        let (arch, perturbation) = decode_perturbation(&bytes);
        let canonical = perturbation_to_bytes(arch, &perturbation);
        prop_assert_eq!(decode_perturbation(&canonical), (arch, perturbation));
    }

    #[test]
    fn decoding_in_place_forgets_what_was_there(old in strategies::batch(), new in strategies::batch()) {
        let mut batch = old;
        batch.decode_from(&new.to_bytes());
        prop_assert_eq!(batch, new);
    }

    #[test]
    fn encoding_into_little_room_keeps_leading_walks(
        batch in strategies::batch(),
        room in 4..MAX_BATCH_BYTES,
    ) {
        let mut out = vec![0xaa; room];
        let used = batch.encode(&mut out);
        let kept = Batch::decode(&out[..used]);
        prop_assert_eq!(kept.encoded_len(), used);
        if used > 4 {
            prop_assert_eq!(kept.walks(), &batch.walks()[..kept.walks().len()]);
        }
        prop_assert_eq!((kept.arch, kept.thread, kept.steps, kept.depth),
            (batch.arch, batch.thread, batch.steps, batch.depth));
        if room >= batch.encoded_len() {
            prop_assert_eq!(kept, batch);
        }
    }

    #[test]
    fn registers_and_classes_of_decoded_edits_exist(bytes in vec(any::<u8>(), 0..700)) {
        let batch = Batch::decode(&bytes);
        for edit in batch.walks().iter().flat_map(Perturbation::edits) {
            for register in [Some(edit.register()), edit.other_register()].into_iter().flatten() {
                prop_assert!(register.name(batch.arch).is_some());
            }
        }
    }

    #[test]
    fn adapting_keeps_roles_and_nothing_else(batch in strategies::batch(), to in strategies::arch()) {
        let adapted = batch.adapt(to);
        prop_assert_eq!(adapted.arch, to);
        prop_assert_eq!(adapted.walks().len(), batch.walks().len());
        if to == batch.arch {
            prop_assert_eq!(adapted, batch);
        } else {
            let back = adapted.adapt(batch.arch);
            // What survived once survives always, and means the same to people.
            prop_assert_eq!(back.adapt(to), adapted);
            for (there, here) in adapted.walks().iter().zip(back.walks()) {
                prop_assert_eq!(there.display(to).to_string(), here.display(batch.arch).to_string());
            }
        }
    }
}

#[test]
fn no_bytes_are_one_untouched_walk() {
    for arch in Arch::ALL {
        assert_eq!(Batch::untouched(arch).to_bytes().len(), 4);
    }
    let batch = Batch::decode(&[]);
    assert_eq!(batch, Batch::untouched(Arch::X86_64));
    assert_eq!(batch.walks(), [Perturbation::UNTOUCHED]);
    let (_, perturbation) = decode_perturbation(&[]);
    assert!(perturbation.is_untouched());
}

/// A changed byte form needs a new version: corpora of this one must go on meaning what they mean.
#[test]
fn version_1_stays_as_it_is() {
    for (text, bytes) in [
        (
            "x86_64 thread=2 steps=40 depth=1: pc=nmethod-body[12]+3 sp+=16; untouched; fp~bit5",
            &[
                0x11, 2, 40, 1, 2, 1, 16, 4, 12, 0, 3, 0, 0, 4, 16, 0, 0, 0, 0, 1, 2, 5, 5,
            ][..],
        ),
        (
            "aarch64: swap(sp,fp) fp=&sp-8 lr^pac0x5a x7=0x102",
            &[
                0x12,
                0,
                0,
                0,
                4,
                3,
                31,
                29,
                4,
                29,
                31,
                0xf8,
                0xff,
                0xff,
                0xff,
                5,
                30,
                0x5a,
                1,
                7,
                ValueClass::Literal as u8,
                2,
                1,
                0,
                0,
            ][..],
        ),
    ] {
        let batch: Batch = text.parse().unwrap();
        assert_eq!(batch.to_bytes(), bytes, "{text}");
        assert_eq!(Batch::decode(bytes), batch, "{text}");
    }
    // The classes' numbers are part of the form: none may move.
    for (class, number) in [
        (ValueClass::StackWord, 0),
        (ValueClass::NmethodBody, 4),
        (ValueClass::InterpreterCodelet, 10),
        (ValueClass::NaturalPc, 16),
        (ValueClass::OwnStack, 20),
        (ValueClass::Heap, 27),
        (ValueClass::Literal, 32),
    ] {
        assert_eq!(class as u8, number, "{}", class.name());
    }
}

#[test]
fn register_bytes_past_the_last_register_stand_for_pc_sp_and_fp() {
    for (byte, name) in [(33, "pc"), (34, "sp"), (35, "fp"), (255, "pc")] {
        for header in [0x11, 0x12] {
            let batch = Batch::decode(&[header, 0, 0, 0, 1, 2, byte, 9]);
            let [Edit::Flip { register, bit: 9 }] = *batch.walks()[0].edits() else {
                panic!("{batch:?}");
            };
            assert_eq!(register.name(batch.arch), Some(name));
        }
    }
}

#[test]
fn a_perturbation_that_does_not_fit_is_not_half_written() {
    let walk = Perturbation::parse(Arch::X86_64, "sp+=16 fp=heap[1]").unwrap();
    let needed = perturbation_to_bytes(Arch::X86_64, &walk).len();
    for room in 0..needed {
        assert_eq!(
            encode_perturbation(Arch::X86_64, &walk, &mut vec![0; room]),
            0
        );
    }
    assert_eq!(
        encode_perturbation(Arch::X86_64, &walk, &mut vec![0; needed]),
        needed
    );
    assert_eq!(Batch::untouched(Arch::X86_64).encode(&mut [0; 3]), 0);
}
