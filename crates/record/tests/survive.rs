//! A record outlives its writer: killed between any two stores, cut off, or overwritten with anything.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test itself"
)]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use proptest::prelude::*;
use walkfuzz_context::{Address, Arch, BlobKind, Pc, Registers};
use walkfuzz_record::layout::{HEADER_BYTES, LANE_BYTES, MAX_LANES, file_bytes};
use walkfuzz_record::machine;
use walkfuzz_record::{
    Code, Counter, Damage, FaultRecord, Generation, Options, OutcomeKind, RecordError,
    RecordReader, Recorder, WalkOutcome, WalkerId, WalkerInfo,
};

fn options() -> Options {
    Options {
        lanes: 2,
        jvm_build_id: "4f2a".into(),
        jvm_version: "17.0.15+6".into(),
        ..Options::new(WalkerInfo {
            name: "agct".into(),
            generation: Generation::Agct,
            version: "17.0.15".into(),
        })
    }
}

fn registers(base: u64) -> Registers {
    let mut registers = Registers::zeroed(Arch::NATIVE);
    for (position, word) in registers
        .words
        .iter_mut()
        .take(Arch::NATIVE.register_names().len())
        .enumerate()
    {
        *word = base + position as u64;
    }
    registers
}

#[test]
#[ignore = "the body of the process that the next test kills"]
fn child_walks_until_killed() {
    let path = std::env::var("WALKFUZZ_RECORD_CHILD").expect("a path");
    let recorder = Recorder::create(Path::new(&path), &options()).unwrap();
    let lane = recorder.claim(7).unwrap();
    // Every word of a walk is derived from its number, so that a mixture of two walks is recognised.
    for number in 1_u64.. {
        if number % 16 == 1 {
            lane.begin_input(&number.to_le_bytes());
        }
        let base = number << 8;
        let mut edited = registers(base);
        edited.set(Arch::NATIVE.fp(), 8);
        lane.begin_walk(
            (number % 16) as u8,
            WalkerId(0),
            &edited,
            &registers(base),
            BlobKind::Nmethod,
        );
        lane.end_walk(&WalkOutcome::Frames(3), 100);
    }
}

/// A walk that left its snapshot has no outcome, and nothing is wrong with the record.
#[test]
fn walks_that_were_given_up_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record-1.map");
    let recorder = Recorder::create(&path, &options()).unwrap();
    let lane = recorder.claim(7).unwrap();
    let walk = |ends: bool| {
        let registers = registers(256);
        lane.begin_walk(0, WalkerId(0), &registers, &registers, BlobKind::Nmethod);
        if ends {
            lane.end_walk(&WalkOutcome::Frames(3), 100);
        }
    };
    for ends in [true, false, false, true, false, true] {
        walk(ends);
    }
    let record = RecordReader::open(&path).unwrap();
    assert_eq!(record.damage, []);
    assert_eq!(record.lanes[0].counter(Counter::Abandoned), 3);
}

