//! `walkfuzz compare CAPSULE`: the walker that was captured and the reference, on the context that the capsule holds.

use std::path::Path;

use walkfuzz_capsule::Ended;
use walkfuzz_harness::WalkerChoice;
use walkfuzz_harness::compare_file::{CompareFileError, compare_capsule};

use crate::compare::{CompareArgs, judge, screen};
use crate::failure::{FINDINGS, Failure};
use crate::replay::{Jdks, read, refused};
use crate::visible::visible;

pub(crate) fn run(file: &Path, args: &CompareArgs) -> Result<(), Failure> {
    let mut capsule = read(file)?;
    let facts = &capsule.facts;
    let reference = WalkerChoice::Reference.name();
    let holds = [&*facts.walker, reference];
    if let Some(walkers) = &args.walkers
        && !is_same_pair(walkers, holds)
    {
        return Err(Failure::usage(format_args!(
            "{} holds a walk of {}, which can be compared with {reference} alone: say --walkers {}",
            file.display(),
            facts.walker,
            holds.join(",")
        )));
    }
    let subject = format!("{}, capsule {}", facts.jvm, file.display());
    let mut jdks = Jdks::default();
    capsule.resolve(|file| jdks.find(file))?;
    let compared = compare_capsule(&capsule).map_err(|error| failed(file, error))?;
    if let Ended::SystemCall(number) = compared.ended {
        return Err(refused(file, number));
    }
    if args.subject.json {
        crate::print_json(&compared.comparison)?;
    } else {
        crate::print(visible(&screen(&compared.comparison, &subject)).as_bytes())?;
    }
    if !compared.differences.is_empty() {
        return Err(Failure {
            code: FINDINGS,
            message: format!(
                "{}: its walk does not end as it says: {}",
                file.display(),
                compared.differences.join("; ")
            ),
        });
    }
    judge(&compared.comparison, args.subject.fail_on)
}

/// How the program ends if nothing can be compared in `file`.
pub(crate) fn failed(file: &Path, error: CompareFileError) -> Failure {
    match error {
        CompareFileError::Puppet(error) => error.into(),
        error => Failure::environment(format_args!("{}: {error}", file.display())),
    }
}

/// Whether `--walkers` names these two, in whichever order.
fn is_same_pair(walkers: &[String], [first, second]: [&str; 2]) -> bool {
    let names: Vec<&str> = walkers.iter().map(String::as_str).collect();
    names == [first, second] || names == [second, first]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walkers_of_the_capsule_may_be_named() {
        let named = |text: &str| {
            let walkers: Vec<String> = text.split(',').map(str::to_owned).collect();
            is_same_pair(&walkers, ["liar", "reference"])
        };
        assert!(named("liar,reference") && named("reference,liar"));
        assert!(!named("agct,reference") && !named("liar") && !named("liar,reference,agct"));
    }
}
