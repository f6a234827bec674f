//! How a reproduction ended, for people and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use walkfuzz_record::finding::Reliability;
use walkfuzz_record::{Interval, KOfN, KnownMatch, RunFolder, Verdict};

use crate::failure::{FINDINGS, UNKNOWN};
use crate::replay::{OracleAgain, Replayed};
use crate::repro::campaign::Outcome;
use crate::repro::plan::Plan;

/// Differences that a screen shows; the JSON has all.
const SHOWN: usize = 10;

/// The end of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It happened again.
    Reproduced {
        /// What happened, as a sentence.
        title: String,
        /// The finding of this run.
        id: String,
        /// Occurrences in this run.
        seen: u64,
        /// Repetitions at one moment, and at others.
        reliability: Reliability,
        /// The smallest perturbation that does it.
        perturbation: String,
    },
    /// A capsule's walk ended as it says, each time.
    Replayed {
        /// Its signature, or what it holds instead.
        title: String,
        /// Walks in fresh processes.
        identical: KOfN,
    },
    /// A capsule's walk ended otherwise.
    Different {
        /// Walks in fresh processes that ended as it says.
        identical: KOfN,
        /// How the first of the others ended.
        differences: Vec<String>,
    },
    /// It did not.
    NotReproduced {
        /// Perturbed walks that were tried.
        walks: u64,
        /// Of these, walks of the very input; the others were bred from it.
        given_walks: u64,
        /// The 95 % interval of its share of the walks of the very input, or of all if there was none.
        interval: Interval,
    },
    /// There is nothing that a walker has done.
    NotAWalkerCrash {
        /// Why not.
        why: String,
    },
    /// Nothing was proven.
    Unknown {
        /// What is missing.
        why: String,
    },
}

impl Answer {
    /// The program's exit code for it: 0, 1 for what did not come back, 4 if nothing was proven.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Answer::Reproduced { .. } | Answer::Replayed { .. } => 0,
            Answer::NotReproduced { .. }
            | Answer::Different { .. }
            | Answer::NotAWalkerCrash { .. } => FINDINGS,
            Answer::Unknown { .. } => UNKNOWN,
        }
    }
}

/// One thing, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reproduction {
    /// What was to be reproduced.
    pub(crate) what: String,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// The JDK that was tried.
    pub(crate) jdk: Option<String>,
    /// What differs from the original.
    pub(crate) notes: Vec<String>,
    /// Issues that it looks like.
    pub(crate) known: Vec<KnownMatch>,
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// Titles of other findings by the way.
    pub(crate) others: Vec<String>,
    /// The run folder.
    pub(crate) run: Option<String>,
    /// Whether the user ended it early.
    pub(crate) interrupted: bool,
}

impl Reproduction {
    /// What a campaign came to.
    pub(crate) fn of(plan: &Plan, run: &RunFolder, outcome: &Outcome) -> Self {
        let summary = &outcome.summary;
        let given_walks = outcome.given_walks.min(summary.perturbed_walks);
        let tried = KOfN::new(
            0,
            match given_walks {
                0 => summary.perturbed_walks,
                given => given,
            },
        );
        let answer = match &outcome.met {
            Some(finding) => Answer::Reproduced {
                title: finding.title.clone(),
                id: finding.id.clone(),
                seen: finding.count,
                reliability: finding.reliability,
                perturbation: finding.input.perturbation.clone(),
            },
            None if outcome.interrupted => Answer::Unknown {
                why: format!(
                    "interrupted after {:.0} of {} s and {} perturbed walks",
                    outcome.took.as_secs_f64(),
                    plan.campaign.budget.as_secs(),
                    summary.perturbed_walks
                ),
            },
            None if summary.verdict == Verdict::Unknown => Answer::Unknown {
                why: summary.reason.clone(),
            },
            None => Answer::NotReproduced {
                walks: summary.perturbed_walks,
                given_walks,
                interval: tried.interval(),
            },
        };
        let known = outcome.met.as_ref().map_or(&plan.known, |met| &met.known);
        Self {
            what: plan.what.clone(),
            answer,
            jdk: Some(plan.jdk.to_string()),
            notes: plan.notes.clone(),
            known: known.clone(),
            seconds: outcome.took.as_secs_f64(),
            others: outcome
                .others
                .iter()
                .map(|finding| finding.title.clone())
                .collect(),
            run: Some(run.path().display().to_string()),
            interrupted: outcome.interrupted,
        }
    }

