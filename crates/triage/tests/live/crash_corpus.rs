//! The corpus of whole crash logs, `corpus/hs_err`: JDKs of four lines with every collector, made to crash in many ways.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use walkfuzz_triage::{Cause, CrashLog, CrashPlan, KnownIssues, WalkerCrash};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/hs_err")
}

/// Names without `.log.zst`, and the logs.
pub(crate) fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut logs: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path
                .file_name()?
                .to_str()?
                .strip_suffix(".log.zst")?
                .to_owned();
            let bytes = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
            Some((name, bytes))
        })
        .collect();
    logs.sort();
    assert!(
        logs.len() > 120,
        "{} logs: the corpus is not there",
        logs.len()
    );
    logs
}

fn plan(log: &CrashLog) -> CrashPlan {
    CrashPlan::new(log, KnownIssues::built_in())
}

/// How much of each section was read.
fn sections(log: &CrashLog) -> String {
    let events: usize = log.events.iter().map(|kind| kind.events.len()).sum();
    let thread = log
        .thread
        .as_ref()
        .and_then(|thread| thread.state.as_deref());
    format!(
        "sections: frames {}+{}, notes {}+{}, words {}, code {}, threads {}, heap {:?}, code heaps {}, events {}/{}, ranges {}, \
         flags {}, environment {}, handlers {}, locks {:?}, errors {}, complete {}\n\
         vm: {:?}, thread {thread:?}, libjvm {}, cds {}, os {:?}, libc {:?}, container {:?}, launcher {:?}\n",
        log.native_frames.len(),
        log.java_frames.len(),
        log.register_notes.len(),
        log.stack_notes.len(),
        log.top_of_stack.words.len(),
        log.code_bytes.bytes.len(),
        log.threads.len(),
        log.heap.map(|heap| heap.megabytes),
        log.code_heaps.len(),
        log.events.len(),
        events,
        log.libraries.len(),
        log.flags.len(),
        log.environment.len(),
        log.handlers.len(),
        log.vm_locks,
        log.errors_while_reporting,
        log.complete,
        log.vm_state,
        log.libjvm_base().is_some(),
        log.cds.is_some(),
        log.system.os,
        log.system.libc,
        log.system.container,
        log.arguments.launcher,
    )
}

#[test]
fn summaries() {
    let mut by_jdk: BTreeMap<String, String> = BTreeMap::new();
    for (name, bytes) in corpus() {
        let log = CrashLog::parse(&bytes);
        let (jdk, _) = name.split_once('-').unwrap();
        let text = by_jdk.entry(jdk.to_owned()).or_default();
        text.push_str(&format!("{name}\n{}{}\n", plan(&log), sections(&log)));
    }
    for (jdk, text) in by_jdk {
        insta::assert_snapshot!(format!("corpus-{jdk}"), text);
    }
}

/// What a name says its log is.
fn expected(name: &str) -> &'static str {
    let way = name.split_once('-').unwrap().1;
    if way.starts_with("agct-") {
        "agct"
    } else if way.starts_with("own-walker") {
        "async-profiler"
    } else {
        "none"
    }
}

#[test]
fn walkers_are_told_from_other_crashes() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, bytes) in corpus() {
        if name.starts_with("fuzzer-") {
            continue;
        }
        let crash = CrashLog::parse(&bytes).walker_crash();
        let expected = expected(&name);
        assert_eq!(
            crash.walker().unwrap_or("none"),
            expected,
            "{name}: {crash:?}"
        );
        *counts.entry(expected).or_default() += 1;
        match crash {
            WalkerCrash::Yes { sighting, why, .. } => {
                // Every walk of these was called from a signal handler, which the log must show.
                let sighting = sighting.unwrap();
                assert!(sighting.handler.is_some(), "{name}: {why}");
            }
            WalkerCrash::No { why } => assert!(!why.is_empty()),
            // Only where something that walks was at work may an answer be missing.
            WalkerCrash::Unknown { why } => {
                assert!(name.ends_with("-elsewhere"), "{name}: {why}");
            }
        }
    }
    assert!(
        counts["agct"] >= 40 && counts["async-profiler"] >= 10 && counts["none"] >= 75,
        "{counts:?}"
    );
}

