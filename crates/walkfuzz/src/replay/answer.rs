//! What replays came to: counted, timed, and said.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use walkfuzz_capsule::{Capsule, Ended, Outcome, PuppetError, in_process};

use crate::cli::ReplayArgs;

/// What differs is the same in most walks: a few lines show it.
const SHOWN: usize = 20;

/// The answer.
#[derive(Serialize)]
pub(super) struct Answer {
    /// `identical`, `different`; `unknown` if no walk was made before the end was asked for.
    pub(super) verdict: &'static str,
    file: PathBuf,
    signature: String,
    perturbation: String,
    walker: String,
    jvm: String,
    /// Walks that were made.
    times: u64,
    /// Walks that were asked for.
    asked: u64,
    identical: u64,
    /// Whether the end was asked for before all were made.
    interrupted: bool,
    expected: Outcome,
    /// What came of the first walk that ended otherwise.
    pub(super) got: Option<Ended>,
    differences: Vec<String>,
    /// `fresh`, `loop`, `in-process`.
    how: &'static str,
    /// Nothing in-process, where no walk is timed alone.
    milliseconds_median: Option<f64>,
    milliseconds_mean: f64,
    milliseconds_longest: Option<f64>,
    /// By the mean: as many as there were, by the time that they took.
    per_second: f64,
}

/// Counts walks.
pub(super) struct Tally {
    pub(super) expected: Outcome,
    pub(super) identical: u64,
    pub(super) first_other: Option<Ended>,
    /// Of each walk, where each was timed.
    times: Vec<Duration>,
    /// Walks that were not timed alone, and what they took together.
    together: (u64, Duration),
}

impl Tally {
    pub(super) fn new(expected: Outcome) -> Self {
        Self {
            expected,
            identical: 0,
            first_other: None,
            times: Vec::new(),
            together: (0, Duration::ZERO),
        }
    }

    pub(super) fn walks(&self) -> u64 {
        self.times.len() as u64 + self.together.0
    }

    /// Walks so often, or until `enough`.
    pub(super) fn count_until(
        &mut self,
        times: u64,
        enough: impl Fn() -> bool,
        mut walk: impl FnMut() -> Result<Ended, PuppetError>,
    ) -> Result<(), PuppetError> {
        for _ in 0..times {
            if enough() {
                break;
            }
            let began = Instant::now();
            let ended = walk()?;
            self.times.push(began.elapsed());
            if self.expected.is(&ended) {
                self.identical += 1;
            } else if self.first_other.is_none() {
                self.first_other = Some(ended);
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, walks: &in_process::Tally) {
        self.identical += walks.identical;
        self.first_other = self.first_other.or(walks.first_other);
        self.together.0 += walks.walks;
        self.together.1 += walks.took;
    }
}

impl Answer {
    pub(super) fn new(
        mut tally: Tally,
        args: &ReplayArgs,
        capsule: &Capsule,
        how: &'static str,
        interrupted: bool,
    ) -> Self {
        let walks = tally.walks();
        let took = tally.times.iter().sum::<Duration>() + tally.together.1;
        let mean = took.as_secs_f64() / walks.max(1) as f64;
        tally.times.sort_unstable();
        let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
        let facts = &capsule.facts;
        Self {
            verdict: match tally.identical {
                _ if walks == 0 => "unknown",
                identical if identical == walks => "identical",
                _ => "different",
            },
            file: args.file.clone(),
            signature: facts.signature.clone(),
            perturbation: facts.perturbation.clone(),
            walker: facts.walker.clone(),
            jvm: facts.jvm.clone(),
            times: walks,
            asked: args.times,
            identical: tally.identical,
            interrupted,
            expected: facts.expected,
            got: tally.first_other,
            differences: tally
                .first_other
                .map_or(Vec::new(), |other| facts.expected.differences(&other)),
            how,
            milliseconds_median: tally.times.get(tally.times.len() / 2).map(milliseconds),
            milliseconds_mean: mean * 1e3,
            milliseconds_longest: tally.times.last().map(milliseconds),
            per_second: if walks == 0 {
                0.0
            } else {
                1.0 / mean.max(1e-9)
            },
        }
    }
}

/// For people.
pub(super) fn screen(answer: &Answer) -> String {
    // Loops take microseconds.
    let in_words = |milliseconds: f64| {
        let digits = if milliseconds < 0.1 { 4 } else { 2 };
        format!("{milliseconds:.digits$} ms")
    };
    let median = answer
        .milliseconds_median
        .map_or_else(String::new, |median| {
            format!("median {}, ", in_words(median))
        });
    let mut lines = vec![format!(
        "{}: {} of {} walks ended as the capsule says ({}, {median}mean {}: {:.0}/s)",
        answer.verdict,
        answer.identical,
        answer.times,
        answer.how,
        in_words(answer.milliseconds_mean),
        answer.per_second
    )];
    if answer.interrupted {
        lines.push(format!("  interrupted  {} were asked for", answer.asked));
    }
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("  {name:<13}{value}"));
        }
    };
    row("signature", &answer.signature);
    row("perturbation", &answer.perturbation);
    row(
        "walker",
        &format!("{} of JDK {}", answer.walker, answer.jvm),
    );
    row("expected", &answer.expected.to_string());
    if let Some(got) = &answer.got {
        row("got", &got.to_string());
    }
    for difference in answer.differences.iter().take(SHOWN) {
        row("", difference);
    }
    if answer.differences.len() > SHOWN {
        row(
            "",
            &format!("and {} more", answer.differences.len() - SHOWN),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}
