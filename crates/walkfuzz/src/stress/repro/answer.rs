//! How the repetition of a cell ended, for people and as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use walkfuzz_record::summary::Share;
use walkfuzz_record::{KOfN, KnownMatch};
use walkfuzz_stress::{CellResult, Verdict, report};

use crate::failure::{FINDINGS, UNKNOWN};
use crate::stress::repro::aim::Aim;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Outcome {
    /// It happened again.
    Reproduced {
        /// In so many of the runs that say something.
        runs: Share,
    },
    /// It did not.
    NotReproduced {
        /// In none of the runs that say something.
        runs: Share,
    },
    /// No run said anything.
    Unknown {
        /// What is missing.
        why: String,
    },
}

/// Where and how it was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Circumstances {
    /// The JDK.
    pub(crate) jdk: String,
    /// What differs from the original.
    pub(crate) notes: Vec<String>,
    /// Issues that the original looks like.
    pub(crate) known: Vec<KnownMatch>,
    /// Seconds that it took.
    pub(crate) seconds: f64,
    /// The run folder.
    pub(crate) run: String,
    /// Whether the user ended it early.
    pub(crate) interrupted: bool,
}

/// The end of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// What was to be reproduced.
    what: String,
    #[serde(flatten)]
    outcome: Outcome,
    /// Crashes of untouched walks, in all runs.
    crashes: Share,
    /// What else happened: the reasons of runs that failed otherwise.
    others: Vec<String>,
    #[serde(flatten)]
    circumstances: Circumstances,
}

impl Answer {
    pub(crate) fn of(
        what: String,
        aim: &Aim,
        results: &[CellResult],
        not_started: Option<String>,
        circumstances: Circumstances,
    ) -> Self {
        let met = results.iter().filter(|result| aim.is_met(result)).count() as u64;
        let silent =
            |result: &CellResult| result.verdict == Verdict::Unknown && !aim.is_met(result);
        let said = results.iter().filter(|result| !silent(result)).count() as u64;
        let runs = Share::new(met, said);
        let outcome = match (met, said) {
            (0, 0) => Outcome::Unknown {
                why: not_started
                    .or_else(|| results.last().map(|result| result.reason.clone()))
                    .unwrap_or_else(|| "there was no time for a single run".to_owned()),
            },
            (0, _) => Outcome::NotReproduced { runs },
            _ => Outcome::Reproduced { runs },
        };
        let mut crashes = KOfN::default();
        for of in results.iter().map(report::crashes) {
            crashes.k += of.k;
            crashes.of += of.of;
        }
        let mut others: Vec<String> = results
            .iter()
            .filter(|result| result.verdict == Verdict::Fail && !aim.is_met(result))
            .map(|result| result.reason.clone())
            .collect();
        others.sort();
        others.dedup();
        Self {
            what,
            outcome,
            crashes: Share::new(crashes.k, crashes.of),
            others,
            circumstances,
        }
    }

    /// The program's exit code for it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.outcome {
            Outcome::Reproduced { .. } => 0,
            Outcome::NotReproduced { .. } => FINDINGS,
            Outcome::Unknown { .. } => UNKNOWN,
        }
    }

    /// A few lines for a terminal.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{}\n", self.what);
        let mut line = |label: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {label:<14} {value}");
        };
        match &self.outcome {
            Outcome::Reproduced { runs } => line(
                "reproduced",
                &format!(
                    "{} of {} runs ({:.0} to {:.0} %, 95 %)",
                    runs.k,
                    runs.of,
                    100.0 * runs.interval.low,
                    100.0 * runs.interval.high
                ),
            ),
            Outcome::NotReproduced { runs } => line(
                "not reproduced",
                &format!(
                    "0 of {} runs: in under {:.0} % of them (95 %)",
                    runs.of,
                    100.0 * runs.interval.high
                ),
            ),
            Outcome::Unknown { why } => line("unknown", why),
        }
        if self.crashes.of > 0 {
            line(
                "crashes",
                &format!(
                    "{} in {} walks of untouched contexts: under {:.3} per million (95 %)",
                    self.crashes.k,
                    self.crashes.of,
                    self.crashes.interval.high * 1e6
                ),
            );
        }
        for other in &self.others {
            line("also", other);
        }
        let Circumstances {
            jdk,
            notes,
            known,
            seconds,
            run,
            ..
        } = &self.circumstances;
        line("jdk", jdk);
        for note in notes {
            line("note", note);
        }
        for known in known {
            line("known", &format!("{}: {}", known.id, known.title));
        }
        line("took", &format!("{seconds:.0} s"));
        line("run", run);
        text
    }
}
