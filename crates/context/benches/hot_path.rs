//! What the fuzzing loop pays per input and per walk.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use walkfuzz_context::codec::MAX_BATCH_BYTES;
use walkfuzz_context::generate::{self, Rng};
use walkfuzz_context::{
    Arch, Batch, LandscapeTable, NaturalClass, Perturbation, Registers, ValueClass, WitnessTable,
};

fn landscape() -> LandscapeTable {
    let mut landscape = LandscapeTable::new();
    for class in ValueClass::ALL {
        landscape.set(
            class,
            (0..1000).map(|n| 0x7000_0000_0000 + n * 64).collect(),
        );
    }
    let words: Vec<u64> = (0..256).collect();
    landscape.set_walked_stack(0x7fff_0000_0000, &words, |word| word % 4 == 0);
    landscape
}

/// A typical full batch: 16 walks of two edits.
fn batch() -> Batch {
    let text = "x86_64: pc=return-address[1] sp=return-address-slot[1]+8;".to_owned()
        + &"sp+=16 fp=heap[700]+3;".repeat(15);
    text.parse().expect("a valid text")
}

fn apply(c: &mut Criterion) {
    let landscape = landscape();
    let mut registers = Registers::zeroed(Arch::X86_64);
    for (name, text) in [
        (
            "apply/two sets",
            "pc=return-address[1] sp=return-address-slot[1]+8",
        ),
        (
            "apply/two sets, wrapped",
            "pc=nmethod-body[60000] fp=heap[50000]",
        ),
        ("apply/nudge and set", "sp+=16 fp=heap[700]+3"),
    ] {
        let walk = Perturbation::parse(Arch::X86_64, text).expect("a valid text");
        c.bench_function(name, |b| {
            b.iter(|| black_box(&walk).apply(black_box(&mut registers), &landscape));
        });
    }
    let words: Vec<u64> = (0..256).collect();
    let mut landscape = landscape.clone();
    c.bench_function("landscape/256 words of walked stack", |b| {
        b.iter(|| landscape.set_walked_stack(0x1000, black_box(&words), |word| word & 3 == 0));
    });
}

fn codec(c: &mut Criterion) {
    let full = batch();
    let bytes = full.to_bytes();
    c.bench_function("codec/decode 16 walks", |b| {
        b.iter(|| Batch::decode(black_box(&bytes)));
    });
    let mut into = full;
    c.bench_function("codec/decode 16 walks in place", |b| {
        b.iter(|| {
            into.decode_from(black_box(&bytes));
            black_box(&into);
        });
    });
    let mut out = [0; MAX_BATCH_BYTES];
    c.bench_function("codec/encode 16 walks", |b| {
        b.iter(|| black_box(&full).encode(black_box(&mut out)));
    });
}

fn fuzzing(c: &mut Criterion) {
    let bytes = batch().to_bytes();
    let other = generate::blind(7).to_bytes();
    let mut seed = 0u32;
    let mut data = [0; 4096];
    c.bench_function("generate/mutate 16 walks", |b| {
        b.iter(|| {
            seed = seed.wrapping_add(1);
            data[..bytes.len()].copy_from_slice(&bytes);
            generate::mutate(black_box(&mut data), bytes.len(), 4096, seed)
        });
    });
    c.bench_function("generate/crossover 16 walks", |b| {
        b.iter(|| {
            seed = seed.wrapping_add(1);
            generate::crossover(black_box(&bytes), black_box(&other), &mut data, seed)
        });
    });
    let mut dice = Rng::new(1);
    c.bench_function("generate/blind batch", |b| {
        b.iter(|| generate::batch(&mut dice, Arch::X86_64));
    });
}

fn witness(c: &mut Criterion) {
    static TABLE: WitnessTable = WitnessTable::new();
    let class = NaturalClass::from_index(1234).expect("a valid index");
    c.bench_function("witness/observe", |b| {
        b.iter(|| TABLE.observe(black_box(class)));
    });
}

criterion_group!(benches, apply, codec, fuzzing, witness);
criterion_main!(benches);
