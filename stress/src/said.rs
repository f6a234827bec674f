//! What a sampled program says on its standard output: lines of the protocol of docs/workloads.md and those of the suites' harnesses,
//! everything else is its own affair.

use std::time::{Duration, Instant};

use crate::result::WorkloadEnd;
use crate::suite::{Failure, Suite};

/// What a JVM says that is to record and has no flight recorder.
const NO_JFR: &str = "Module jdk.jfr not found.";

/// What a program has said so far.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What it did.
    pub end: WorkloadEnd,
    /// When it last got on.
    pub progress: Option<Instant>,
    /// Why it cannot run here.
    pub unsupported: Option<String>,
    /// The sampler's complaint.
    pub sampler: Option<String>,
    /// Whether the JVM says that the Java heap was exhausted.
    pub out_of_memory: bool,
    /// What a suite's harness said.
    suite: Suite,
}

impl Said {
    /// Takes in a line; `now` is when it came.
    pub fn line(&mut self, line: &str, now: Instant) {
        if let Some(text) = line.strip_prefix("walkfuzz-sampler: ") {
            self.sampler.get_or_insert_with(|| text.to_owned());
        } else if let Some(text) = line.strip_prefix("walkfuzz: ") {
            self.protocol(text, now);
        } else if line.contains("java.lang.OutOfMemoryError") {
            self.out_of_memory = true;
        } else if line.ends_with(NO_JFR) {
            self.unsupported = Some("this runtime has no module jdk.jfr".to_owned());
        }
        if self.suite.line(line, now) || (self.out_of_memory && self.suite.failure.is_some()) {
            self.suite_said(now);
        }
    }

    /// What a suite's words mean for the cell.
    fn suite_said(&mut self, now: Instant) {
        let suite = &self.suite;
        let worked_before = suite.rounds > 0;
        if worked_before {
            // Each iteration has its result checked.
            self.end.rounds = Some(suite.rounds);
            self.end.checks = Some(suite.rounds);
            self.progress = Some(now);
        }
        self.end.done = worked_before && !suite.unfinished && suite.failure.is_none();
        let (wrong, unsupported) = match suite.failure.clone() {
            Some(Failure::Invalid(said)) => (Some(said), None),
            // What threw for want of memory says nothing of its results; what never worked here says nothing of the walker.
            Some(Failure::Threw(_)) if self.out_of_memory => (None, None),
            Some(Failure::Threw(said)) if worked_before => (Some(said), None),
            Some(Failure::Threw(said) | Failure::Refused(said)) => (None, Some(said)),
            None => return,
        };
        (self.end.wrong, self.unsupported) = (wrong, unsupported);
    }

