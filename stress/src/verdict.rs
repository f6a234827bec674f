//! A cell's verdict: what is said, and why.
//!
//! Unknown beats pass, fail beats unknown; only walks of untouched contexts count. Exit code 0 is necessary, never sufficient.

use walkfuzz_record::{Code, KOfN, ProcessOutcome};

use crate::grade::{Grade, grade};
use crate::profile::Minimum;
use crate::result::{CellFinding, Numbers, ProcessResult, Sampling, Verdict, WorkloadEnd};
use crate::torn;

/// What a verdict rests on.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The records' numbers; absent if there is no record: the agent did not load.
    pub numbers: Option<&'a Numbers>,
    /// How the JVM ended.
    pub process: &'a ProcessResult,
    /// What the program says.
    pub workload: &'a WorkloadEnd,
    /// Whether the program says how far it is, so that silence means something.
    pub tells: bool,
    /// What happened that must not.
    pub findings: &'a [CellFinding],
    /// What a cell must have done.
    pub minimum: Minimum,
    /// Whether the cell perturbs contexts.
    pub perturbs: bool,
    /// Whether its walker lets threads run on: its walks count as perturbed, and faults among them are to be expected.
    pub torn: bool,
    /// Whether nobody samples: there is only the program to judge.
    pub unsampled: bool,
    /// Whether its collector frees nothing, so that memory runs out sooner or later.
    pub frees_nothing: bool,
}

/// The verdict and its reason.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> (Verdict, String) {
    if evidence.perturbs {
        return (Verdict::Outside, outside(evidence));
    }
    if let Some((verdict, reason)) = failure(evidence) {
        return (verdict, reason);
    }
    match doubt(evidence) {
        Some(reason) => (Verdict::Unknown, reason),
        None if evidence.unsampled => (
            Verdict::Outside,
            "nobody sampled: what sampled cells are compared with".to_owned(),
        ),
        None => {
            let walks = evidence
                .numbers
                .map_or(0, |numbers| numbers.untouched.walks);
            let bound = KOfN::new(0, walks).interval().high * 1e6;
            let mut reason =
                format!("0 crashes in {walks} walks: under {bound:.2} per million (95 %)");
            if let Some(torn) = evidence.numbers.filter(|_| evidence.torn) {
                reason = format!(
                    "the JVM survived {}; {reason}",
                    torn::words(&torn.perturbed)
                );
            }
            (Verdict::Pass, reason)
        }
    }
}

fn outside(evidence: &Evidence<'_>) -> String {
    let perturbed = evidence
        .numbers
        .map(|numbers| numbers.perturbed)
        .unwrap_or_default();
    format!(
        "perturbed contexts: {} faults in {} walks, {}",
        perturbed.faults, perturbed.walks, evidence.process.words
    )
}

fn failure(evidence: &Evidence<'_>) -> Option<(Verdict, String)> {
    if let Some(wrong) = &evidence.workload.wrong {
        return Some((Verdict::Fail, format!("wrong result: {wrong}")));
    }
    if let Some(finding) = evidence.findings.iter().find(|finding| !finding.perturbed) {
        return Some(known(finding));
    }
    let bad = evidence
        .numbers
        .map_or(0, |numbers| numbers.untouched.bad());
    if bad > 0 {
        return Some((
            Verdict::Fail,
            format!("{bad} walks of untouched contexts did what no walk may"),
        ));
    }
    let words = &evidence.process.words;
    let fail = |what: &str| Some((Verdict::Fail, format!("{what}: {words}")));
    match evidence.process.outcome {
        ProcessOutcome::AbortInWalk => fail("a check of the JVM failed in a walk"),
        ProcessOutcome::CrashInWalk => fail("the JVM crashed in a walk"),
        ProcessOutcome::CrashAfterRecovery => fail("the JVM crashed after a recovery"),
        ProcessOutcome::CrashElsewhere => fail("the JVM crashed outside any walk"),
        ProcessOutcome::Hang if !evidence.workload.began() => None,
        ProcessOutcome::Hang => Some((Verdict::Fail, format!("the program {words}"))),
        ProcessOutcome::Clean
        | ProcessOutcome::Retired
        | ProcessOutcome::Interrupted
        | ProcessOutcome::TimeOut
        | ProcessOutcome::OutOfMemory
        | ProcessOutcome::ExitWithoutLog => forbidden(evidence.numbers?),
    }
}