#[test]
fn what_a_reproduction_needs_is_in_the_plan() {
    for (name, bytes) in corpus() {
        let log = CrashLog::parse(&bytes);
        let plan = plan(&log);
        assert!(
            log.is_crash_log() && plan.jdk.is_some() && plan.arch.is_some(),
            "{name}"
        );
        if let Some(collector) = ["serial", "parallel", "g1", "shenandoah", "z", "epsilon"]
            .into_iter()
            .find(|collector| name.ends_with(&format!("-agct-{collector}")))
        {
            assert_eq!(plan.collector, Some(collector), "{name}");
        }
        for (way, mode) in [
            ("-xint", "interpreted"),
            ("-xcomp", "compiled"),
            ("-c1", "c1 only"),
        ] {
            assert_eq!(
                plan.compiler.to_string() == mode,
                name.ends_with(way),
                "{name}: {}",
                plan.compiler
            );
        }
        let Some(Cause::Signal { pc: Some(pc), .. }) = log.cause else {
            continue;
        };
        if name.contains("-agct-") || name.contains("-unsafe") || name.contains("-compiled") {
            assert_eq!(plan.registers.unwrap().pc().0, pc, "{name}");
            assert_eq!(log.stack.sp, Some(plan.registers.unwrap().sp().0), "{name}");
            assert!(!plan.instruction.is_empty(), "{name}");
            assert!(
                plan.address.is_some() && log.libjvm_base().is_some(),
                "{name}"
            );
        }
        // The base from the mappings and the frame's offset agree with the pc.
        if let (Some(base), Some(offset)) = (log.libjvm_base(), plan.libjvm_offset) {
            assert_eq!(base + offset, pc, "{name}");
        }
    }
}

/// Logs of deaths that walkfuzz's own fuzzer found, and the signatures of the findings that it wrote then.
const OWN: [(&str, &str); 3] = [
    (
        "fuzzer-11.0.13",
        "guarantee|unknown|agct|codeCache.cpp:630 guarantee(result == NULL %7c%7c !result->is_zombie() %7c%7c \
         result->is_locked_by_vm() %7c%7c VMError::is_error_reported()) failed",
    ),
    (
        "fuzzer-17.0.15",
        "guarantee|libjvm.so+0xcd71d8|agct|codeCache.cpp:669 guarantee(is_result_safe %7c%7c is_in_asgct()) failed",
    ),
    (
        "fuzzer-17.0.15-second",
        "guarantee|libjvm.so+0xcd71d8|agct|codeCache.cpp:669 guarantee(is_result_safe %7c%7c is_in_asgct()) failed",
    ),
];

#[test]
fn a_log_of_the_own_fuzzer_has_its_findings_signature() {
    let logs: BTreeMap<_, _> = corpus().into_iter().collect();
    for (name, signature) in OWN {
        let plan = plan(&CrashLog::parse(&logs[name]));
        assert_eq!(plan.signature.unwrap().to_string(), signature, "{name}");
        assert_eq!(plan.walker_crash.walker(), Some("agct"), "{name}");
    }
}

#[test]
fn nothing_of_the_machine_is_left() {
    let common = [
        "/opt/jdk",
        "/crash",
        "/usr/",
        "/lib",
        "/etc/",
        "/proc/",
        "/sys/",
        "/dev/",
        "/bin",
        "/home/user/",
        "/memfd:",
    ];
    let mut paths = 0;
    for (name, bytes) in corpus() {
        let text = String::from_utf8(bytes).unwrap();
        for word in text.split([' ', '=', ':', ',', '\n', '"', '\'']) {
            let several =
                word.starts_with('/') && !word.starts_with("//") && word[1..].contains('/');
            if several {
                paths += 1;
                assert!(
                    common.iter().any(|common| word.starts_with(common)),
                    "{name}: {word}"
                );
            }
        }
        for line in text
            .lines()
            .filter(|line| line.trim_start().starts_with("uname:"))
        {
            assert!(line.contains("Linux 6.1.0"), "{name}: {line}");
        }
        for private in ["USER=", "LOGNAME=", "HOSTNAME=", "HOME=/root"] {
            assert!(!text.contains(private), "{name}: {private}");
        }
    }
    assert!(paths > 1_000);
}

