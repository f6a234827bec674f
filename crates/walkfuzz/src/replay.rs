//! `walkfuzz replay`: does the walk in a capsule end as it did?

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use walkfuzz_capsule::{
    Capsule, Ended, FileFacts, FormatError, InProcessError, Outcome, Puppet, PuppetError,
    in_process,
};
use walkfuzz_jvm::Places;
use walkfuzz_record::KOfN;
use walkfuzz_symbols::SymbolTable;

use crate::cli::ReplayArgs;
use crate::failure::{ENVIRONMENT, Failure, UNKNOWN};
use crate::{print, print_json};

/// The library of which pages are taken by reference.
const LIBJVM: &str = "libjvm.so";
/// What differs is the same in most walks: a few lines show it.
const SHOWN: usize = 20;

/// The answer.
#[derive(Serialize)]
struct Answer {
    /// `identical`, `different`.
    verdict: &'static str,
    file: PathBuf,
    signature: String,
    perturbation: String,
    walker: String,
    jvm: String,
    times: u64,
    identical: u64,
    expected: Outcome,
    /// What came of the first walk that ended otherwise.
    got: Option<Ended>,
    differences: Vec<String>,
    /// `fresh`, `loop`, `in-process`.
    how: &'static str,
    milliseconds_median: f64,
    milliseconds_longest: f64,
    per_second: f64,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let mut capsule = read(&args.file)?;
    let mut jdks = Jdks::default();
    if let Some(path) = &args.refer {
        let mut small = capsule.clone();
        small.refer(|file| jdks.find(file));
        small.write(path).map_err(Failure::environment)?;
    }
    capsule.resolve(|file| jdks.find(file))?;
    let mut tally = Tally::new(capsule.facts.expected);
    let how = if args.in_process {
        let walks = in_process::walk(&capsule, args.times)?;
        tally.identical = walks.identical;
        tally.first_other = walks.first_other;
        tally.times = vec![walks.took / u32::try_from(walks.walks.max(1)).unwrap_or(u32::MAX)];
        "in-process"
    } else if args.looped {
        let mut puppet = Puppet::new(&capsule)?;
        for _ in 0..args.times {
            tally.count(|| puppet.walk())?;
        }
        "loop"
    } else {
        for _ in 0..args.times {
            tally.count(|| Puppet::new(&capsule)?.walk())?;
        }
        "fresh"
    };
    let answer = tally.answer(args, &capsule, how);
    if let Some(Ended::SystemCall(number)) = answer.got {
        return Err(refused(&args.file, number));
    }
    if args.json {
        print_json(&answer)?;
    } else {
        print(screen(&answer).as_bytes())?;
    }
    match answer.verdict {
        "identical" => Ok(()),
        _ => Err(Failure::said(crate::failure::FINDINGS)),
    }
}

/// Reads a capsule; pages by reference are not there yet.
pub(crate) fn read(file: &Path) -> Result<Capsule, Failure> {
    Capsule::read(file).map_err(|error| match error {
        FormatError::Io { .. } => Failure::usage(error),
        error => Failure::usage(format_args!("{}: {error}", file.display())),
    })
}

fn refused(file: &Path, number: i64) -> Failure {
    Failure::usage(format_args!(
        "{}: refused: its walk wants to make system call {number}, and a walk makes none",
        file.display()
    ))
}

/// Walks of a capsule in fresh processes.
pub(crate) struct Replayed {
    pub(crate) signature: String,
    pub(crate) walker: String,
    pub(crate) jvm: String,
    /// How many ended as the capsule says.
    pub(crate) identical: KOfN,
    /// In which way the first of the others did not.
    pub(crate) differences: Vec<String>,
}

/// Walks the capsule `times` times, in a fresh process each time.
pub(crate) fn replay(file: &Path, times: u64) -> Result<Replayed, Failure> {
    let mut capsule = read(file)?;
    let mut jdks = Jdks::default();
    capsule.resolve(|file| jdks.find(file))?;
    let mut tally = Tally::new(capsule.facts.expected);
    for _ in 0..times {
        tally.count(|| Puppet::new(&capsule)?.walk())?;
    }
    if let Some(Ended::SystemCall(number)) = tally.first_other {
        return Err(refused(file, number));
    }
    let differences = tally
        .first_other
        .map_or(Vec::new(), |other| tally.expected.differences(&other));
    Ok(Replayed {
        signature: capsule.facts.signature,
        walker: capsule.facts.walker,
        jvm: capsule.facts.jvm,
        identical: KOfN::new(tally.identical, times),
        differences,
    })
}