    /// How long silence means nothing, whatever the limits say.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.suite.patience()
    }

    fn protocol(&mut self, text: &str, now: Instant) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "progress" => {
                let rounds = rest.trim().parse().ok();
                if rounds > self.end.rounds || self.progress.is_none() {
                    self.progress = Some(now);
                }
                // Progress counts parts of rounds, too; the end has the number.
                if !self.end.done {
                    self.end.rounds = rounds.or(self.end.rounds);
                }
            }
            "antagonist" => {
                if let Some((name, count)) = rest.rsplit_once(' ')
                    && let Ok(count) = count.parse()
                {
                    self.end.antagonists.push((name.to_owned(), count));
                }
            }
            // The verdict says so: nothing is wrong with a result.
            "wrong" if self.is_idle(rest) => {}
            "wrong" => {
                self.end.wrong.get_or_insert_with(|| rest.to_owned());
            }
            "unsupported" => self.unsupported = Some(rest.to_owned()),
            "done" => {
                self.end.done = true;
                let field = |name: &str| {
                    let mut fields = rest.split(' ');
                    fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
                };
                let number = |name: &str| field(name).and_then(|value| value.parse().ok());
                self.end.rounds = number("rounds").or(self.end.rounds);
                self.end.checks = number("checks");
                self.end.seconds = field("seconds").and_then(|value| value.parse().ok());
            }
            _ => {}
        }
    }

    /// Whether a complaint is that an antagonist did nothing, which is no result.
    fn is_idle(&self, complaint: &str) -> bool {
        self.end.idle().any(|name| {
            complaint
                .strip_prefix(name)
                .is_some_and(|rest| rest == ": expected operations got 0")
        })
    }

    /// Whether the program speaks the protocol, so that its silence means something.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.progress.is_some() || self.end.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_understood_and_the_rest_is_not_ours() {
        let mut said = Said::default();
        let now = Instant::now();
        for line in [
            "Hello",
            "walkfuzz: progress 7",
            "walkfuzz: antagonist deopt 1234",
            "walkfuzz: antagonist nonsense",
            "walkfuzz: done rounds=9 checks=18 seconds=1.5",
            "walkfuzz: progress 360",
        ] {
            said.line(line, now);
        }
        assert_eq!(said.end.rounds, Some(9));
        assert_eq!((said.end.checks, said.end.seconds), (Some(18), Some(1.5)));
        assert_eq!(said.end.antagonists, [("deopt".to_owned(), 1234)]);
        assert!(said.end.done && said.end.wrong.is_none());
        said.line("walkfuzz: wrong sort: expected 4, got 5", now);
        assert_eq!(said.end.wrong.as_deref(), Some("sort: expected 4, got 5"));
        said.line("walkfuzz-sampler: no such option: clok", now);
        assert_eq!(said.sampler.as_deref(), Some("no such option: clok"));
    }

    #[test]
    fn an_antagonist_that_did_nothing_is_no_wrong_result() {
        let mut said = Said::default();
        let now = Instant::now();
        said.line("walkfuzz: antagonist deoptimise 0", now);
        said.line("walkfuzz: wrong deoptimise: expected operations got 0", now);
        assert_eq!(said.end.wrong, None);
        assert_eq!(said.end.idle().collect::<Vec<_>>(), ["deoptimise"]);
        // Of one that did something, or of its results, it would be.
        said.line("walkfuzz: wrong deoptimise: expected 4 got 5", now);
        assert!(said.end.wrong.is_some());
    }

    #[test]
    fn a_runtime_without_flight_recorder_is_unsupported() {
        let mut said = Said::default();
        said.line(
            "[0.128s][error][jfr,system] Module jdk.jfr not found.",
            Instant::now(),
        );
        assert_eq!(
            said.unsupported.as_deref(),
            Some("this runtime has no module jdk.jfr")
        );
    }

    #[test]
    fn only_a_greater_number_is_progress() {
        let mut said = Said::default();
        let first = Instant::now();
        let later = first + std::time::Duration::from_secs(5);
        said.line("walkfuzz: progress 3", first);
        said.line("walkfuzz: progress 3", later);
        assert_eq!(said.progress, Some(first));
        said.line("walkfuzz: progress 4", later);
        assert_eq!(said.progress, Some(later));
    }

    #[test]
    fn a_suites_words_count_as_the_protocols() {
        let heard = |lines: &[&str]| {
            let mut said = Said::default();
            for line in lines {
                said.line(line, Instant::now());
            }
            said
        };
        let started = "====== als (apache-spark) [default], iteration 0 started ======";
        let completed =
            "====== als (apache-spark) [default], iteration 0 completed (9.1 ms) ======";
        // Before the first one it starts, which takes what it takes.
        assert!(!heard(&[started]).tells());
        let done = heard(&[started, completed]);
        assert!(done.tells() && done.end.done);
        assert_eq!((done.end.rounds, done.end.checks), (Some(1), Some(1)));
        assert!(!heard(&[started, completed, started]).end.done);

        let threw = [
            "====== als (apache-spark) [default], iteration 1 failed (SparkException) ======",
            "Benchmark 'als' failed with exception:",
            "org.apache.spark.SparkException: task failed",
        ];
        let first = heard(&[&[started], &threw[..]].concat());
        assert_eq!(first.end.wrong, None);
        assert!(
            first
                .unsupported
                .is_some_and(|why| why.ends_with("task failed"))
        );
        let later = [&[started, completed, started], &threw[..]].concat();
        let wrong = heard(&later);
        assert_eq!(wrong.unsupported, None);
        assert!(
            wrong
                .end
                .wrong
                .is_some_and(|why| why.ends_with("task failed"))
        );
        let memory = ["Caused by: java.lang.OutOfMemoryError: Java heap space"];
        let starved = heard(&[&later[..], &memory].concat());
        assert!(starved.out_of_memory && starved.end.wrong.is_none() && !starved.end.done);
    }
}
