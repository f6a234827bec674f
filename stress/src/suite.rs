//! What the harnesses of Renaissance and DaCapo say of a benchmark: iterations, checks that failed, exceptions.
//!
//! Their words are those of Renaissance 0.16 (`ExecutionDriver`, `RenaissanceSuite`) and DaCapo 23.11 (`Callback`, `TestHarness`).

use std::time::{Duration, Instant};

/// What a suite has said so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suite {
    /// When the iteration began that is under way.
    began: Option<Instant>,
    /// How long one took at most.
    longest: Duration,
    /// Iterations that were done, and their results right.
    pub(crate) rounds: u64,
    /// Whether one is under way, or has failed.
    pub(crate) unfinished: bool,
    /// What went wrong, in the suite's words.
    pub(crate) failure: Option<Failure>,
    /// Whether the next line says why.
    why_follows: bool,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A result is not what it should be.
    Invalid(String),
    /// The benchmark threw.
    Threw(String),
    /// It does not even begin.
    Refused(String),
}

/// A line of a suite's.
#[derive(Debug, PartialEq, Eq)]
enum Word<'a> {
    Started,
    Completed,
    Invalid(String),
    Threw(String),
    Refused(&'a str),
}

impl Suite {
    /// How long a suite may be silent: iterations take about as long as those before.
    pub(crate) fn patience(&self) -> Duration {
        3 * self.longest
    }

    /// Takes in a line; whether it was one of a suite's.
    pub(crate) fn line(&mut self, line: &str, now: Instant) -> bool {
        if std::mem::take(&mut self.why_follows) && !line.is_empty() {
            if let Some(Failure::Invalid(said) | Failure::Threw(said)) = &mut self.failure {
                said.push(' ');
                said.push_str(line.trim());
            }
            return true;
        }
        let Some(word) = word(line) else { return false };
        match word {
            Word::Started => {
                self.began = Some(now);
                self.unfinished = true;
            }
            Word::Completed => {
                let took = self
                    .began
                    .take()
                    .map_or(Duration::ZERO, |began| now - began);
                self.longest = self.longest.max(took);
                self.rounds += 1;
                self.unfinished = false;
            }
            Word::Invalid(said) => {
                self.why_follows = said.ends_with(':');
                self.failure = Some(Failure::Invalid(said));
            }
            Word::Threw(said) => {
                self.why_follows = said.ends_with(':');
                self.failure = Some(Failure::Threw(said));
            }
            Word::Refused(said) => {
                self.failure
                    .get_or_insert_with(|| Failure::Refused(said.to_owned()));
            }
        }
        true
    }
}

fn word(line: &str) -> Option<Word<'_>> {
    // Somebody may have left the cursor within the line.
    if let Some((_, words)) = line.split_once("===== DaCapo ") {
        return dacapo(words.strip_suffix("=====")?.trim_end());
    }
    if let Some((_, words)) = line.split_once("====== ") {
        return iteration(words.strip_suffix(" ======")?);
    }
    if let Some(words) = line.strip_prefix("Benchmark '") {
        let (name, words) = words.split_once("' ")?;
        return match words {
            "failed result validation:" => Some(Word::Invalid(format!("{name} {words}"))),
            "failed with exception:" => Some(Word::Threw(format!("{name} {words}"))),
            _ => words
                .starts_with("excluded: ")
                .then_some(Word::Refused(line)),
        };
    }
    if line.starts_with("Failed to load benchmark '") {
        return Some(Word::Refused(line));
    }
    line.starts_with("Validation FAILED for ")
        .then(|| Word::Invalid(line.to_owned()))
}

/// `als (apache-spark) [default], iteration 0 started`.
fn iteration(words: &str) -> Option<Word<'_>> {
    let (name, words) = words.rsplit_once("], iteration ")?;
    let name = name.split(' ').next().unwrap_or(name);
    let (number, words) = words.split_once(' ')?;
    if words == "started" {
        return Some(Word::Started);
    }
    if words.starts_with("completed (") {
        return Some(Word::Completed);
    }
    let cause = words.strip_prefix("failed (")?.strip_suffix(')')?;
    let said = format!("{name} failed in iteration {number} ({cause})");
    Some(if cause == "ValidationException" {
        Word::Invalid(said)
    } else {
        Word::Threw(said)
    })
}

/// `23.11-MR2-chopin lusearch completed warmup 1 in 800 msec`.
fn dacapo(words: &str) -> Option<Word<'_>> {
    let (_version, words) = words.split_once(' ')?;
    let (name, words) = words.split_once(' ')?;
    match words.split(' ').next()? {
        "starting" => Some(Word::Started),
        "completed" | "PASSED" => Some(Word::Completed),
        "FAILED" => Some(Word::Invalid(format!("{name} {words}"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Suite {
        let mut suite = Suite::default();
        let mut now = Instant::now();
        for line in lines {
            now += Duration::from_secs(1);
            suite.line(line, now);
        }
        suite
    }

    #[test]
    fn iterations_are_counted_and_timed() {
        let suite = heard(&[
            "WARNING: something else ======",
            "====== als (apache-spark) [default], iteration 0 started ======",
            "Benchmark of their own",
            "GC before operation: ====== als (apache-spark) [default], iteration 0 completed (1999.123 ms) ======",
            "====== als (apache-spark) [default], iteration 1 started ======",
        ]);
        assert_eq!((suite.rounds, suite.unfinished), (1, true));
        assert_eq!(suite.patience(), Duration::from_secs(6));
        assert_eq!(suite.failure, None);
        let suite = heard(&[
            "===== DaCapo 23.11-MR2-chopin lusearch starting warmup 1 =====",
            "===== DaCapo 23.11-MR2-chopin lusearch completed warmup 1 in 812 msec =====",
            "===== DaCapo 23.11-MR2-chopin lusearch starting =====",
            "===== DaCapo 23.11-MR2-chopin lusearch PASSED in 790 msec =====",
        ]);
        assert_eq!((suite.rounds, suite.unfinished), (2, false));
    }

    #[test]
    fn failures_are_told_apart() {
        let suite = heard(&[
            "====== als (apache-spark) [default], iteration 1 started ======",
            "====== als (apache-spark) [default], iteration 1 failed (ValidationException) ======",
            "Benchmark 'als' failed result validation:",
            "expected 4 but got 5",
            "The following benchmarks failed: als",
        ]);
        let said = "als failed result validation: expected 4 but got 5";
        assert_eq!(suite.failure, Some(Failure::Invalid(said.to_owned())));
        assert!(suite.unfinished);
        let suite = heard(&[
            "====== als (apache-spark) [default], iteration 0 failed (NullPointerException) ======",
            "Benchmark 'als' failed with exception:",
            "java.lang.NullPointerException: gone",
            "\tat org.apache",
        ]);
        let said = "als failed with exception: java.lang.NullPointerException: gone";
        assert_eq!(suite.failure, Some(Failure::Threw(said.to_owned())));
        let excluded = "Benchmark 'als' excluded: requires JVM version <=17 (found 21).";
        let suite = heard(&[excluded]);
        assert_eq!(suite.failure, Some(Failure::Refused(excluded.to_owned())));
        for line in [
            "===== DaCapo 23.11-MR2-chopin lusearch FAILED warmup =====",
            "Validation FAILED for lusearch small",
        ] {
            let invalid = matches!(heard(&[line]).failure, Some(Failure::Invalid(_)));
            assert!(invalid, "{line}");
        }
    }
}
