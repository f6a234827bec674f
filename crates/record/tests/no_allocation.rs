//! What handlers call allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use walkfuzz_context::{Arch, BlobKind, Registers};
use walkfuzz_record::{
    Code, Contradiction, ContradictionKind, Counter, FaultRecord, Generation, Options, Recorder,
    WalkOutcome, WalkerId, WalkerInfo,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes on to the system's allocator unchanged; counting touches a constant-initialised thread-local without a
// destructor, which allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn recording_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let walker = WalkerInfo {
        name: "agct".into(),
        generation: Generation::Agct,
        version: String::new(),
    };
    let path = folder.path().join("record.map");
    let recorder = Recorder::create(&path, &Options::new(walker)).unwrap();
    let untouched = Registers::zeroed(Arch::NATIVE);
    let input = vec![1; 10_000];
    let outcomes = [
        WalkOutcome::Frames(u32::MAX),
        WalkOutcome::Error(Code(i32::MIN)),
        WalkOutcome::Fault(FaultRecord::default()),
        WalkOutcome::Hang,
        WalkOutcome::WrongFrames(Contradiction {
            kind: ContradictionKind::OtherBci,
            frame: u32::MAX,
            known: None,
            given: None,
            expected: None,
        }),
    ];

    let before = ALLOCATIONS.get();
    let lane = recorder.claim(1).unwrap();
    lane.begin_input(&input);
    for outcome in &outcomes {
        // A walker's number that is out of range is the caller's mistake, and no reason to die in a handler.
        for walker in [0, 255] {
            lane.begin_walk(
                255,
                WalkerId(walker),
                &untouched,
                &untouched,
                BlobKind::Outside,
            );
            lane.mark_perturbed();
            lane.end_walk(outcome, u32::MAX);
        }
    }
    lane.control(true);
    lane.add(Counter::Parks, u64::MAX);
    lane.add(Counter::Parks, u64::MAX);
    recorder.mark_tainted(3);
    lane.release();
    let after = ALLOCATIONS.get();
    assert_eq!(after - before, 0);

    drop(vec![0_u8; 10]);
    assert_eq!(ALLOCATIONS.get() - after, 2, "the counter counts");
    assert_eq!(lane.walks(), 10);
}
