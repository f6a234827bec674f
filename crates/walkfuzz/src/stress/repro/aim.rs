//! What a cell showed, and whether another run of it shows the same.

use std::fmt;

use walkfuzz_record::{Code, Generation, ProcessOutcome};
use walkfuzz_stress::CellResult;
use walkfuzz_stress::grade::{Grade, grade};

/// What is to happen again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A crash or a fault with a signature.
    Signature {
        signature: String,
        title: String,
        perturbed: bool,
    },
    /// The program has a wrong result; which one may differ.
    WrongResult(String),
    /// Untouched walks that hung, broke their contract or gave wrong frames.
    BadWalks,
    /// A code that no walk may give.
    Code(Generation, i32, String),
    /// The JVM ended so.
    End(ProcessOutcome, String),
}

impl Aim {
    /// The gravest thing that a cell showed, if it showed any.
    pub(crate) fn of(result: &CellResult) -> Option<Self> {
        let natural = result.findings.iter().find(|finding| !finding.perturbed);
        if let Some(finding) = natural.or(result.findings.first()) {
            return Some(Self::Signature {
                signature: finding.signature.clone(),
                title: finding.title.clone(),
                perturbed: finding.perturbed,
            });
        }
        if let Some(wrong) = &result.workload.wrong {
            return Some(Self::WrongResult(wrong.clone()));
        }
        if result.untouched.bad() > 0 {
            return Some(Self::BadWalks);
        }
        let forbidden = result.codes.iter().find(|row| {
            row.untouched > 0 && grade(row.generation, Code(row.code)).0 == Grade::Forbidden
        });
        if let Some(row) = forbidden {
            return Some(Self::Code(row.generation, row.code, row.name.clone()));
        }
        let outcome = result.process.outcome;
        let well = matches!(
            outcome,
            ProcessOutcome::Clean | ProcessOutcome::Retired | ProcessOutcome::Interrupted
        );
        (!well).then(|| Self::End(outcome, result.process.words.clone()))
    }

    /// Whether a run of the cell shows the same.
    pub(crate) fn is_met(&self, result: &CellResult) -> bool {
        match self {
            Self::Signature { signature, .. } => result
                .findings
                .iter()
                .any(|finding| finding.signature == *signature),
            Self::WrongResult(_) => result.workload.wrong.is_some(),
            Self::BadWalks => result.untouched.bad() > 0,
            Self::Code(generation, code, _) => result
                .codes
                .iter()
                .any(|row| (row.generation, row.code) == (*generation, *code) && row.untouched > 0),
            Self::End(outcome, _) => result.process.outcome == *outcome,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Words of somebody's file: they must not drive the terminal.
        match self {
            Self::Signature {
                title, perturbed, ..
            } => {
                let context = if *perturbed {
                    ", of a perturbed context"
                } else {
                    ""
                };
                write!(f, "{}{context}", title.escape_debug())
            }
            Self::WrongResult(wrong) => write!(f, "wrong result: {}", wrong.escape_debug()),
            Self::BadWalks => f.write_str("untouched walks that did what no walk may"),
            Self::Code(_, code, name) => {
                write!(f, "walks that gave {} ({code})", name.escape_debug())
            }
            Self::End(outcome, words) => {
                write!(f, "{}: the JVM {}", outcome.name(), words.escape_debug())
            }
        }
    }
}
