//! A run that is the same on every machine.

use std::path::Path;

use jiff::Timestamp;
use walkfuzz_context::{Arch, BlobKind, Registers};
use walkfuzz_record::finding::{
    FaultRegister, FaultSite, FindingBlob, FindingCapsule, FindingInput, FindingMoment,
    FindingOutcome, FindingRegisters, JavaFrame, KnownMatch, LiveTry, MemoryChange, MemoryWord,
    Reliability,
};
use walkfuzz_record::{
    CellState, Code, Counter, FaultRecord, Finding, FindingVerdict, Generation, JvmFacts, KOfN,
    MachineFacts, Options, OutcomeKind, ProcessEnd, ProcessOutcome, Record, RecordReader, Recorder,
    RunFacts, SCHEMA, WalkOutcome, WalkerId, WalkerInfo, WitnessCount,
};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_772_357_400 + seconds).unwrap()
}

pub(crate) fn agct() -> WalkerInfo {
    WalkerInfo {
        name: "agct".into(),
        generation: Generation::Agct,
        version: "17.0.15".into(),
    }
}

pub(crate) fn jvm() -> JvmFacts {
    JvmFacts {
        version: "17.0.15+6-Debian-1deb12u1".into(),
        vendor: "Debian".into(),
        build_id: "0123456789abcdef0123456789abcdef01234567".into(),
        collector: "g1".into(),
        options: vec!["-Xmx128m".into(), "-XX:+UseG1GC".into()],
    }
}

pub(crate) fn machine() -> MachineFacts {
    MachineFacts {
        arch: "x86_64".into(),
        kernel: "6.1.0-30-amd64".into(),
        cpus: 2,
        emulated: false,
    }
}

pub(crate) fn facts() -> RunFacts {
    RunFacts {
        schema: SCHEMA,
        walkfuzz: "0.1.0".into(),
        driver: "fuzz".into(),
        command: vec![
            "walkfuzz".into(),
            "fuzz".into(),
            "--seconds".into(),
            "60".into(),
        ],
        seed: Some(42),
        started: at(0),
        finished: Some(at(60)),
        walkers: vec![agct()],
        code_names: [(-4, "four below".to_owned())].into(),
        oracle: None,
        jvm: jvm(),
        machine: machine(),
    }
}

/// Registers of x86_64 everywhere, so that snapshots agree.
fn registers() -> (Registers, Registers) {
    let mut before = Registers::zeroed(Arch::X86_64);
    for (position, word) in before.words.iter_mut().take(17).enumerate() {
        *word = 0x7f00_0000_1000 + position as u64 * 8;
    }
    let mut after = before;
    after.set(Arch::X86_64.fp(), 0x10);
    (before, after)
}

fn moment() -> FindingMoment {
    FindingMoment {
        frames: vec![JavaFrame {
            method: "Work.spin(I)I".into(),
            bci: 7,
        }],
        frames_in_all: Some(1),
        code: FindingBlob {
            kind: BlobKind::Nmethod.name().into(),
            name: Some("Work.spin(I)I (level 4, id 17)".into()),
            offset: Some(0x40),
            offset_class: None,
        },
        instruction: Some("pop %rbp".into()),
        walked_instruction: Some("ret".into()),
        words: vec![MemoryWord {
            address: "0x7f0000001020".into(),
            value: Some("0x0".into()),
            place: "sp".into(),
            meaning: Some("null".into()),
        }],
        needed: vec![MemoryWord {
            address: "0x7f0a10000378".into(),
            value: Some("0x8".into()),
            place: "this JavaThread: _thread_state".into(),
            meaning: None,
        }],
        needed_in_all: 31,
    }
}