fn forbidden(numbers: &Numbers) -> Option<(Verdict, String)> {
    let code = numbers.codes.iter().find(|row| {
        row.untouched > 0 && grade(row.generation, Code(row.code)).0 == Grade::Forbidden
    })?;
    let (_, meaning) = grade(code.generation, Code(code.code));
    let reason = format!(
        "{} walks gave {} ({}): {meaning}",
        code.untouched, code.name, code.code
    );
    Some((Verdict::Fail, reason))
}

/// A known issue of an affected version is no news; one that shows up where it is fixed is worse than an unknown one.
fn known(finding: &CellFinding) -> (Verdict, String) {
    let affected = finding
        .known
        .iter()
        .find(|known| known.versions == "affected");
    if let Some(issue) = affected {
        return (Verdict::Known, format!("{}: {}", issue.id, finding.title));
    }
    match finding
        .known
        .iter()
        .find(|known| known.versions == "not-affected")
    {
        Some(issue) => (
            Verdict::Fail,
            format!(
                "{} IS BACK in a version that has its fix, or it looks like it: {}",
                issue.id, finding.title
            ),
        ),
        None => (Verdict::Fail, finding.title.clone()),
    }
}

fn doubt(evidence: &Evidence<'_>) -> Option<String> {
    let process = evidence.process;
    let by_itself = matches!(
        process.outcome,
        ProcessOutcome::Clean | ProcessOutcome::Retired | ProcessOutcome::ExitWithoutLog
    );
    if let Some(name) = evidence.workload.idle().next().filter(|_| by_itself) {
        return Some(format!(
            "antagonist {name} did nothing: the cell ran without it"
        ));
    }
    let natural_end = evidence.frees_nothing && process.outcome == ProcessOutcome::OutOfMemory;
    match process.outcome {
        ProcessOutcome::Clean | ProcessOutcome::Retired => {}
        ProcessOutcome::OutOfMemory if natural_end => {}
        ProcessOutcome::Hang => {
            return Some(format!(
                "it {} before its first words: a hang, or a slow start on a busy machine; its output ends with its threads",
                process.words
            ));
        }
        ProcessOutcome::TimeOut => {
            return Some("its time was up before the program was done".to_owned());
        }
        ProcessOutcome::OutOfMemory => return Some(format!("out of memory: {}", process.words)),
        ProcessOutcome::Interrupted => return Some("interrupted".to_owned()),
        _ => return Some(format!("no crash log, and the JVM {}", process.words)),
    }
    if let Some(reason) = vacuous(evidence).filter(|_| !evidence.unsampled) {
        return Some(reason);
    }
    if let Some(numbers) = evidence.numbers.filter(|_| evidence.torn)
        && let Some(reason) = torn::doubt(&numbers.perturbed, evidence.minimum.walks / 2)
    {
        return Some(reason);
    }
    if evidence.tells && !evidence.workload.done && !natural_end {
        return Some("the program ended without saying that it is done".to_owned());
    }
    if evidence.tells && evidence.workload.checks == Some(0) && !natural_end {
        return Some("the program checked no result".to_owned());
    }
    None
}

/// Why a cell's walks prove nothing, if they do not.
fn vacuous(evidence: &Evidence<'_>) -> Option<String> {
    let Some(numbers) = evidence.numbers else {
        return Some("the JVM left no record: the sampler did not load".to_owned());
    };
    let Minimum { walks, frames } = evidence.minimum;
    let made = numbers.untouched;
    if made.walks < walks {
        let end = match evidence.process.outcome {
            ProcessOutcome::OutOfMemory => ", when memory had run out",
            _ => "",
        };
        return Some(format!(
            "vacuous: {} walks{end}, {walks} are needed",
            made.walks
        ));
    }
    let share = KOfN::new(made.frames, made.walks).share().unwrap_or(0.0);
    (share < frames).then(|| {
        format!(
            "vacuous: {} of {} walks gave frames, {:.0} % are needed",
            made.frames,
            made.walks,
            100.0 * frames
        )
    })
}

