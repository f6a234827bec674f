//! Engines without a session around them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use walkfuzz_context::generate::blind;
use walkfuzz_context::{Address, Arch, Batch, Perturbation};
use walkfuzz_engine::{Engine, FrozenEnd, Moment, Request, Shared, Step, can_step, freeze};
use walkfuzz_guard::read_checked;
use walkfuzz_harness::Settings;
use walkfuzz_harness::start::{Subject, jvm_options, start};
use walkfuzz_harness::walks::{BatchReport, Bench};
use walkfuzz_harness::world::World;
use walkfuzz_record::{Generation, Lane, Options, Recorder, WalkOutcome, WalkerId, WalkerInfo};
use walkfuzz_walkers::{Agct, TraceBuffer};

use crate::allocations;

fn subject() -> Subject {
    let settings = Settings::from_environment().unwrap();
    start(&settings, jvm_options().unwrap(), &PathBuf::from(".")).unwrap()
}

fn recorder() -> Recorder {
    let walker = WalkerInfo {
        name: "agct".to_owned(),
        generation: Generation::Agct,
        version: String::new(),
    };
    Recorder::create(&PathBuf::from("record"), &Options::new(walker)).unwrap()
}

fn bench<'a>(world: &'a World, walker: &'a Agct, lane: &'a Lane) -> Bench<'a> {
    Bench {
        walker,
        walker_id: WalkerId(0),
        landscape: &world.landscape,
        code: &world.code,
        lane,
        oracle: None,
    }
}

fn request(steps: u8, fresh: bool) -> Request<'static> {
    Request {
        worker: None,
        kind: 0,
        steps,
        fresh,
        natural: &|_| {},
    }
}

/// Control and walks, as far as they must not differ.
fn outcomes(report: &BatchReport) -> Vec<(WalkOutcome, u32)> {
    std::iter::once(&report.control)
        .chain(report.walks())
        .map(|walk| (walk.outcome, walk.near_misses))
        .collect()
}

/// In a frozen copy nothing moves: the same batch gives the same outcomes in each. A copy that spins or dies is the end of that
/// copy alone.
pub(crate) fn frozen() {
    const COPIES: usize = 20;
    const LONG: Duration = Duration::from_secs(30);
    type Reports = [BatchReport; COPIES];
    let Subject {
        jvm: _jvm,
        mut world,
        mut live,
        agct,
        ..
    } = subject();
    let recorder = recorder();
    let lane = recorder.lane(0).unwrap();
    let mut faults = 0;
    let mut walks = 0;
    for seed in 1..=12 {
        let batch = blind(seed);
        let mut reports: Shared<Reports> = Shared::new([BatchReport::new(); COPIES]).unwrap();
        let mut end = None;
        live.visit(&request(0, true), &mut |moment| {
            world.meet(moment);
            let bench = bench(&world, &agct, lane);
            // A copy of the moment first, in which no compiler and no collector goes on.
            let mut still = freeze(moment, LONG, |moment| {
                let mut trace = TraceBuffer::new();
                for report in reports.iter_mut() {
                    let mut copy = freeze(moment, LONG, |moment| {
                        bench.walk_batch(moment, &batch, &mut trace, report);
                    })
                    .unwrap();
                    assert_eq!(copy.wait(), FrozenEnd::Done);
                }
            })
            .unwrap();
            end = Some(still.wait());
        })
        .unwrap();
        assert_eq!(end, Some(FrozenEnd::Done));
        let first = outcomes(&reports[0]);
        assert_eq!(first.len(), 1 + batch.walks().len());
        for report in reports.iter() {
            assert_eq!(outcomes(report), first, "seed {seed}: {batch}");
        }
        walks += first.len();
        faults += first
            .iter()
            .filter(|(outcome, _)| matches!(outcome, WalkOutcome::Fault(_)))
            .count();
    }
    println!("note: {walks} walks, {faults} faults, the same in {COPIES} copies each");

    let limit = Duration::from_millis(300);
    let ends: Vec<(FrozenEnd, Duration)> = [
        |_: &mut Moment| loop {
            std::hint::spin_loop();
        },
        // SAFETY: ends the copy.
        |_: &mut Moment| unsafe { libc::abort() },
        |_: &mut Moment| {},
    ]
    .map(|work: fn(&mut Moment)| {
        let mut end = None;
        live.visit(&request(0, true), &mut |moment| {
            let began = Instant::now();
            let mut copy = freeze(moment, limit, work).unwrap();
            end = Some((copy.wait(), began.elapsed()));
        })
        .unwrap();
        end.unwrap()
    })
    .to_vec();
    let [(spun, after), (died, _), (did, _)] = ends[..] else {
        panic!("{ends:?}");
    };
    assert_eq!(spun, FrozenEnd::TimedOut);
    assert!(
        (limit..limit * 10).contains(&after),
        "ended after {after:?}"
    );
    assert_eq!(died, FrozenEnd::Killed(libc::SIGABRT));
    assert_eq!(did, FrozenEnd::Done);
    // The process itself goes on.
    let moments = live.moments();
    live.visit(&request(0, true), &mut |_| {}).unwrap();
    assert_eq!(live.moments(), moments + 1);
}

