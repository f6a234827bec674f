//! Results as a nightly run has them, made up from a seed: every verdict, several generations of walkers, a few findings.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use walkfuzz_record::summary::Quantiles;
use walkfuzz_record::{
    Code, Generation, JvmFacts, KnownMatch, MachineFacts, ProcessOutcome, Totals, code_name,
};
use walkfuzz_stress::result::{
    CellFinding, CodeCount, Numbers, ProcessResult, RegisterPair, SCHEMA, Sampling, WalkCounts,
    WorkloadEnd,
};
use walkfuzz_stress::store::StressFacts;
use walkfuzz_stress::verdict::{Evidence, judge};
use walkfuzz_stress::{Cell, CellResult, Dimension, Minimum};

/// splitmix64.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// A matrix that a nightly profile might have, cut down to `cells`.
pub(crate) fn cells(cells: usize, seed: u64) -> Vec<Cell> {
    let values: [(Dimension, &[&str]); 9] = [
        (
            Dimension::Jdk,
            &["11.0.13.1", "17.0.9", "17.0.15", "21.0.8.2", "25.0.3"],
        ),
        (
            Dimension::Collector,
            &["serial", "parallel", "g1", "z", "shenandoah"],
        ),
        (
            Dimension::Flags,
            &["default", "c1", "interpreter", "stress-gcm"],
        ),
        (Dimension::Walker, &["agct", "asgst"]),
        (Dimension::Mode, &["guarded", "bare", "perturbed"]),
        (
            Dimension::Workload,
            &[
                "forkjoin",
                "finagle",
                "scalac",
                "h2",
                "streams",
                "renaissance:finagle-http",
                "rxjava",
            ],
        ),
        (
            Dimension::Antagonists,
            &["none", "deopt", "classes+exceptions", "gc"],
        ),
        (
            Dimension::Clock,
            &["timer", "tick:random8", "cpu-timer", "itimer+timer"],
        ),
        (Dimension::Interval, &["100us", "1ms"]),
    ];
    let mut random = Random(seed);
    let mut seen = HashSet::new();
    while seen.len() < cells {
        let axis = |axis| values.iter().find(|(name, _)| *name == axis).unwrap().1;
        let cell = Cell::of(|dimension| {
            let values = axis(dimension);
            values[random.below(values.len() as u64) as usize].to_owned()
        });
        let old = cell.jdk.starts_with("11.");
        if !old || !["z", "shenandoah"].contains(&&*cell.collector) {
            seen.insert(cell);
        }
    }
    let mut cells: Vec<Cell> = seen.into_iter().collect();
    // An order that is no axis's.
    cells.sort_by_cached_key(|cell| cell.id().chars().rev().collect::<String>());
    cells
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

pub(crate) fn facts(plan: Vec<Cell>, seed: u64) -> StressFacts {
    let command = "walkfuzz stress --profile nightly --budget 5h --seed 7";
    StressFacts {
        schema: SCHEMA,
        walkfuzz: "0.1.0".into(),
        command: command.split(' ').map(Into::into).collect(),
        profile: "nightly".into(),
        seed,
        shard: None,
        started: at(0),
        finished: Some(at(5 * 3_600 + 71)),
        machine: MachineFacts {
            arch: "x86_64".into(),
            kernel: "6.8.0-1021".into(),
            cpus: 4,
            emulated: false,
        },
        points: 134_400,
        pairs: (1_204, 1_210),
        impossible: vec![
            ("no z in this JDK".into(), 1_920),
            ("no shenandoah in this JDK".into(), 1_920),
        ],
        plan,
    }
}

/// Results of all but the last cells of a plan: a budget runs out.
pub(crate) fn results(plan: &[Cell], seed: u64) -> Vec<CellResult> {
    let left = plan.len() / 25;
    let done = &plan[..plan.len() - left];
    done.iter()
        .zip(0..)
        .map(|(cell, place)| result(cell, place, seed))
        .collect()
}

fn generation(cell: &Cell) -> Generation {
    if cell.walker == "asgst" {
        Generation::AsgstLate
    } else {
        Generation::Agct
    }
}

/// What came of a cell. The same cell and seed, the same result, whatever its place.
pub(crate) fn result(cell: &Cell, place: i64, seed: u64) -> CellResult {
    let id = cell.id();
    let digits = id.rsplit('-').next().unwrap();
    let mut random = Random(seed ^ u64::from_str_radix(digits, 16).unwrap());
    let perturbs = cell.mode == "perturbed";
    let seconds = 12.0 + random.below(4_000) as f64 / 1_000.0;
    let numbers = numbers(cell, &mut random, perturbs);
    let mut findings = Vec::new();
    let mut outcome = ProcessOutcome::Clean;
    let mut log = None;
    if random.one_in(if cell.jdk == "17.0.9" { 12 } else { 60 }) || perturbs {
        let natural = !perturbs;
        findings.push(finding(cell, &mut random, natural));
        if natural && cell.mode == "bare" {
            outcome = ProcessOutcome::CrashInWalk;
            log = Some("hs_err_pid4711.log".to_owned());
            findings[0].evidence.clone_from(&log);
            findings[0].count = 1;
        }
    } else if random.one_in(150) {
        outcome = ProcessOutcome::Hang;
    } else if random.one_in(120) {
        outcome = ProcessOutcome::TimeOut;
    }
    let mut numbers = numbers;
    if outcome == ProcessOutcome::Clean {
        numbers.untouched.faults = findings
            .iter()
            .filter(|f| !f.perturbed)
            .map(|f| f.count)
            .sum();
    }
    let words = match outcome {
        ProcessOutcome::Clean => "exited with 0",
        ProcessOutcome::CrashInWalk => "killed by SIGABRT",
        ProcessOutcome::Hang => "ended after 20 s without progress",
        _ => "ended after 60 s",
    };
    let done = outcome == ProcessOutcome::Clean;
    let process = ProcessResult {
        outcome,
        words: words.to_owned(),
        exit_code: done.then_some(0),
        signal: log.is_some().then(|| "SIGSEGV".to_owned()),
        internal_error: None,
        crash_log: log,
    };
    let mut antagonists = Vec::new();
    for name in cell.antagonists() {
        antagonists.push((name.to_owned(), 1_000 + random.below(9_000)));
    }
    let workload = WorkloadEnd {
        rounds: Some(40 + random.below(100)),
        seconds: done.then_some(20.0),
        checks: Some(if done { 7 } else { 0 }),
        done,
        wrong: random
            .one_in(700)
            .then(|| "expected <4>, got \"5\" & more".to_owned()),
        antagonists,
    };
    let (verdict, reason) = judge(&Evidence {
        numbers: Some(&numbers),
        process: &process,
        workload: &workload,
        tells: true,
        findings: &findings,
        minimum: Minimum {
            walks: 10_000,
            frames: 0.2,
        },
        torn: false,
        perturbs,
        unsampled: false,
        frees_nothing: false,
    });
    let warnings = cell.clock.contains("cpu-timer").then(|| {
        "250 samples a second of a running thread, 10000 were asked for; this clock gives at most 250".to_owned()
    });
    CellResult {
        schema: SCHEMA,
        id: id.clone(),
        cell: cell.clone(),
        jvm: JvmFacts {
            version: format!("{}+6-LTS", cell.jdk),
            vendor: "Eclipse Adoptium".into(),
            build_id: "5f3a9d1c2b4e6f708192a3b4c5d6e7f8091a2b3c".into(),
            collector: cell.collector.clone(),
            options: [
                "-XX:+UseG1GC",
                "-Xmx1g",
                "-XX:+UnlockDiagnosticVMOptions",
                "-Xlog:disable",
            ]
            .map(Into::into)
            .to_vec(),
        },
        started: at(0) + SignedDuration::from_secs(13 * place),
        seconds,
        verdict,
        reason,
        warnings: warnings.into_iter().collect(),
        untouched: numbers.untouched,
        perturbed: numbers.perturbed,
        codes: numbers.codes,
        depth: numbers.depth,
        latency: numbers.latency,
        depth_curve: numbers.depth_curve,
        latency_curve: numbers.latency_curve,
        sampling: numbers.sampling,
        workload,
        process,
        findings,
        command: format!(
            "walkfuzz stress --profile nightly --filter 'jdk={} & collector={} & flags={} & walker={} & mode={} & workload={} & clock={}' --seed {seed}",
            cell.jdk, cell.collector, cell.flags, cell.walker, cell.mode, cell.workload, cell.clock
        ),
    }
}

fn numbers(cell: &Cell, random: &mut Random, perturbs: bool) -> Numbers {
    let slow = cell.clock.contains("cpu-timer");
    let most = match (cell.interval.as_str(), slow) {
        ("100us", false) => 180_000,
        (_, false) => 18_000,
        _ => 4_500,
    };
    let walks = most - random.below(most / 10);
    let mut numbers = Numbers::of(&Totals::default());
    let generation = generation(cell);
    let mut left = walks;
    for (code, share) in [(-3, 90), (-5, 30), (-4, 12), (-9, 4), (-10, 2)] {
        let count = walks * (share + random.below(share)) / 1_000;
        left -= count;
        numbers.codes.push(CodeCount {
            generation,
            code,
            name: code_name(generation, Code(code)).to_owned(),
            untouched: count,
            perturbed: if perturbs { count * 3 } else { 0 },
        });
    }
    numbers.untouched = WalkCounts {
        walks,
        frames: left,
        ..WalkCounts::default()
    };
    if perturbs {
        let faults = 20 + random.below(900);
        numbers.perturbed = WalkCounts {
            walks: 3 * walks,
            frames: 2 * left,
            faults,
            ..WalkCounts::default()
        };
    }
    let shift = random.below(3) + u64::from(cell.jdk.starts_with("25"));
    let spread = |shape: &[u64], low: u32| -> Vec<(u64, u64)> {
        let all: u64 = shape.iter().sum();
        let steps = shape.iter().enumerate();
        steps
            .map(|(at, share)| (1 << (low + at as u32), left * share / all))
            .collect()
    };
    numbers.depth_curve = spread(
        &[40, 90, 150 + 20 * shift, 320, 260, 90 + 30 * shift, 12, 1],
        0,
    );
    numbers.latency_curve = spread(&[30, 400, 340 + 40 * shift, 140, 50, 12 + shift, 3, 1], 8);
    numbers.depth = Quantiles {
        p50: 10 + shift,
        p99: 62,
        max: 120,
        of: left,
    };
    numbers.latency = Quantiles {
        p50: 640 + 90 * shift,
        p99: 5_900,
        max: 48_127,
        of: walks,
    };
    let thread_seconds = if slow {
        walks as f64 / 250.0
    } else {
        walks as f64 / 9_800.0
    };
    numbers.sampling = Sampling {
        requested: (thread_seconds
            * if cell.interval == "100us" {
                10_000.0
            } else {
                1_000.0
            }) as u64,
        delivered: walks + walks / 9,
        coalesced: random.below(40),
        dropped: 0,
        outside_java: walks / 9,
        ceiling: slow.then_some(250.0),
        thread_seconds,
        walker_seconds: walks as f64 * 7e-7,
        near_misses: random.below(3),
        biased: 0,
        repeated: 0,
        lost: 0,
    };
    numbers
}

fn finding(cell: &Cell, random: &mut Random, natural: bool) -> CellFinding {
    let sites = [
        "frame::safe_for_sender",
        "nmethod::get_original_pc",
        "vframeStreamCommon::next",
    ];
    let site = sites[random.below(3) as usize];
    let known = (site == "nmethod::get_original_pc").then(|| KnownMatch {
        id: "JDK-8313796".into(),
        title: "AsyncGetCallTrace crash on unreadable interpreter method pointer".into(),
        versions: if cell.jdk == "17.0.15" {
            "not-affected"
        } else {
            "affected"
        }
        .into(),
    });
    CellFinding {
        signature: format!("SIGSEGV|{site}|{}", cell.walker),
        title: format!("SIGSEGV in {site} via {}", cell.walker),
        count: 1 + random.below(4),
        perturbed: !natural,
        known: known.into_iter().collect(),
        evidence: Some("record-4711.map".into()),
        // As of a walk in which the JVM crashed; a perturbed one differs.
        registers: vec![RegisterPair {
            name: "sp".into(),
            before: "0x00007f0000001000".into(),
            after: if natural {
                "0x00007f0000001000"
            } else {
                "0x00007f0000001008"
            }
            .into(),
        }],
    }
}
