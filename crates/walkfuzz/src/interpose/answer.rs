//! What came of it: for people, and as JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walkfuzz_record::{Counter, KOfN};
use walkfuzz_stress::result::{CellFinding, ProcessResult, WalkCounts};
use walkfuzz_triage::share_text;

use crate::interpose::collapsed::{Comparison, Profile};
use crate::interpose::run::Ran;
use crate::table::table;

/// Which walker the profiler's handler really used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Active {
    /// AsyncGetCallTrace, asked in every untouched call that came back to a thread in Java.
    Agct,
    /// The profiler's own alone.
    Own,
    /// Now the one, now the other.
    Both,
    /// No call came back.
    Unknown,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Answer {
    pub(crate) profiler: &'static str,
    /// The profiler's; for JFR the JDK's.
    pub(crate) version: String,
    pub(crate) mode: String,
    pub(crate) jdk: String,
    pub(crate) workload: String,
    /// Of each run.
    pub(crate) seconds: u64,
    pub(crate) perturb: u32,
    /// What elements of JFR's queue became; absent where contexts were perturbed.
    pub(crate) queue: Option<String>,
    pub(crate) seed: u32,
    /// `ran`, or `unknown` if too little came to prove anything.
    pub(crate) verdict: &'static str,
    pub(crate) walker: Active,
    /// Untouched calls in which the profiler asked AsyncGetCallTrace, of those that came back.
    pub(crate) asked_agct: KOfN,
    pub(crate) untouched: Side,
    pub(crate) perturbed: Side,
    /// What AsyncGetCallTrace told the profiler of a perturbed context, beside the untouched one of the same signal; absent where it was not asked.
    pub(crate) agct: Option<AgctDifference>,
    /// What the profiler reported; absent if a run left no report that can be compared.
    pub(crate) reported: Option<Comparison>,
    /// Flight-recorder samples of both runs; absent for other profilers.
    pub(crate) recorded: Option<[Recorded; 2]>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) folder: PathBuf,
}

/// One of the two runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Side {
    /// Signals of Java threads that became calls.
    signals: u64,
    /// Of these, of threads outside Java.
    outside_java: u64,
    /// Signals of other threads, passed on as they were.
    passed_on: u64,
    /// Signals that came while another thread was in the profiler.
    dropped: u64,
    untouched: WalkCounts,
    perturbed: WalkCounts,
    /// Faults that the profiler's own handler dealt with.
    self_protected: u64,
    near_misses: u64,
    put_back: u64,
    jvm: ProcessResult,
}

/// See [`Answer::agct`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct AgctDifference {
    compared: u64,
    same: u64,
    lost: u64,
    /// Other frames, or frames where there were none.
    other: u64,
}

/// What a flight recording holds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Recorded {
    pub(crate) samples: u64,
    pub(crate) frames: u64,
    /// From another place than where the thread was when it was sampled.
    pub(crate) biased: u64,
    /// That could not be walked.
    pub(crate) failed: u64,
    /// Whose thread has another from the same nanosecond.
    pub(crate) repeated: u64,
    pub(crate) lost: u64,
}

/// A finding, whose title has the profiler's version and mode and the walker at work, and the run that it is of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Finding {
    /// `untouched` or `perturbed`.
    pub(crate) run: &'static str,
    #[serde(flatten)]
    pub(crate) finding: CellFinding,
    /// Makes both runs again.
    pub(crate) command: String,
}

impl Recorded {
    fn share(&self, k: u64) -> String {
        share_text(KOfN::new(k, self.samples))
    }
}

impl Active {
    pub(crate) fn of(asked: KOfN, java: u64) -> Self {
        match asked {
            KOfN { of: 0, .. } => Active::Unknown,
            KOfN { k: 0, .. } => Active::Own,
            // Threads outside Java may be reported without asking.
            KOfN { k, .. } if k >= java => Active::Agct,
            _ => Active::Both,
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Active::Agct => "AsyncGetCallTrace",
            Active::Own => "the profiler's own walker",
            Active::Both => "AsyncGetCallTrace and the profiler's own walker",
            Active::Unknown => "an unknown walker",
        }
    }
}

impl Side {
    pub(crate) fn of(ran: &Ran) -> Self {
        let result = &ran.result;
        Self {
            signals: ran.counter(Counter::Samples),
            outside_java: ran.counter(Counter::OutsideJava),
            passed_on: ran
                .counter(Counter::Requested)
                .saturating_sub(ran.counter(Counter::Samples) + ran.counter(Counter::Drops)),
            dropped: ran.counter(Counter::Drops),
            untouched: result.untouched,
            perturbed: result.perturbed,
            self_protected: ran.counter(Counter::SelfProtected),
            near_misses: ran.counter(Counter::NearMisses),
            put_back: ran.counter(Counter::PutBack),
            jvm: result.process.clone(),
        }
    }

    /// Untouched calls that came back.
    pub(crate) fn returned(&self) -> u64 {
        let ended = self.untouched.faults + self.untouched.hangs;
        self.untouched.walks.saturating_sub(ended)
    }

    /// Of them, calls of threads in Java.
    pub(crate) fn in_java(&self) -> u64 {
        self.returned().saturating_sub(self.outside_java)
    }