#[test]
fn sigkill_at_any_moment_leaves_a_usable_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = 0;
    for round in 0..40 {
        let path = folder.path().join(format!("record-{round}.map"));
        let mut child = machine::command(std::env::current_exe().unwrap())
            .args(["--exact", "child_walks_until_killed", "--ignored"])
            .env("WALKFUZZ_RECORD_CHILD", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        while RecordReader::open(&path).map_or(0, |record| record.lanes[0].walks) == 0 {
            assert!(Instant::now() < patience, "the child records nothing");
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let record = RecordReader::open(&path).unwrap();
        assert_eq!(record.ended, None);
        let lane = &record.lanes[0];
        assert_eq!(lane.owner, Some(7));
        assert!(lane.walks > 0);
        let harmless =
            |damage: &Damage| matches!(damage, Damage::TornWalk { .. } | Damage::TornInput { .. });
        assert!(record.damage.iter().all(harmless), "{:?}", record.damage);
        if let Some(walk) = lane.open.as_ref().filter(|walk| walk.begun) {
            open += 1;
            let base = walk.number << 8;
            let mut expected = registers(base);
            expected.set(Arch::NATIVE.fp(), 8);
            assert_eq!(walk.registers, expected);
            assert_eq!(walk.untouched, registers(base));
            assert_eq!(walk.edited_names().len(), 1);
            assert_eq!(record.in_flight().len(), 1);
        }
        // The last walk may be half recorded; all others are whole.
        let whole = lane.recent.iter().take(lane.recent.len() - 1);
        for walk in whole {
            assert_eq!(walk.pc, registers(walk.number << 8).pc());
            assert_eq!(walk.outcome, Some(OutcomeKind::Frames));
        }
    }
    println!("{open} of 40 processes died in a walk");
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.map");
    let recorder = Recorder::create(&path, &options()).unwrap();
    let lane = recorder.lane(1).unwrap();
    assert!(recorder.lane(2).is_none());
    let untouched = registers(0x7f00_0000_0000);
    let walk = |index, registers: &Registers, outcome: Option<WalkOutcome>| {
        lane.begin_walk(
            index,
            WalkerId(0),
            registers,
            &untouched,
            BlobKind::Interpreter,
        );
        if let Some(outcome) = outcome {
            lane.end_walk(&outcome, 250);
        }
    };
    lane.begin_input(&[0xab; 5000]);
    walk(0, &untouched, Some(WalkOutcome::Frames(12)));
    lane.control(true);
    let mut edited = untouched;
    edited.set(Arch::NATIVE.sp(), 0x10);
    walk(1, &edited, Some(WalkOutcome::Error(Code(-5))));
    let fault = FaultRecord {
        signal: 11,
        code: 1,
        pc: Pc(0x1234),
        address: Address(0x10),
    };
    walk(2, &edited, Some(WalkOutcome::Fault(fault)));
    walk(3, &edited, Some(WalkOutcome::Hang));
    lane.end_walk(&WalkOutcome::Hang, 1); // without an open walk: nothing
    lane.begin_walk(4, WalkerId(0), &untouched, &untouched, BlobKind::Libjvm);
    lane.mark_perturbed();
    lane.end_walk(&WalkOutcome::Error(Code(-100)), 1);
    lane.add(Counter::NearMisses, 3);
    walk(5, &edited, None);

    let record = RecordReader::open(&path).unwrap();
    assert_eq!(record.damage, []);
    assert_eq!(record.arch, Some(Arch::NATIVE));
    assert_eq!(record.pid, u64::from(std::process::id()));
    assert_eq!(record.jvm_version, "17.0.15+6");
    assert_eq!(record.walker(WalkerId(0)), options().walkers.first());
    assert_eq!(record.walker(WalkerId(1)), None);
    assert_eq!(record.ended, None);
    let lane = &record.lanes[1];
    assert_eq!(lane.walks, 5);
    assert_eq!(lane.counter(Counter::Recoveries), 2);
    assert_eq!(lane.counter(Counter::Hangs), 1);
    assert_eq!(lane.counter(Counter::NearMisses), 3);
    assert_eq!(lane.counter(Counter::ControlsSucceeded), 1);
    assert_eq!(lane.counter(Counter::WalkerTicks), 1001);
    assert_eq!(lane.last_fault, Some((3, fault)));
    let input = lane.input.as_ref().unwrap();
    assert_eq!((input.length, input.bytes.len()), (5000, 4096));
    assert!(input.intact && input.bytes.iter().all(|&byte| byte == 0xab));
    let kinds: Vec<_> = lane.recent.iter().map(|walk| walk.outcome).collect();
    let expected = [
        Some(OutcomeKind::Frames),
        Some(OutcomeKind::Error),
        Some(OutcomeKind::Fault),
        Some(OutcomeKind::Hang),
        Some(OutcomeKind::Error),
        None,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(lane.recent[1].value.cast_signed(), -5);
    let [(_, false, natural), (_, true, perturbed)] = &lane.tallies[..] else {
        panic!(
            "untouched and perturbed walks are kept apart: {:?}",
            lane.tallies
        );
    };
    assert_eq!((natural.walks(), natural.frames()), (1, 1));
    assert_eq!(
        perturbed.codes().into_iter().collect::<Vec<_>>(),
        [(Code(-5), 1)]
    );
    assert_eq!(
        (
            perturbed.faults(),
            perturbed.hangs(),
            perturbed.other_codes()
        ),
        (1, 1, 1)
    );
    let sentence = record.in_flight().join("\n");
    for part in [
        "lane 1: a walk was open: input of 5000 bytes",
        "walk 5, agct",
        "sp 0x10",
        "in interpreter",
    ] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }

    drop(recorder);
    let record = RecordReader::open(&path).unwrap();
    assert!(record.ended.is_some_and(|ended| ended >= record.started));
}

#[test]
fn many_threads_claim_lanes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.map");
    let options = Options {
        lanes: 8,
        ..options()
    };
    let recorder = Recorder::create(&path, &options).unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let recorder = &recorder;
            scope.spawn(move || {
                let lane = recorder.claim(thread).expect("a lane for each thread");
                let registers = registers(u64::from(thread) << 20);
                for _ in 0..10_000 {
                    lane.begin_walk(0, WalkerId(0), &registers, &registers, BlobKind::Nmethod);
                    lane.end_walk(&WalkOutcome::Frames(1), 1);
                }
            });
        }
    });
    assert!(recorder.claim(9).is_none(), "all lanes are taken");
    recorder.lane(3).unwrap().release();
    assert_eq!(recorder.claim(9).unwrap().owner(), Some(9));
    let record = RecordReader::open(&path).unwrap();
    assert!(record.lanes.iter().all(|lane| lane.walks == 10_000));
    assert_eq!(record.damage, []);
}