#[test]
fn whole_logs_are_read_whole() {
    let mut whole = 0;
    for (name, bytes) in corpus() {
        let log = CrashLog::parse(&bytes);
        if !log.complete || name.starts_with("fuzzer-") || log.errors_while_reporting > 0 {
            continue;
        }
        whole += 1;
        assert!(
            !log.code_heaps.is_empty() && log.code_heaps[0].bounds.is_some(),
            "{name}"
        );
        assert!(log.events.len() > 5 && log.libraries.len() > 20, "{name}");
        assert!(log.flags.len() > 5 && log.handlers.len() > 5, "{name}");
        assert!(
            log.environment.len() >= 2 && log.arguments.options.is_some(),
            "{name}"
        );
        assert!(
            log.arguments
                .command
                .as_deref()
                .unwrap()
                .starts_with("Crash "),
            "{name}"
        );
        assert!(
            log.system.vm_info.is_some() && log.system.cpu.is_some() && log.system.uname.is_some(),
            "{name}"
        );
        assert!(
            log.host.is_some() && log.time.is_some() && log.vm_state.is_some(),
            "{name}"
        );
        // ZGC of 11 does not say where its heap is.
        assert!(
            !log.heap_usage.is_empty() && (log.heap.is_some() || name.ends_with("-z")),
            "{name}"
        );
        assert!(
            log.libraries.iter().all(|range| range.low < range.high),
            "{name}"
        );
        let pc = log.code_bytes.begin.0;
        assert!(pc > 0 || log.code_bytes.bytes.is_empty(), "{name}");
    }
    assert!(whole > 100, "{whole} whole logs");
}

#[test]
fn a_log_cut_anywhere_is_read_and_never_says_the_opposite() {
    let mut cuts = 0;
    for (at, (name, bytes)) in corpus().into_iter().enumerate() {
        let whole = CrashLog::parse(&bytes).walker_crash();
        // Each log is cut at other places; every byte of the summary and the stack of a few.
        let fine = if at % 25 == 0 { 4_000 } else { 0 };
        let ends = (0..fine).chain((fine + at..bytes.len()).step_by(1_499));
        for end in ends.filter(|end| *end < bytes.len()) {
            let log = CrashLog::parse(&bytes[..end]);
            let cut = plan(&log);
            cuts += 1;
            let opposite = matches!(
                (&whole, &cut.walker_crash),
                (WalkerCrash::Yes { .. }, WalkerCrash::No { .. })
                    | (WalkerCrash::No { .. }, WalkerCrash::Yes { .. })
            );
            assert!(!opposite, "{name} cut at {end}: {:?}", cut.walker_crash);
            assert!(
                !log.complete || end + 2 > bytes.len(),
                "{name} cut at {end}"
            );
            let _ = cut.to_string();
        }
    }
    assert!(cuts > 10_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_logs_are_read(which in any::<prop::sample::Index>(), flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..200)) {
        let logs = shared();
        let mut bytes = which.get(logs).1.clone();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let _ = plan(&CrashLog::parse(&bytes)).to_string();
    }

    #[test]
    fn logs_of_mixed_up_lines_are_read(which in any::<prop::sample::Index>(), picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..400)) {
        let logs = shared();
        let lines: Vec<&[u8]> = which.get(logs).1.split(|byte| *byte == b'\n').collect();
        let mixed: Vec<&[u8]> = picks.iter().map(|pick| *pick.get(&lines)).collect();
        let _ = plan(&CrashLog::parse(&mixed.join(&b'\n'))).to_string();
    }
}

/// The corpus, read once.
fn shared() -> &'static [(String, Vec<u8>)] {
    static LOGS: std::sync::OnceLock<Vec<(String, Vec<u8>)>> = std::sync::OnceLock::new();
    LOGS.get_or_init(corpus)
}

#[test]
fn what_is_kept_is_bounded() {
    // Headings, and each section's line as often as a file of 8 MB holds it.
    for (heading, line, kept) in [
        ("Native frames:", "V  [libjvm.so+0x1]  f+0x1", 4096),
        (
            "Java Threads:",
            "  0x00007f532004cf10 JavaThread \"x\" [id=1]",
            16_384,
        ),
        (
            "Dynamic libraries:",
            "7f00-7f01 r-xp 00000000 00:00 0 ",
            65_536,
        ),
        (
            "[Global flags]",
            " bool UseX = true {product} {default}",
            512,
        ),
    ] {
        let mut text = format!("{heading}\n");
        while text.len() < 8 << 20 {
            text.push_str(line);
            text.push('\n');
        }
        let log = CrashLog::parse(text.as_bytes());
        let lists = [
            log.native_frames.len(),
            log.threads.len(),
            log.libraries.len(),
            log.flags.len(),
        ];
        assert_eq!(lists.iter().sum::<usize>(), kept, "{heading}");
    }
    let one_line = vec![b'A'; 8 << 20];
    assert!(!CrashLog::parse(&one_line).is_crash_log());
}
