//! Which JVMs are tried, and in which order.

use walkfuzz_context::Arch;
use walkfuzz_jvm::{CATALOGUE, Collector, Jdk, Places, Version, install};

use crate::failure::Failure;
use crate::variants::args::{COLLECTORS, CompilerMode, VariantsArgs};
use crate::variants::cell::Place;

/// The cells as the grid shows them, and the versions of the range that are not installed.
pub(crate) fn places(args: &VariantsArgs) -> Result<(Vec<Place>, Vec<String>), Failure> {
    let installed = Places::from_env();
    let (jdks, absent) = match args.range {
        Some(line) => range(line, args.install && !args.dry_run, &installed)?,
        None if args.jdks.is_empty() => (every(&installed), Vec::new()),
        None => {
            let named = args.jdks.iter().filter(|name| !name.is_empty());
            let jdks: Result<Vec<Jdk>, _> =
                named.map(|name| installed.choose(Some(name))).collect();
            (jdks.map_err(no_such_jdk)?, Vec::new())
        }
    };
    // A range asks about versions: one JVM each, unless more are asked for.
    let one = args.range.is_some();
    let collectors: Vec<Option<Collector>> = match &args.gc[..] {
        [] if one => vec![None],
        [] => COLLECTORS.map(Collector::from_name).to_vec(),
        named => named
            .iter()
            .map(|name| Collector::from_name(name))
            .collect(),
    };
    let modes: &[CompilerMode] = match &args.modes[..] {
        [] if one => &[CompilerMode::Default],
        [] => &[
            CompilerMode::Default,
            CompilerMode::Int,
            CompilerMode::C1,
            CompilerMode::C2,
            CompilerMode::Xcomp,
        ],
        named => named,
    };
    let mut places = Vec::new();
    for jdk in &jdks {
        for mode in modes {
            for collector in &collectors {
                places.push(Place {
                    jdk: jdk.clone(),
                    collector: *collector,
                    mode: *mode,
                });
            }
        }
    }
    Ok((places, absent))
}

/// A JDK that somebody names and nobody has is wrong usage here: the others can be tried without it.
fn no_such_jdk(error: walkfuzz_jvm::JvmError) -> Failure {
    Failure::usage(error)
}

/// The usable JDKs of this machine, each build once, the oldest first.
pub(crate) fn every(installed: &Places) -> Vec<Jdk> {
    let mut jdks: Vec<Jdk> = Vec::new();
    for jdk in installed
        .discover()
        .into_iter()
        .filter_map(|candidate| candidate.jdk.ok())
    {
        if !jdks.iter().any(|known| known.identity == jdk.identity) {
            jdks.push(jdk);
        }
    }
    jdks.sort_by(|a, b| a.version.cmp(&b.version));
    jdks
}

/// The patch levels of a feature version, and those that could be had.
fn range(line: u32, bring: bool, installed: &Places) -> Result<(Vec<Jdk>, Vec<String>), Failure> {
    let mut jdks = every(installed);
    jdks.retain(|jdk| jdk.version.feature() == line);
    let mut absent = Vec::new();
    let ours = CATALOGUE
        .iter()
        .filter(|pinned| pinned.arch == Arch::NATIVE);
    for pinned in ours {
        let Some(version) = Version::parse(pinned.version).filter(|v| v.feature() == line) else {
            continue;
        };
        if jdks.iter().any(|jdk| jdk.version.is_a(&version)) {
            continue;
        }
        if bring {
            eprintln!("walkfuzz: installing JDK {}", pinned.version);
            jdks.push(install(pinned.version, installed)?);
        } else {
            absent.push(pinned.version.to_owned());
        }
    }
    jdks.sort_by(|a, b| a.version.cmp(&b.version));
    if jdks.is_empty() {
        let offer = match &absent[..] {
            [] => "and none can be installed".to_owned(),
            some => format!("--install brings {}", some.join(", ")),
        };
        return Err(Failure::usage(format_args!(
            "no JDK {line} is installed; {offer}"
        )));
    }
    Ok((jdks, absent))
}

/// Indices in the order in which cells are run: every JDK once, before any JDK twice, so that a budget that ends early has seen the most
/// different JVMs.
pub(crate) fn order(places: &[Place]) -> Vec<usize> {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let build = place.jdk.identity.as_str();
        let turn = match seen.iter_mut().find(|(known, _)| *known == build) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                seen.push((build, 0));
                0
            }
        };
        turns.push((turn, index));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, index)| index).collect()
}
