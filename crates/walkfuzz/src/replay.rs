//! `walkfuzz replay`: does the walk in a capsule end as it did?

mod answer;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use walkfuzz_capsule::{
    Capsule, Ended, FileFacts, FormatError, InProcessError, Puppet, PuppetError, in_process,
};
use walkfuzz_harness::interrupt;
use walkfuzz_harness::one_core::on_one_core;
use walkfuzz_harness::opinion::{CapsuleOpinion, holds_wrong_frames};
use walkfuzz_jvm::Places;
use walkfuzz_record::KOfN;
use walkfuzz_symbols::SymbolTable;

use self::answer::{Answer, Tally, screen};
use crate::cli::ReplayArgs;
use crate::failure::{ENVIRONMENT, Failure, INTERRUPTED, UNKNOWN};
use crate::{print, print_json};

/// The library of which pages are taken by reference.
pub(crate) const LIBJVM: &str = "libjvm.so";
/// Walks that the fast lane makes before it looks whether its end was asked for; then as many as take about that long.
const FIRST_LOT: u64 = 64;
const LOT: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    interrupt::catch();
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
        walk_fast(&capsule, args, &mut tally)?;
        "in-process"
    } else if args.looped {
        on_one_core(|| {
            let mut puppet = Puppet::new(&capsule)?;
            tally.count_until(args.times, interrupt::seen, || puppet.walk())
        })?;
        "loop"
    } else {
        let walk = || Puppet::new(&capsule)?.walk();
        on_one_core(|| tally.count_until(args.times, interrupt::seen, walk))?;
        "fresh"
    };
    let interrupted = interrupt::seen() && tally.walks() < args.times;
    let answer = Answer::new(tally, args, &capsule, how, interrupted);
    if let Some(Ended::SystemCall(number)) = answer.got {
        return Err(refused(&args.file, number));
    }
    if args.json {
        print_json(&answer)?;
    } else {
        print(screen(&answer).as_bytes())?;
    }
    match answer.verdict {
        _ if interrupted => Err(Failure::said(INTERRUPTED)),
        "identical" => Ok(()),
        _ => Err(Failure::said(crate::failure::FINDINGS)),
    }
}

/// In lots, each in a child of its own: between them a Ctrl-C is heard.
fn walk_fast(capsule: &Capsule, args: &ReplayArgs, tally: &mut Tally) -> Result<(), Failure> {
    let mut lot = FIRST_LOT;
    while tally.walks() < args.times && !interrupt::seen() {
        let began = Instant::now();
        let times = lot.min(args.times - tally.walks());
        let walks = in_process::walk(capsule, times).map_err(|error| match error {
            InProcessError::Refused { .. } => {
                Failure::usage(format_args!("{}: {error}", args.file.display()))
            }
            error => error.into(),
        })?;
        tally.add(&walks);
        if matches!(tally.first_other, Some(Ended::SystemCall(_))) {
            break;
        }
        if began.elapsed() < LOT {
            lot = lot.saturating_mul(8);
        }
    }
    Ok(())
}

/// Reads a capsule; pages by reference are not there yet.
pub(crate) fn read(file: &Path) -> Result<Capsule, Failure> {
    Capsule::read(file).map_err(|error| match error {
        FormatError::Io { .. } => Failure::usage(error),
        error => Failure::usage(format_args!("{}: {error}", file.display())),
    })
}

/// A walk that no capsule of a walker makes.
pub(crate) fn refused(file: &Path, number: i64) -> Failure {
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
    /// In which way the first of the others did not; of wrong frames also what the oracle says instead.
    pub(crate) differences: Vec<String>,
    /// Of wrong frames: whether the oracle was asked again.
    pub(crate) oracle: Option<OracleAgain>,
}

/// Whether the oracle of wrong frames was asked again.
pub(crate) enum OracleAgain {
    /// It was.
    Asked,
    /// It could not be, for this reason.
    Away(String),
}

/// Walks the capsule `times` times, in a fresh process each time.
pub(crate) fn replay(file: &Path, times: u64) -> Result<Replayed, Failure> {
    let mut capsule = read(file)?;
    let mut jdks = Jdks::default();
    capsule.resolve(|file| jdks.find(file))?;
    let mut tally = Tally::new(capsule.facts.expected);
    tally.count_until(times, || false, || Puppet::new(&capsule)?.walk())?;
    if let Some(Ended::SystemCall(number)) = tally.first_other {
        return Err(refused(file, number));
    }
    let mut differences = tally
        .first_other
        .map_or(Vec::new(), |other| tally.expected.differences(&other));
    let mut oracle = None;
    if differences.is_empty() && holds_wrong_frames(&capsule) {
        oracle = Some(match CapsuleOpinion::of(&capsule) {
            Ok(opinion) => {
                let mut puppet = Puppet::new(&capsule)?;
                puppet.walk()?;
                differences.extend(opinion.confirms(&puppet.frames()?).err());
                OracleAgain::Asked
            }
            Err(error) => OracleAgain::Away(error.to_string()),
        });
    }
    Ok(Replayed {
        signature: capsule.facts.signature,
        walker: capsule.facts.walker,
        jvm: capsule.facts.jvm,
        identical: KOfN::new(tally.identical, times),
        differences,
        oracle,
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