impl From<PuppetError> for Failure {
    fn from(error: PuppetError) -> Self {
        match error {
            PuppetError::NeedsFile { .. } => Failure {
                code: UNKNOWN,
                message: format!("unknown: {error}"),
            },
            error => Failure {
                code: ENVIRONMENT,
                message: error.to_string(),
            },
        }
    }
}

impl From<InProcessError> for Failure {
    fn from(error: InProcessError) -> Self {
        match error {
            InProcessError::Puppet(error) => error.into(),
            error => Self::environment(error),
        }
    }
}

/// The JDKs of this machine, looked for when the first one is needed.
#[derive(Default)]
pub(crate) struct Jdks(Option<Vec<walkfuzz_jvm::Jdk>>);

impl Jdks {
    pub(crate) fn find(&mut self, file: &FileFacts) -> Option<PathBuf> {
        if file.name != LIBJVM {
            return None;
        }
        let jdks = self.0.get_or_insert_with(|| {
            let places = Places::from_env();
            let named = places.choose(None).ok();
            let found = places.discover().into_iter();
            named
                .into_iter()
                .chain(found.filter_map(|candidate| candidate.jdk.ok()))
                .collect()
        });
        let same = jdks.iter().find(|jdk| is_build(jdk, &file.identity))?;
        Some(same.libjvm.clone())
    }
}

/// Whether the JDK's libjvm is the file that a capsule names. Where it has no build id, the whole file's hash counts: pages are taken from it, and
/// what names a JDK elsewhere is a hash of its exports alone.
fn is_build(jdk: &walkfuzz_jvm::Jdk, identity: &str) -> bool {
    if jdk.build_id.is_some() || !identity.starts_with("sha256:") {
        return jdk.identity == identity;
    }
    SymbolTable::load(&jdk.libjvm).is_ok_and(|table| table.identity() == Some(identity))
}

/// Counts walks.
struct Tally {
    expected: Outcome,
    identical: u64,
    first_other: Option<Ended>,
    times: Vec<Duration>,
}

impl Tally {
    fn new(expected: Outcome) -> Self {
        Self {
            expected,
            identical: 0,
            first_other: None,
            times: Vec::new(),
        }
    }

    fn count(
        &mut self,
        walk: impl FnOnce() -> Result<Ended, PuppetError>,
    ) -> Result<(), PuppetError> {
        let began = Instant::now();
        let ended = walk()?;
        self.times.push(began.elapsed());
        if self.expected.is(&ended) {
            self.identical += 1;
        } else if self.first_other.is_none() {
            self.first_other = Some(ended);
        }
        Ok(())
    }

    fn answer(mut self, args: &ReplayArgs, capsule: &Capsule, how: &'static str) -> Answer {
        let milliseconds = |time: Option<&Duration>| time.map_or(0.0, Duration::as_secs_f64) * 1e3;
        let mean =
            self.times.iter().sum::<Duration>().as_secs_f64() / self.times.len().max(1) as f64;
        self.times.sort_unstable();
        let facts = &capsule.facts;
        Answer {
            verdict: if self.identical == args.times {
                "identical"
            } else {
                "different"
            },
            file: args.file.clone(),
            signature: facts.signature.clone(),
            perturbation: facts.perturbation.clone(),
            walker: facts.walker.clone(),
            jvm: facts.jvm.clone(),
            times: args.times,
            identical: self.identical,
            expected: facts.expected,
            got: self.first_other,
            differences: self
                .first_other
                .map_or(Vec::new(), |other| facts.expected.differences(&other)),
            how,
            milliseconds_median: milliseconds(self.times.get(self.times.len() / 2)),
            milliseconds_longest: milliseconds(self.times.last()),
            per_second: 1.0 / mean.max(1e-9),
        }
    }
}

/// For people.
fn screen(answer: &Answer) -> String {
    let mut lines = vec![format!(
        "{}: {} of {} walks ended as the capsule says ({}, {:.2} ms each, {:.0}/s)",
        answer.verdict,
        answer.identical,
        answer.times,
        answer.how,
        answer.milliseconds_median,
        answer.per_second
    )];
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
