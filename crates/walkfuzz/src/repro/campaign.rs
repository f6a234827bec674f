//! A campaign with an aim: a survey without libFuzzer that begins with given inputs and ends when it has found what it looks for.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use walkfuzz_harness::campaign::summarise;
use walkfuzz_record::{Counter, Finding, RunFolder, Summary, Totals};
use walkfuzz_triage::{Kind, Signature};

use crate::child::{Ended, myself, run_until};
use crate::failure::Failure;

/// What a campaign looks for: a finding that is one of these; any, if there is none of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aim {
    /// Has this signature.
    pub(crate) signature: Option<String>,
    /// Went wrong in this function of libjvm; parameters do not matter.
    pub(crate) function: Option<String>,
    /// Is a failed check of the JVM. A log names the reporting function, a recovered walk the checking one: they cannot be compared.
    pub(crate) failed_check: bool,
}

impl Aim {
    /// Whether the finding is what is looked for.
    pub(crate) fn is_met_by(&self, finding: &Finding) -> bool {
        if *self == Self::default() {
            return true;
        }
        let function = finding
            .site
            .as_ref()
            .and_then(|site| site.function.as_deref());
        self.signature.as_ref() == Some(&finding.signature)
            || self.failed_check && is_failed_check(finding)
            || function
                .zip(self.function.as_deref())
                .is_some_and(|(found, wanted)| bare(found) == bare(wanted))
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        let mut words = Vec::new();
        words.extend(
            self.signature
                .as_ref()
                .map(|signature| format!("the signature {signature}")),
        );
        words.extend(
            self.function
                .as_ref()
                .map(|function| format!("a fault in {}", bare(function))),
        );
        if self.failed_check {
            words.push("a failed check".to_owned());
        }
        if words.is_empty() {
            words.push("any fault".to_owned());
        }
        words.join(" or ")
    }
}

fn is_failed_check(finding: &Finding) -> bool {
    let signature = finding.signature.parse::<Signature>();
    signature.is_ok_and(|signature| signature.kind == Kind::Guarantee)
}

/// A function's name without its parameters.
fn bare(function: &str) -> &str {
    // `operator()` has parentheses that are its name.
    let from = function.find("operator()").map_or(0, |at| at + 10);
    let end = function
        .get(from..)
        .and_then(|rest| rest.find('('))
        .map_or(function.len(), |at| from + at);
    function.get(..end).unwrap_or(function).trim_end()
}

/// A campaign to run.
#[derive(Clone, Debug)]
pub(crate) struct Campaign {
    /// What it looks for.
    pub(crate) aim: Aim,
    /// Inputs that it begins with, again and again, at ever new moments.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Only these are walked, and nothing that is bred from them: where any fault would do, it has to be one of theirs.
    pub(crate) only_given: bool,
    /// How long.
    pub(crate) budget: Duration,
    /// Environment of the child: JDK, collector, options.
    pub(crate) environment: Vec<(String, String)>,
}

/// What came of a campaign.
pub(crate) struct Outcome {
    /// What was looked for, as far as it is known at the end.
    pub(crate) met: Option<Finding>,
    /// Other findings, by the way.
    pub(crate) others: Vec<Finding>,
    /// The whole run.
    pub(crate) summary: Summary,
    /// Perturbed walks of the campaign's own inputs, among all.
    pub(crate) given_walks: u64,
    /// Whether the user ended it.
    pub(crate) interrupted: bool,
    /// Time used.
    pub(crate) took: Duration,
}

/// How long a finding's examination and its tries at other moments may take once it is there.
const PATIENCE: Duration = Duration::from_secs(30);

impl Campaign {
    /// Runs the campaign in `folder`, until its aim is met and examined, or its time is over.
    pub(crate) fn run(&self, folder: &RunFolder) -> Result<Outcome, Failure> {
        let mut command = myself()?;
        let seconds = self.budget.as_secs().max(1);
        command.args(["in-jvm", "campaign", &seconds.to_string()]);
        if self.only_given {
            command.arg("--only-given");
        }
        command.args(self.write_seeds(folder)?);
        command.envs(self.environment.iter().cloned());
        command.env("WALKFUZZ_RUN", folder.path());
        let began = Instant::now();
        let mut met_at = None;
        let mut looked = Instant::now();
        let ended = run_until(command, true, || {
            if looked.elapsed() < Duration::from_millis(200) {
                return false;
            }
            looked = Instant::now();
            match self.met(folder) {
                Some(finding) if is_complete(&finding) => true,
                Some(_) => met_at.get_or_insert_with(Instant::now).elapsed() > PATIENCE,
                None => false,
            }
        })?;
        self.outcome(folder, ended, began.elapsed())
    }

    /// Puts the inputs into the run folder, for its processes.
    fn write_seeds(&self, folder: &RunFolder) -> Result<Vec<PathBuf>, Failure> {
        let given = folder.path().join("given");
        let write = |(place, seed): (usize, &Vec<u8>)| {
            let path = given.join(format!("{place}.bin"));
            let written =
                std::fs::create_dir_all(&given).and_then(|()| std::fs::write(&path, seed));
            written.map(|()| path.clone()).map_err(|error| {
                Failure::environment(format_args!("cannot write {}: {error}", path.display()))
            })
        };
        self.seeds.iter().enumerate().map(write).collect()
    }

    /// What was looked for, if the folder has it with all that will be known of it.
    pub(crate) fn complete(&self, folder: &RunFolder) -> Option<Finding> {
        self.met(folder).filter(is_complete)
    }

    fn met(&self, folder: &RunFolder) -> Option<Finding> {
        let found = folder.findings().ok()?.findings;
        found
            .into_iter()
            .find(|finding| self.aim.is_met_by(finding))
    }

    fn outcome(
        &self,
        folder: &RunFolder,
        ended: Ended,
        took: Duration,
    ) -> Result<Outcome, Failure> {
        let found = folder.findings()?.findings;
        let (mut met, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|finding| self.aim.is_met_by(finding));
        let summary = summarise(folder)?;
        let records = folder.records()?;
        let given_walks = Totals::of(records.iter().flatten()).counter(Counter::GivenWalks);
        if summary.walks == 0 && !ended.interrupted {
            return Err(Failure::environment(
                "the JVM walked nothing; its last words stand above",
            ));
        }
        // The one that was seen most often, if anything would do.
        met.sort_by_key(|finding| std::cmp::Reverse(finding.count));
        Ok(Outcome {
            met: met.into_iter().next(),
            others,
            summary,
            given_walks,
            interrupted: ended.interrupted,
            took,
        })
    }
}

/// Whether everything about a finding is known that will be.
fn is_complete(finding: &Finding) -> bool {
    finding.reliability.portability.is_some()
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn functions_compare_without_parameters() {
        assert_eq!(bare("frame::sender(RegisterMap*) const"), "frame::sender");
        assert_eq!(bare("AsyncGetCallTrace"), "AsyncGetCallTrace");
        assert_eq!(bare("Foo::operator()(int)"), "Foo::operator()");
    }
}