    fn column(&self) -> Vec<String> {
        let counts = |counts: &WalkCounts| {
            let (faults, hangs) = (counts.faults, counts.hangs);
            [
                counts.walks.to_string(),
                share_text(KOfN::new(faults, counts.walks)),
                hangs.to_string(),
            ]
        };
        let mut cells = vec![
            self.signals.to_string(),
            self.outside_java.to_string(),
            self.dropped.to_string(),
            self.passed_on.to_string(),
        ];
        cells.extend(counts(&self.untouched));
        cells.extend(counts(&self.perturbed));
        cells.extend([
            self.self_protected.to_string(),
            self.near_misses.to_string(),
            self.jvm.words.clone(),
        ]);
        cells
    }
}

impl AgctDifference {
    pub(crate) fn of(ran: &Ran) -> Option<Self> {
        let compared = ran.counter(Counter::AgctCompared);
        let (lost, other) = (
            ran.counter(Counter::AgctLost),
            ran.counter(Counter::AgctOther),
        );
        (compared != 0).then(|| Self {
            compared,
            same: compared.saturating_sub(lost + other),
            lost,
            other,
        })
    }
}

/// What the two runs' collapsed stacks say, if both left some.
pub(crate) fn reported(untouched: &Path, perturbed: &Path) -> Option<Comparison> {
    let read = |folder: &Path| {
        let text = std::fs::read(folder.join("stacks.txt")).ok()?;
        let profile = Profile::parse(&String::from_utf8_lossy(&text));
        (profile.samples() != 0).then_some(profile)
    };
    Some(read(perturbed)?.beside(&read(untouched)?))
}

impl Answer {
    pub(crate) fn for_people(&self) -> String {
        let mut text = format!(
            "{} {} ({}), JDK {}, {}, {} s a run, seed {}: {}\nwalker at work: {} (AsyncGetCallTrace asked in {} untouched calls)\n\n",
            self.profiler,
            self.version,
            self.mode,
            self.jdk,
            self.workload,
            self.seconds,
            self.seed,
            self.verdict,
            self.walker.words(),
            share_text(self.asked_agct),
        );
        text.push_str(&self.sides());
        if let Some(agct) = &self.agct {
            let share = |k| share_text(KOfN::new(k, agct.compared));
            text.push_str(&format!(
                "\nAsyncGetCallTrace's answers, perturbed beside untouched: same {}; frames lost {}; other frames {}\n",
                share(agct.same),
                share(agct.lost),
                share(agct.other),
            ));
        }
        if let Some(reported) = &self.reported {
            text.push_str(&format!(
                "\nreported: no Java frame in {} untouched, in {} perturbed; left out below\nerror frames in {} untouched, in {} perturbed;\nperturbed alone: top frames never seen untouched {}, outermost frames never seen untouched {}\n",
                share_text(reported.untouched_without_java),
                share_text(reported.perturbed_without_java),
                share_text(reported.untouched_errors),
                share_text(reported.perturbed_errors),
                share_text(reported.new_tops),
                share_text(reported.new_outermost),
            ));
            for (error, count) in &reported.errors {
                text.push_str(&format!("  {count:>8}  {error}\n"));
            }
        }
        if let Some([untouched, perturbed]) = &self.recorded {
            for (name, recorded) in [("untouched", untouched), ("perturbed", perturbed)] {
                text.push_str(&format!(
                    "\nrecorded, {name}: {} samples, {} with frames, biased {}, failed {}, repeated {}, {} lost",
                    recorded.samples,
                    recorded.frames,
                    recorded.share(recorded.biased),
                    recorded.share(recorded.failed),
                    recorded.share(recorded.repeated),
                    recorded.lost
                ));
            }
            text.push('\n');
        }
        text.push_str(&self.found());
        text.push_str(&format!("\nleft in {}\n", self.folder.display()));
        text
    }

    fn sides(&self) -> String {
        let names = [
            "",
            "signals of Java threads",
            "  of them outside Java",
            "signals dropped",
            "signals of other threads, passed on",
            "calls, untouched",
            "  faults",
            "  hangs",
            match self.queue {
                Some(_) => "elements of the queue, edited",
                None => "calls, perturbed",
            },
            "  faults",
            "  hangs",
            "faults that the profiler dealt with",
            "near misses",
            "the JVM",
        ];
        let heads = ["run untouched", "run perturbed"].map(|head| vec![head.to_owned()]);
        let [untouched, perturbed] = heads;
        let untouched = untouched.into_iter().chain(self.untouched.column());
        let perturbed = perturbed.into_iter().chain(self.perturbed.column());
        let rows: Vec<Vec<String>> = names
            .iter()
            .zip(untouched.zip(perturbed))
            .map(|(name, (untouched, perturbed))| vec![(*name).to_owned(), untouched, perturbed])
            .collect();
        table(&rows)
    }

    fn found(&self) -> String {
        if self.findings.is_empty() {
            return "\nno findings\n".to_owned();
        }
        let mut text = format!("\n{} findings\n", self.findings.len());
        for found in &self.findings {
            let kind = if found.finding.perturbed {
                "perturbed"
            } else {
                "untouched"
            };
            text.push_str(&format!(
                "  {:>8}  {kind}  {}\n            again: {}\n",
                found.finding.count, found.finding.title, found.command
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walker_is_told_by_what_was_asked() {
        assert_eq!(Active::of(KOfN::new(0, 0), 0), Active::Unknown);
        assert_eq!(Active::of(KOfN::new(0, 9), 8), Active::Own);
        assert_eq!(Active::of(KOfN::new(8, 9), 8), Active::Agct);
        assert_eq!(Active::of(KOfN::new(3, 9), 8), Active::Both);
    }
}