/// A finding with every optional field present.
pub(crate) fn finding(function: &str, tier: &str, verdict: FindingVerdict) -> Finding {
    let (before, after) = registers();
    let signature = format!("fault/SIGSEGV/{function}/agct/{tier}");
    let id = Finding::id_of(&signature);
    Finding {
        schema: SCHEMA,
        title: format!("SIGSEGV in {function} via agct [{tier}]"),
        verdict,
        tier: tier.into(),
        witness: WitnessCount {
            observed: 12,
            of: 40_312,
        },
        walker: agct(),
        outcome: FindingOutcome {
            kind: OutcomeKind::Fault,
            signal: Some("SIGSEGV".into()),
            code: Some(1),
            code_name: Some("SEGV_MAPERR".into()),
            address: Some("0x18".into()),
            detail: Some("the process lived on".into()),
            contradiction: None,
        },
        registers: FindingRegisters {
            meanings: [("rbp".to_owned(), "a small number".to_owned())].into(),
            ..FindingRegisters::new(&before, &after)
        },
        site: Some(FaultSite {
            pc: "0x7f12345678ab".into(),
            instruction: Some("mov 0x8(%rbp),%rax".into()),
            function: Some(function.into()),
            module: Some("libjvm.so".into()),
            offset: Some("0xa5678ab".into()),
            build_id: Some(jvm().build_id),
            backtrace: vec![format!("{function}+0x2b"), "AsyncGetCallTrace+0x1c4".into()],
            registers: vec![FaultRegister {
                name: "rbp".into(),
                value: "0x10".into(),
                meaning: Some("a small number".into()),
            }],
            accessed: Some("the null page".into()),
        }),
        blob: FindingBlob {
            kind: BlobKind::Nmethod.name().into(),
            name: Some("Work.spin(I)I".into()),
            offset: Some(0x44),
            offset_class: Some("body".to_owned()),
        },
        moment: Some(moment()),
        input: FindingInput {
            perturbation: "fp := null+0x10".into(),
            bytes: "0105021000".into(),
            artifact: Some("artifacts/9f86d081".into()),
            artifact_sha256: Some("9f86d081".into()),
            index: Some(3),
            memory: vec![MemoryChange {
                edit: "[return-address-slot 1] := null-page 0".into(),
                address: "0x7f0000001028".into(),
                before: "0x7f00deadbeef".into(),
                after: "0x0".into(),
            }],
        },
        capsule: FindingCapsule {
            path: Some("capsules/0123456789ab.wfcap".into()),
            problem: Some("none".into()),
        },
        engine: "live".into(),
        thread: 1,
        reliability: Reliability {
            frozen: Some(KOfN::new(3, 3)),
            portability: Some(KOfN::new(7, 20).into()),
        },
        live: vec![LiveTry {
            engine: "live".into(),
            state: CellState::Tried,
            reason: Some("JVM died: killed by SIGSEGV".into()),
            jdk: "17.0.15".into(),
            collector: "g1".into(),
            again: KOfN::new(3, 200).into(),
            others: 40,
            controls: KOfN::new(199, 200),
            deaths: 1,
            run: Some("walkfuzz-runs/20260101-000000-1".into()),
        }],
        first_seen: at(12),
        last_seen: at(48),
        count: 1203,
        tainted: false,
        known: vec![KnownMatch {
            id: "JDK-8313796".into(),
            title: "a method that cannot be read".into(),
            versions: "affected".into(),
        }],
        jvm: jvm(),
        machine: machine(),
        commands: vec![format!("walkfuzz repro {id}"), "walkfuzz explain ID".into()],
        id,
        signature,
    }
}

/// What the walks of a record should come to.
#[derive(Clone, Copy)]
pub(crate) struct Walks {
    pub(crate) untouched: u64,
    pub(crate) controls: u64,
    pub(crate) faults: u64,
}

/// A record made by really walking through a lane.
pub(crate) fn write_record(path: &Path, walks: Walks) -> Record {
    let options = Options {
        tick_hz: 10_000_000,
        ..Options::new(agct())
    };
    let recorder = Recorder::create(path, &options).unwrap();
    let lane = recorder.lane(0).unwrap();
    let untouched = Registers::zeroed(Arch::NATIVE);
    let mut edited = untouched;
    edited.set(Arch::NATIVE.pc(), 1);
    let walk = |registers: &Registers, outcome: WalkOutcome, ticks: u32| {
        lane.begin_walk(0, WalkerId(0), registers, &untouched, BlobKind::Nmethod);
        lane.end_walk(&outcome, ticks);
    };
    for number in 0..walks.untouched {
        let ticks = 200 + (number % 100) as u32;
        walk(
            &untouched,
            WalkOutcome::Frames(1 + (number % 40) as u32),
            ticks,
        );
        lane.control(number < walks.controls);
    }
    for number in 0..walks.untouched * 10 {
        let code = Code(-((number % 9) as i32));
        walk(&edited, WalkOutcome::Error(code), 150);
    }
    for _ in 0..walks.faults {
        let fault = FaultRecord {
            signal: 11,
            ..FaultRecord::default()
        };
        walk(&edited, WalkOutcome::Fault(fault), 20_000);
    }
    lane.add(Counter::Samples, 5_000);
    lane.add(Counter::OutsideJava, 160);
    lane.add(Counter::Parks, 4_840);
    lane.add(Counter::NearMisses, 36);
    lane.add(Counter::TotalTicks, 60_000_000);
    drop(recorder);
    RecordReader::open(path).unwrap()
}

pub(crate) fn process(outcome: ProcessOutcome) -> ProcessEnd {
    ProcessEnd {
        schema: SCHEMA,
        pid: 4711,
        at: at(30),
        outcome,
        exit_code: None,
        signal: Some(6),
        in_flight: vec!["lane 0: a walk was open".into()],
        crash_log: Some("hs_err_pid4711.log".into()),
    }
}
