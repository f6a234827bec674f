//! Generated, mutated and crossed batches are batches, vary, and follow their distributions.

use std::collections::HashSet;

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;
use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_context::generate::{self, Rng};
use walkfuzz_context::{Arch, Batch, Edit, Perturbation, ValueClass};

use crate::strategies;

/// The bytes are what their batch encodes to.
fn assert_canonical(bytes: &[u8]) -> Result<(), TestCaseError> {
    prop_assert_eq!(Batch::decode(bytes).to_bytes(), bytes);
    Ok(())
}

proptest! {
    #[test]
    fn mutants_are_canonical_and_fit(
        bytes in vec(any::<u8>(), 0..2000),
        room in 0..2000usize,
        max_size in 0..2000usize,
        seed: u32,
    ) {
        let mut data = bytes.clone();
        data.resize(bytes.len() + room, 0xaa);
        let size = generate::mutate(&mut data, bytes.len(), max_size, seed);
        prop_assert!(size <= max_size && size <= data.len());
        if size == 0 {
            prop_assert!(max_size.min(data.len()) < 4);
        } else {
            assert_canonical(&data[..size])?;
        }
        prop_assert_eq!(Batch::decode(&data[..size]).arch as u8,
            if size == 0 { 1 } else { Batch::decode(&bytes).arch as u8 });
    }

    #[test]
    fn children_are_canonical_and_fit(
        a in vec(any::<u8>(), 0..1000),
        b in vec(any::<u8>(), 0..1000),
        room in 0..1000usize,
        seed: u32,
    ) {
        let mut out = vec![0xaa; room];
        let size = generate::crossover(&a, &b, &mut out, seed);
        prop_assert!(size <= room);
        if size == 0 {
            prop_assert!(room < 4);
        } else {
            assert_canonical(&out[..size])?;
        }
    }

    #[test]
    fn children_hold_only_what_their_parents_hold(
        a in strategies::batch(),
        b in strategies::batch(),
        seed: u32,
    ) {
        let mut out = [0; MAX_BATCH_BYTES];
        let size = generate::crossover(&a.to_bytes(), &b.to_bytes(), &mut out, seed);
        let child = Batch::decode(&out[..size]);
        let b = b.adapt(a.arch);
        prop_assert_eq!(child.arch, a.arch);
        prop_assert_eq!(child.walks().len(), a.walks().len().max(b.walks().len()));
        prop_assert!([a.depth, b.depth].contains(&child.depth));
        let edits: HashSet<Edit> = [a, b].iter().flat_map(|parent| parent.walks())
            .flat_map(Perturbation::edits).copied().collect();
        for edit in child.walks().iter().flat_map(Perturbation::edits) {
            prop_assert!(edits.contains(edit), "{:?}", edit);
        }
    }

    #[test]
    fn arbitrary_needs_no_minimum_of_bytes(bytes in vec(any::<u8>(), 0..600)) {
        let batch = Batch::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
        assert_canonical(&batch.to_bytes())?;
        Perturbation::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
        Edit::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
    }

    #[test]
    fn the_same_seed_makes_the_same(seed: u64) {
        prop_assert_eq!(generate::blind(seed), generate::blind(seed));
        let bytes = generate::blind(seed).to_bytes();
        let mutants = [(); 2].map(|()| {
            let mut data = bytes.clone();
            data.resize(4096, 0);
            let size = generate::mutate(&mut data, bytes.len(), 4096, seed as u32);
            data[..size].to_vec()
        });
        prop_assert_eq!(&mutants[0], &mutants[1]);
    }
}

#[test]
fn nearly_every_mutant_differs_from_its_parent() {
    let parent = generate::blind(3).to_bytes();
    let mut mutants = HashSet::new();
    let mut unchanged = 0;
    for seed in 0..10_000 {
        let mut data = parent.clone();
        data.resize(4096, 0);
        let size = generate::mutate(&mut data, parent.len(), 4096, seed);
        unchanged += u32::from(data[..size] == parent[..]);
        mutants.insert(data[..size].to_vec());
    }
    assert!(unchanged < 100, "{unchanged} of 10000 mutants unchanged");
    assert!(
        mutants.len() > 8_500,
        "{} different of 10000",
        mutants.len()
    );
}

/// From one untouched walk, mutation alone reaches full batches, every kind of edit and every value class.
#[test]
fn mutation_reaches_everything_from_nothing() {
    for arch in Arch::ALL {
        let mut dice = Rng::new(5);
        let (mut kinds, mut classes, mut counts) = (HashSet::new(), HashSet::new(), HashSet::new());
        for _ in 0..100 {
            let mut batch = Batch::untouched(arch);
            for _ in 0..100 {
                generate::mutate_batch(&mut batch, &mut dice);
                counts.insert(batch.walks().len());
                for edit in batch.walks().iter().flat_map(Perturbation::edits) {
                    kinds.insert(std::mem::discriminant(edit));
                    if let Edit::Set { value, .. } = edit {
                        classes.insert(value.class);
                    }
                }
            }
        }
        assert_eq!(classes.len(), ValueClass::COUNT);
        assert_eq!(counts.len(), 16);
        assert_eq!(kinds.len(), if arch == Arch::Aarch64 { 6 } else { 5 });
    }
}

#[test]
fn edits_favour_pc_sp_and_fp() {
    for arch in Arch::ALL {
        let mut dice = Rng::new(6);
        let edits: Vec<Edit> = (0..20_000)
            .map(|_| generate::edit(&mut dice, arch))
            .collect();
        let main = [arch.pc(), arch.sp(), arch.fp()];
        let of_main = edits.iter().filter(|edit| main.contains(&edit.register()));
        assert!(of_main.count() > 18_000);
        for register in main {
            let share = edits
                .iter()
                .filter(|edit| edit.register() == register)
                .count();
            assert!(share > 4_000, "{:?} {share}", register.name(arch));
        }
        let others: HashSet<_> = edits.iter().map(Edit::register).collect();
        assert_eq!(others.len(), arch.register_count());
        let words = edits.iter().filter_map(|edit| match edit {
            Edit::Nudge { register, delta } if *register == arch.sp() => Some(delta % 8 == 0),
            _ => None,
        });
        let (whole, broken): (Vec<bool>, Vec<bool>) = words.partition(|whole| *whole);
        assert!(whole.len() > 7 * broken.len() && !broken.is_empty());
    }
}
