//! The end screen: what it says, and that it fits.

use proptest::prelude::*;
use walkfuzz_record::render::{COLUMNS, LINES, end_screen};
use walkfuzz_record::summary::Evidence;
use walkfuzz_record::{
    Finding, FindingVerdict, Folded, ProcessEnd, ProcessOutcome, Summary, Totals, Verdict,
    WitnessCount, fold_lines,
};

use crate::fixture::{Walks, facts, finding, process, write_record};

fn summary(walks: Walks, findings: &[Finding], processes: &[ProcessEnd]) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let record = write_record(&folder.path().join("record-1.map"), walks);
    let lines: Vec<_> = findings
        .iter()
        .map(|finding| serde_json::to_string(finding).unwrap())
        .collect();
    Summary::of(Evidence {
        facts: &facts(),
        totals: &Totals::of([&record]),
        findings: &fold_lines(lines.join("\n").as_bytes()),
        processes,
        unreadable_records: 0,
        folder: "walkfuzz-runs/20260301T093000.000Z-4711",
    })
}

const GOOD: Walks = Walks {
    untouched: 4_000,
    controls: 3_990,
    faults: 0,
};

fn assert_fits(screen: &str) {
    let lines: Vec<_> = screen.lines().collect();
    assert!(lines.len() <= LINES, "{} lines:\n{screen}", lines.len());
    for line in lines {
        assert!(line.chars().count() <= COLUMNS, "too wide: {line}");
    }
}

#[test]
fn a_pass_prints_an_upper_bound() {
    let summary = summary(GOOD, &[], &[process(ProcessOutcome::Clean)]);
    assert_eq!(summary.verdict, Verdict::Pass);
    let screen = end_screen(&summary);
    assert_fits(&screen);
    insta::assert_snapshot!("pass", screen);
}