/// HotSpot's stubs save the flags with `pushf`, the trap flag among them, and bring it back with `popf` when nobody steps the
/// thread any more. Leaves threads right behind a `pushf`, which must not end the process.
pub(crate) fn trap_flag() {
    const PUSHF: u8 = 0x9c;
    const WANTED: u32 = 3;
    if !can_step() || cfg!(not(target_arch = "x86_64")) {
        println!("note: skip: no trap flag on this architecture");
        return;
    }
    let Subject {
        jvm: _jvm, live, ..
    } = subject();
    let mut engine = Step::new(live, 4_000).unwrap();
    let (mut left, mut steps, mut fresh) = (0, 0_u32, true);
    let began = Instant::now();
    // Some JVMs come by a pushf seldom.
    let enough = |left| match began.elapsed().as_secs() {
        0..10 => left >= WANTED,
        10..50 => left > 0,
        _ => true,
    };
    while !enough(left) {
        let mut at_pushf = false;
        engine
            .visit(&request(0, fresh), &mut |moment| {
                let mut byte = [0];
                let pc = Address(moment.untouched.pc().0);
                at_pushf = read_checked(pc, &mut byte).is_ok() && byte[0] == PUSHF;
            })
            .unwrap();
        steps += 1;
        fresh = at_pushf;
        if at_pushf {
            // Over it, and away.
            engine.visit(&request(0, false), &mut |_| {}).unwrap();
            left += 1;
        }
    }
    for _ in 0..200 {
        engine.visit(&request(0, true), &mut |_| {}).unwrap();
    }
    println!("note: left {left} threads behind a pushf, in {steps} steps");
    assert!(left > 0, "no pushf in {steps} steps");
}

/// The handlers, the way from one thread to the next, and the walks allocate nothing. From outside the handlers cannot be told from
/// the flow that they carry; so all of a visit is counted, on all threads.
pub(crate) fn allocations() {
    let Subject {
        jvm: _jvm,
        mut world,
        mut live,
        agct,
        ..
    } = subject();
    let recorder = recorder();
    let lane = recorder.lane(0).unwrap();
    let mut trace = TraceBuffer::new();
    let mut report = BatchReport::new();
    let sp = Perturbation::parse(Arch::NATIVE, "sp+=8").unwrap();
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.push(sp);
    let batches: Vec<Batch> = (1..=200)
        .map(|seed| blind(seed).adapt(Arch::NATIVE))
        .chain([batch])
        .collect();
    // What is allocated once: symbols that the JVM looks up, the first of everything.
    live.visit(&request(4, true), &mut |moment| {
        world.meet(moment);
    })
    .unwrap();
    let bench = bench(&world, &agct, lane);
    let mut failed = None;
    let counted = allocations::during(|| {
        for batch in &batches {
            let steps = if can_step() { batch.steps.min(40) } else { 0 };
            let visited = live.visit(&request(steps, true), &mut |moment| {
                bench.walk_batch(moment, batch, &mut trace, &mut report);
            });
            failed = failed.take().or(visited.err());
        }
    });
    assert!(failed.is_none(), "{failed:?}");
    let counts = live.counts();
    assert!(counts.parks >= batches.len() as u64, "{counts:?}");
    assert_eq!(counted, 0, "allocations in {} visits", batches.len());
    // The counter itself works.
    assert_eq!(allocations::during(|| drop(Box::new(1_u8))), 2);
    println!(
        "note: {} visits, {} steps, {} walks, no allocation",
        batches.len(),
        counts.steps,
        lane.walks()
    );
}
