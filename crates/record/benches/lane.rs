//! What recording costs a walk. The bound is 15 ns for begin and end together.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use walkfuzz_context::{Arch, BlobKind, Registers};
use walkfuzz_record::{
    Counter, Generation, Options, Recorder, WalkOutcome, WalkerId, WalkerInfo,
    buckets::LatencyBuckets,
};

fn lane(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let walker = WalkerInfo {
        name: "agct".into(),
        generation: Generation::Agct,
        version: String::new(),
    };
    let path = folder.path().join("record.map");
    let recorder = Recorder::create(&path, &Options::new(walker)).expect("a record");
    let lane = recorder.lane(0).expect("lane 0");
    let mut untouched = Registers::zeroed(Arch::NATIVE);
    for (position, word) in untouched.words.iter_mut().enumerate() {
        *word = 0x7f00_0000_0000 + position as u64 * 8;
    }
    let mut edited = untouched;
    edited.set(Arch::NATIVE.fp(), 8);

    criterion.bench_function("begin and end a walk", |bencher| {
        let mut ticks = 0_u32;
        bencher.iter(|| {
            ticks = (ticks + 37) & 1023;
            lane.begin_walk(
                1,
                WalkerId(0),
                black_box(&edited),
                black_box(&untouched),
                BlobKind::Nmethod,
            );
            lane.end_walk(black_box(&WalkOutcome::Frames(ticks & 63)), ticks);
        });
    });
    criterion.bench_function("begin an input of 100 bytes", |bencher| {
        let input = [7_u8; 100];
        bencher.iter(|| lane.begin_input(black_box(&input)));
    });
    criterion.bench_function("add to a counter", |bencher| {
        bencher.iter(|| lane.add(black_box(Counter::Samples), 1));
    });
    criterion.bench_function("bucket of a latency", |bencher| {
        bencher.iter(|| LatencyBuckets::index(black_box(12_345)));
    });
}

criterion_group!(benches, lane);
criterion_main!(benches);