#[test]
fn bad_paths_and_sizes_are_clear_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.map");
    let error = Recorder::create(&folder.path().join("no/such/folder"), &options()).unwrap_err();
    assert!(matches!(error, RecordError::Create { .. }), "{error}");
    for lanes in [0, MAX_LANES + 1] {
        let options = Options { lanes, ..options() };
        let error = Recorder::create(&path, &options).unwrap_err();
        assert!(matches!(error, RecordError::Lanes { .. }), "{error}");
    }
    let options = Options {
        walkers: Vec::new(),
        ..options()
    };
    let error = Recorder::create(&path, &options).unwrap_err();
    assert!(matches!(error, RecordError::Walkers { .. }), "{error}");
    assert!(!path.exists());

    fs::write(&path, "something else").unwrap();
    let error = Recorder::create(&path, &self::options()).unwrap_err();
    assert!(error.to_string().contains("record.map"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"something else");
    let error = RecordReader::open(&path).unwrap_err();
    assert!(matches!(error, RecordError::NotARecord { .. }), "{error}");
    let error = RecordReader::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordError::NotARecord { .. }), "{error}");
}

/// A limit on file sizes is the one full disk that needs no root.
#[test]
#[ignore = "the body of the next test's process"]
fn child_has_no_room() {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    let path = std::env::var("WALKFUZZ_RECORD_NO_ROOM").expect("a path");
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGXFSZ);
    mask.thread_block().unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 8192, 8192).unwrap();
    let error = Recorder::create(Path::new(&path), &options()).unwrap_err();
    assert!(matches!(error, RecordError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("no room for record"), "{error}");
    assert!(!Path::new(&path).exists(), "nothing is left behind");
}

#[test]
fn no_room_is_an_error_of_creation() {
    let folder = tempfile::tempdir().unwrap();
    let child = machine::command(std::env::current_exe().unwrap())
        .args(["--exact", "child_has_no_room", "--ignored"])
        .env("WALKFUZZ_RECORD_NO_ROOM", folder.path().join("record.map"))
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

/// A record with something in every section, as bytes.
fn sample() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.map");
    let recorder = Recorder::create(&path, &options()).unwrap();
    for index in 0..2 {
        let lane = recorder.lane(index).unwrap();
        lane.begin_input(b"an input");
        for number in 0..100 {
            let registers = registers(number);
            lane.begin_walk(0, WalkerId(0), &registers, &registers, BlobKind::Nmethod);
            lane.end_walk(&WalkOutcome::Frames(2), 9);
        }
    }
    fs::read(&path).unwrap()
}

/// Uses everything that a reader offers.
fn use_up(bytes: &[u8]) -> Option<usize> {
    let record = RecordReader::parse(Path::new("test.map"), bytes).ok()?;
    let damage: Vec<_> = record.damage.iter().map(ToString::to_string).collect();
    let mut length = record.in_flight().join("").len() + damage.join("").len();
    for lane in &record.lanes {
        for (_, _, tally) in &lane.tallies {
            length += tally.depth_histogram().len() as usize % 7;
            length += tally.latency_histogram(record.tick_hz).len() as usize % 7;
        }
    }
    Some(length)
}

#[test]
fn a_cut_off_record_keeps_what_it_has() {
    let whole = sample();
    assert_eq!(whole.len() as u64, file_bytes(2));
    let read = |length: usize| RecordReader::parse(Path::new("test.map"), &whole[..length]);
    assert!(matches!(read(7), Err(RecordError::NotARecord { .. })));
    assert!(matches!(
        read(100),
        Err(RecordError::CutOff { bytes: 100, .. })
    ));
    let one = read(HEADER_BYTES + LANE_BYTES + 640).unwrap();
    assert_eq!(one.lanes.len(), 2);
    assert_eq!((one.lanes[0].walks, one.lanes[1].walks), (100, 100));
    assert_eq!(one.lanes[0].tallies.len(), 1);
    assert!(one.damage.contains(&Damage::CutOff {
        expected: file_bytes(2),
        found: (HEADER_BYTES + LANE_BYTES + 640) as u64
    }));
}

#[test]
fn another_version_is_named() {
    let mut bytes = sample();
    bytes[8] = 99;
    let error = RecordReader::parse(Path::new("test.map"), &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record test.map has layout version 99; this program reads 2"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..20_000), real_head: bool) {
        if real_head {
            let sample = sample();
            for (to, from) in bytes.iter_mut().zip(&sample[..800]) {
                *to = *from;
            }
        }
        use_up(&bytes);
    }

    #[test]
    fn any_cut_is_read_without_a_panic(cut in 0..file_bytes(2) as usize) {
        use_up(&sample()[..cut]);
    }

    #[test]
    fn any_overwriting_is_read_without_a_panic(
        at in 12..file_bytes(2) as usize,
        noise in prop::collection::vec(any::<u8>(), 1..4096),
    ) {
        let mut bytes = sample();
        for (to, from) in bytes.iter_mut().skip(at).zip(noise) {
            *to = from;
        }
        prop_assert!(use_up(&bytes).is_some());
    }
}