    /// Something that needs no campaign.
    pub(crate) fn settled(what: String, answer: Answer, known: Vec<KnownMatch>) -> Self {
        Self {
            what,
            answer,
            jdk: None,
            notes: Vec::new(),
            known,
            seconds: 0.0,
            others: Vec::new(),
            run: None,
            interrupted: false,
        }
    }

    /// What walks of a capsule came to.
    pub(crate) fn replayed(file: &Path, replayed: Replayed) -> Self {
        let Replayed {
            signature,
            walker,
            jvm,
            identical,
            differences,
            oracle,
        } = replayed;
        let answer = if identical.k == identical.of && differences.is_empty() {
            Answer::Replayed {
                title: if signature.is_empty() {
                    format!("a walk of {walker}")
                } else {
                    signature
                },
                identical,
            }
        } else {
            Answer::Different {
                identical,
                differences,
            }
        };
        let what = format!("capsule {}: {walker} of JDK {jvm}", file.display());
        let notes = oracle.map(|oracle| match oracle {
            OracleAgain::Asked => {
                "its oracle was asked again, over the memory that the capsule has for it".to_owned()
            }
            OracleAgain::Away(why) => {
                format!("the same frames, and nobody was asked whether they are wrong: {why}")
            }
        });
        Self {
            notes: notes.into_iter().collect(),
            ..Self::settled(what, answer, Vec::new())
        }
    }

    /// A few lines for a terminal.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{}\n", self.what);
        let mut line = |label: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {label:<14} {value}");
        };
        match &self.answer {
            Answer::Reproduced {
                title,
                id,
                seen,
                reliability,
                perturbation,
            } => {
                line("reproduced", format!("{title}, {seen} times in this run"));
                if let Some(frozen) = reliability.frozen {
                    line("same moment", format!("{} of {}", frozen.k, frozen.of));
                }
                if let Some(elsewhere) = reliability.portability {
                    line(
                        "other moments",
                        format!("{} of {}", elsewhere.k, elsewhere.of),
                    );
                }
                line("smallest", perturbation.clone());
                line("finding", id.clone());
            }
            Answer::Replayed { title, identical } => line(
                "reproduced",
                format!(
                    "{title}, {} of {} in fresh processes, without a JVM",
                    identical.k, identical.of
                ),
            ),
            Answer::Different {
                identical,
                differences,
            } => {
                line(
                    "different",
                    format!(
                        "{} of {} ended as the capsule says",
                        identical.k, identical.of
                    ),
                );
                for difference in differences.iter().take(SHOWN) {
                    line("", difference.clone());
                }
            }
            Answer::NotReproduced {
                walks,
                given_walks,
                interval,
            } => {
                let bound = format!("under {:.3} per million (95 %)", interval.high * 1e6);
                line(
                    "not reproduced",
                    match walks - given_walks {
                        0 => format!("0 of {walks} walks of its input: {bound}"),
                        bred if *given_walks > 0 => format!(
                            "0 of {given_walks} walks of its input: {bound}; 0 of {bred} walks bred from it"
                        ),
                        bred => format!("0 of {bred} perturbed walks: {bound}"),
                    },
                );
            }
            Answer::NotAWalkerCrash { why } => line("no", format!("not a walker crash: {why}")),
            Answer::Unknown { why } => line("unknown", why.clone()),
        }
        for known in &self.known {
            line(
                "known",
                format!("{} ({}): {}", known.id, known.versions, known.title),
            );
        }
        if let Some(jdk) = &self.jdk {
            line("jdk", format!("{jdk}, {:.1} s", self.seconds));
        }
        for note in &self.notes {
            line("note", note.clone());
        }
        if !self.others.is_empty() {
            line("by the way", self.others.join("; "));
        }
        if let Some(run) = &self.run {
            line("run folder", run.clone());
        }
        text
    }
}