/// What is odd about the samples, if anything is.
#[must_use]
pub fn sampling_warning(sampling: &Sampling, asked: f64) -> Option<String> {
    let rate = sampling.delivered as f64 / sampling.thread_seconds;
    if sampling.thread_seconds <= 0.0 || rate >= 0.9 * asked {
        return None;
    }
    let ceiling = match sampling.ceiling {
        Some(ceiling) if ceiling < asked => format!("; this clock gives at most {ceiling:.0}"),
        _ => String::new(),
    };
    Some(format!(
        "{rate:.0} samples a second of a running thread, {asked:.0} were asked for{ceiling}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{CodeCount, WalkCounts};
    use walkfuzz_record::{Generation, KnownMatch, Totals};

    struct Case {
        numbers: Option<Numbers>,
        outcome: ProcessOutcome,
        workload: WorkloadEnd,
        findings: Vec<CellFinding>,
        perturbs: bool,
        torn: bool,
        unsampled: bool,
        frees_nothing: bool,
    }

    impl Case {
        fn good() -> Self {
            let mut numbers = Numbers::of(&Totals::default());
            numbers.untouched = WalkCounts {
                walks: 100_000,
                frames: 90_000,
                ..WalkCounts::default()
            };
            Self {
                numbers: Some(numbers),
                outcome: ProcessOutcome::Clean,
                workload: WorkloadEnd {
                    done: true,
                    checks: Some(7),
                    ..WorkloadEnd::default()
                },
                findings: Vec::new(),
                perturbs: false,
                torn: false,
                unsampled: false,
                frees_nothing: false,
            }
        }

        fn judged(&self) -> (Verdict, String) {
            judge(&Evidence {
                numbers: self.numbers.as_ref(),
                process: &ProcessResult {
                    outcome: self.outcome,
                    words: "exited with 0".to_owned(),
                    exit_code: Some(0),
                    signal: None,
                    internal_error: None,
                    crash_log: None,
                },
                workload: &self.workload,
                tells: true,
                findings: &self.findings,
                minimum: Minimum {
                    walks: 1_000,
                    frames: 0.2,
                },
                perturbs: self.perturbs,
                torn: self.torn,
                unsampled: self.unsampled,
                frees_nothing: self.frees_nothing,
            })
        }
    }

    fn finding(versions: &str) -> CellFinding {
        CellFinding {
            signature: "SIGSEGV|f|agct".to_owned(),
            title: "SIGSEGV in f via agct".to_owned(),
            count: 1,
            perturbed: false,
            known: vec![KnownMatch {
                id: "JDK-1".to_owned(),
                title: "f crashes".to_owned(),
                versions: versions.to_owned(),
            }],
            evidence: None,
            registers: Vec::new(),
        }
    }

    #[test]
    fn a_pass_names_its_bound() {
        let (verdict, reason) = Case::good().judged();
        assert_eq!(verdict, Verdict::Pass);
        assert_eq!(
            reason,
            "0 crashes in 100000 walks: under 29.96 per million (95 %)"
        );
    }

    #[test]
    fn a_collector_that_frees_nothing_may_end_with_what_it_walked() {
        let mut case = Case::good();
        case.outcome = ProcessOutcome::OutOfMemory;
        case.workload.done = false;
        assert_eq!(case.judged().0, Verdict::Unknown);
        case.frees_nothing = true;
        assert_eq!(case.judged().0, Verdict::Pass);
        case.numbers.as_mut().unwrap().untouched.walks = 9;
        assert_eq!(case.judged().0, Verdict::Unknown);
    }

    #[test]
    fn what_did_not_walk_is_unknown() {
        let unknown = |change: &dyn Fn(&mut Case)| {
            let mut case = Case::good();
            change(&mut case);
            let (verdict, reason) = case.judged();
            assert_eq!(verdict, Verdict::Unknown, "{reason}");
            reason
        };
        assert!(unknown(&|c| c.numbers = None).contains("did not load"));
        assert!(
            unknown(&|c| c.numbers.as_mut().unwrap().untouched.walks = 999).contains("999 walks")
        );
        assert!(
            unknown(&|c| c.numbers.as_mut().unwrap().untouched.frames = 9).contains("9 of 100000")
        );
        assert!(unknown(&|c| c.workload.done = false).contains("without saying"));
        assert!(unknown(&|c| c.workload.checks = Some(0)).contains("checked no result"));
        assert!(
            unknown(&|c| {
                // It ends with an exit code that means so.
                c.outcome = ProcessOutcome::ExitWithoutLog;
                c.workload.antagonists = vec![("deoptimise".to_owned(), 0)];
            })
            .starts_with("antagonist deoptimise did nothing")
        );
        for outcome in [
            ProcessOutcome::TimeOut,
            ProcessOutcome::OutOfMemory,
            ProcessOutcome::ExitWithoutLog,
            ProcessOutcome::Interrupted,
        ] {
            unknown(&|c| c.outcome = outcome);
        }
        let slow = unknown(&|c| {
            c.outcome = ProcessOutcome::Hang;
            c.workload.done = false;
        });
        assert!(slow.contains("before its first words"), "{slow}");
    }

    #[test]
    fn who_is_not_sampled_is_judged_by_its_work_alone() {
        let mut case = Case::good();
        (case.unsampled, case.numbers) = (true, None);
        assert_eq!(case.judged().0, Verdict::Outside);
        case.workload.done = false;
        assert_eq!(case.judged().0, Verdict::Unknown);
        case.outcome = ProcessOutcome::CrashElsewhere;
        assert_eq!(case.judged().0, Verdict::Fail);
    }

    #[test]
    fn a_failure_beats_a_doubt() {
        let fails = |change: &dyn Fn(&mut Case)| {
            let mut case = Case::good();
            case.numbers.as_mut().unwrap().untouched.walks = 10;
            change(&mut case);
            let (verdict, reason) = case.judged();
            assert_eq!(verdict, Verdict::Fail, "{reason}");
            reason
        };
        for outcome in [
            ProcessOutcome::AbortInWalk,
            ProcessOutcome::CrashInWalk,
            ProcessOutcome::CrashAfterRecovery,
            ProcessOutcome::CrashElsewhere,
            ProcessOutcome::Hang,
        ] {
            fails(&|c| c.outcome = outcome);
        }
        fails(&|c| {
            c.outcome = ProcessOutcome::Hang;
            (c.workload.done, c.workload.rounds) = (false, Some(3));
        });
        assert!(
            fails(&|c| c.workload.wrong = Some("expected 4, got 5".to_owned()))
                .contains("expected 4")
        );
        assert!(
            fails(&|c| c.numbers.as_mut().unwrap().untouched.faults = 1).starts_with("1 walks")
        );
        let code = CodeCount {
            generation: Generation::Agct,
            code: -1,
            name: "ticks_no_class_load".to_owned(),
            untouched: 3,
            perturbed: 0,
        };
        assert!(
            fails(&|c| c.numbers.as_mut().unwrap().codes = vec![code.clone()])
                .contains("ClassLoad")
        );
        assert!(fails(&|c| c.findings = vec![finding("unknown")]).contains("SIGSEGV in f"));
        assert!(fails(&|c| c.findings = vec![finding("not-affected")]).contains("JDK-1 IS BACK"));
    }

    #[test]
    fn a_known_issue_of_an_affected_version_is_known() {
        let mut case = Case::good();
        case.findings = vec![finding("affected")];
        assert_eq!(
            case.judged(),
            (Verdict::Known, "JDK-1: SIGSEGV in f via agct".to_owned())
        );
    }

    #[test]
    fn perturbed_cells_are_outside_whatever_happens() {
        let mut case = Case::good();
        case.perturbs = true;
        case.outcome = ProcessOutcome::CrashInWalk;
        assert_eq!(case.judged().0, Verdict::Outside);
    }

    #[test]
    fn walks_of_running_threads_fault_and_the_jvm_survives() {
        let torn = |walks, faults, wrong_frames| {
            let mut case = Case::good();
            case.torn = true;
            case.numbers.as_mut().unwrap().perturbed = WalkCounts {
                walks,
                faults,
                wrong_frames,
                ..WalkCounts::default()
            };
            case
        };
        let (verdict, reason) = torn(100_000, 50, 12_000).judged();
        assert_eq!(verdict, Verdict::Pass);
        assert_eq!(
            reason,
            "the JVM survived 50 faults in 100000 walks of running threads (500 per million; first measured: 592 of 808000, 733 per \
             million), 12000 silently different (12.0 %); 0 crashes in 100000 walks: under 29.96 per million (95 %)"
        );
        for (walks, faults, wrong, why) in [
            (499, 9, 9, "500 are needed"),
            (5_000, 0, 0, "as if the threads had waited"),
            (100_000, 0, 9, "some are to be expected"),
        ] {
            let (verdict, reason) = torn(walks, faults, wrong).judged();
            assert!(reason.contains(why), "{reason}");
            assert_eq!(verdict, Verdict::Unknown);
        }
        assert_eq!(torn(5_000, 0, 9).judged().0, Verdict::Pass);
        let mut crashed = torn(100_000, 50, 12_000);
        crashed.outcome = ProcessOutcome::CrashAfterRecovery;
        assert_eq!(crashed.judged().0, Verdict::Fail);
    }

    #[test]
    fn a_slow_clock_is_named() {
        let sampling = Sampling {
            delivered: 2_500,
            thread_seconds: 10.0,
            ceiling: Some(250.0),
            ..Sampling::default()
        };
        let warning = sampling_warning(&sampling, 10_000.0).unwrap();
        assert!(
            warning.contains("250 samples a second") && warning.contains("at most 250"),
            "{warning}"
        );
        let fast = Sampling {
            delivered: 99_000,
            ..sampling
        };
        assert_eq!(sampling_warning(&fast, 10_000.0), None);
    }
}