#[test]
fn findings_stand_in_order_with_tier_witness_and_count() {
    let walks = Walks {
        faults: 1_234,
        ..GOOD
    };
    let mut never = finding(
        "frame::sender_for_entry_frame",
        "T4",
        FindingVerdict::Robustness,
    );
    never.witness = WitnessCount {
        observed: 0,
        of: 40_312,
    };
    never.count = 3;
    let mut tainted = finding(
        "PcDescContainer::find_pc_desc_internal",
        "T4",
        FindingVerdict::Robustness,
    );
    tainted.tainted = true;
    let findings = [
        never,
        tainted,
        finding("nmethod::get_original_pc", "T1", FindingVerdict::Bug),
        finding(
            "JavaThread::pd_get_top_frame_for_signal_handler",
            "T2",
            FindingVerdict::Bug,
        ),
        finding(
            "frame::sender_for_compiled_frame",
            "T4",
            FindingVerdict::Robustness,
        ),
    ];
    let processes = [
        process(ProcessOutcome::Clean),
        process(ProcessOutcome::AbortInWalk),
    ];
    let summary = summary(walks, &findings, &processes);
    assert_eq!(summary.verdict, Verdict::Findings);
    let screen = end_screen(&summary);
    assert_fits(&screen);
    insta::assert_snapshot!("findings", screen);
    insta::assert_json_snapshot!("summary", summary);
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
fn a_long_title_goes_on_in_the_next_line_while_there_are_lines() {
    let name = "JavaThread::pd_get_top_frame_for_signal_handler";
    let long = finding(name, "T2", FindingVerdict::Bug);
    let screen = end_screen(&summary(GOOD, std::slice::from_ref(&long), &[]));
    assert_fits(&screen);
    let rows: Vec<&str> = screen
        .lines()
        .skip_while(|line| !line.starts_with("findings"))
        .collect();
    assert_eq!(
        rows[1..3],
        [
            "  T2 bug 1203x 12/40k SIGSEGV in JavaThread::pd_get_top_frame_for_signal_handler",
            "                      (known JDK-8313796)",
        ]
    );
}

#[test]
fn the_next_command_runs_the_first_finding_again() {
    let mut bug = finding("nmethod::get_original_pc", "T1", FindingVerdict::Bug);
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let artifact = format!("artifacts/{hash}");
    bug.commands = vec![format!(
        "WALKFUZZ_JDK=17.0.15 WALKFUZZ_GC=z WALKFUZZ_JAVA_OPTIONS='-XX:+UseX -Da=b' \
         cargo fuzz run -s none walk_ucontext /home/me/walkfuzz-runs/20260301T093000.000Z-4711/{artifact}"
    )];
    bug.input.artifact = Some(artifact);
    bug.known[0].versions = "not-affected".into();
    let processes = [process(ProcessOutcome::AbortInWalk)];
    let many: Vec<Finding> = std::iter::once(bug)
        .chain((0..7).map(|number| {
            let name = format!("frame::a_function_with_a_name_that_is_much_too_long_{number}");
            finding(&name, "T4", FindingVerdict::Robustness)
        }))
        .collect();
    let screen = end_screen(&summary(GOOD, &many, &processes));
    assert_fits(&screen);
    let next: Vec<&str> = screen
        .lines()
        .skip_while(|line| !line.starts_with("next"))
        .collect();
    assert_eq!(
        next,
        [
            "next      WALKFUZZ_JDK=17.0.15 WALKFUZZ_GC=z \\",
            "          WALKFUZZ_JAVA_OPTIONS='-XX:+UseX -Da=b' cargo fuzz run -s none \\",
            "          walk_ucontext \\",
            "          walkfuzz-runs/20260301T093000.000Z-4711/artifacts/9f86d081*",
        ]
    );
    // What other versions have does not explain it; what this one has does.
    assert!(screen.contains("; 4 not shown"), "{screen}");
    assert_eq!(screen.matches("(known JDK-8313796)").count(), 3, "{screen}");
    let mut wide = many[0].clone();
    wide.commands = vec!["x".repeat(200)];
    let screen = end_screen(&summary(GOOD, &[wide], &processes));
    assert!(
        screen.ends_with("next      walkfuzz report --findings\n"),
        "{screen}"
    );
}

#[test]
fn a_vacuous_run_is_never_a_pass() {
    let walks = Walks {
        controls: 1_000,
        ..GOOD
    };
    let perturbed = finding("nmethod::get_original_pc", "T4", FindingVerdict::Robustness);
    let vacuous = summary(walks, std::slice::from_ref(&perturbed), &[]);
    assert_eq!(vacuous.verdict, Verdict::Unknown);
    insta::assert_snapshot!("vacuous", end_screen(&vacuous));

    let natural = finding("nmethod::get_original_pc", "T0", FindingVerdict::Bug);
    let fails = summary(walks, &[perturbed, natural], &[]);
    assert_eq!(
        fails.verdict,
        Verdict::Findings,
        "a fault of an untouched walk beats unknown"
    );

    let nothing = Walks {
        untouched: 0,
        controls: 0,
        faults: 0,
    };
    let nothing = summary(nothing, &[], &[]);
    assert_eq!(nothing.reason, "vacuous: nothing was walked");
    assert_fits(&end_screen(&nothing));
}

#[test]
fn half_of_the_controls_are_enough_and_one_less_is_not() {
    for (controls, expected) in [(2_000, Verdict::Pass), (1_999, Verdict::Unknown)] {
        let walks = Walks { controls, ..GOOD };
        assert_eq!(summary(walks, &[], &[]).verdict, expected);
    }
}

#[test]
fn a_death_that_no_finding_explains_is_unknown() {
    let summary = summary(GOOD, &[], &[process(ProcessOutcome::CrashElsewhere)]);
    assert_eq!(summary.verdict, Verdict::Unknown);
    assert!(end_screen(&summary).contains("troubles  1 crash-elsewhere"));
}

#[test]
fn outcomes_add_up_to_walks() {
    let walks = Walks { faults: 7, ..GOOD };
    let summary = summary(walks, &[], &[]);
    let untouched: u64 = summary.outcomes.iter().map(|row| row.untouched).sum();
    let perturbed: u64 = summary.outcomes.iter().map(|row| row.perturbed).sum();
    assert_eq!((untouched, perturbed), (4_000, 40_007));
    assert_eq!(summary.untouched_walks, untouched);
    assert_eq!(summary.perturbed_walks, perturbed);
    assert_eq!(summary.perturbed_faults.k, 7);
    assert_eq!(summary.untouched_faults.k, 0, "kept apart");
}

proptest! {
    #[test]
    fn any_summary_fits_the_screen(
        numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..2000], 24),
        text in "\\PC{0,120}",
        rows in 0..12_usize,
        seconds in 0.0..1e9_f64,
    ) {
        let mut summary = summary_of_nothing();
        summary.jvm.version = text.clone();
        summary.reason = text.clone();
        summary.command = text.clone();
        summary.seconds = seconds;
        summary.thread_seconds = seconds;
        summary.walks_per_second = Some(numbers[0] as f64);
        summary.walks = numbers[1];
        summary.untouched_walks = numbers[2];
        summary.perturbed_walks = numbers[3];
        summary.controls.k = numbers[4];
        summary.controls.of = numbers[5];
        summary.untouched_faults.k = numbers[6];
        summary.untouched_faults.of = numbers[7];
        summary.events.near_misses = numbers[8];
        summary.engine.samples = numbers[9];
        summary.engine.requested = numbers[10];
        summary.latency_ns.p99 = numbers[11];
        summary.evidence.damaged_lines = numbers[12];
        let mut row = summary_rows();
        row.title = text;
        row.count = numbers[13];
        row.witness = WitnessCount { observed: numbers[14], of: numbers[15] };
        summary.findings = vec![row; rows];
        let outcome = summary.outcomes.first().cloned();
        summary.outcomes = outcome.into_iter().cycle().take(rows).collect();
        for (outcome, number) in summary.outcomes.iter_mut().zip(&numbers) {
            outcome.perturbed = *number;
        }
        assert_fits(&end_screen(&summary));
    }
}

fn summary_of_nothing() -> Summary {
    Summary::of(Evidence {
        facts: &facts(),
        totals: &Totals::default(),
        findings: &Folded::default(),
        processes: &[],
        unreadable_records: 0,
        folder: "run",
    })
}

fn summary_rows() -> walkfuzz_record::summary::FindingRow {
    let finding = finding("f", "T1", FindingVerdict::Bug);
    walkfuzz_record::summary::FindingRow {
        id: finding.id,
        title: finding.title,
        verdict: finding.verdict,
        tier: finding.tier,
        witness: finding.witness,
        count: finding.count,
        tainted: true,
        after_seconds: 1.0,
        known: Vec::new(),
        command: None,
    }
}
