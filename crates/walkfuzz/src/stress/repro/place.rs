//! What names a cell: its folder, `RUN:ID`, or a run's folder, which means those of its cells that showed something.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use walkfuzz_stress::flags::flag_set;
use walkfuzz_stress::store::{StressFacts, StressFolder};
use walkfuzz_stress::{CellResult, Profile, Verdict};

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::stress::args::StressArgs;
use crate::stress::profiles;
use crate::stress::repro::aim::Aim;
use crate::visible::visible;

/// The profile that has every default of the command line.
const PLAIN: [&str; 2] = ["walkfuzz", "stress"];

/// Cells of a run that are to run again.
pub(crate) struct CellsOfRun {
    /// Where the run keeps what its cells left.
    pub(crate) cells: PathBuf,
    pub(crate) facts: StressFacts,
    pub(crate) results: Vec<CellResult>,
}

/// The cells that `text` names; `None` if it names none of a stress run. Run folders are looked up under `runs`, too.
pub(crate) fn cells(text: &str, runs: &Path) -> Result<Option<CellsOfRun>, Failure> {
    let path = Path::new(text);
    if StressFolder::is_one(path) {
        return failed(&StressFolder::open(path)?).map(Some);
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let absolute = match absolute.parent() {
        // A cell's record holds no input that could be walked by itself.
        Some(cell) if is_record(&absolute) => cell,
        _ => absolute.as_path(),
    };
    if let (Some(cells), Some(id)) = (absolute.parent(), absolute.file_name())
        && cells
            .file_name()
            .is_some_and(|name| name == StressFolder::CELLS)
        && let Some(run) = cells.parent().filter(|run| StressFolder::is_one(run))
    {
        return one(&StressFolder::open(run)?, &id.to_string_lossy()).map(Some);
    }
    let Some((folder, id)) = text.rsplit_once(':') else {
        return Ok(None);
    };
    let named = PathBuf::from(folder);
    let place = [named.clone(), runs.join(named)]
        .into_iter()
        .find(|place| StressFolder::is_one(place));
    match place {
        Some(place) => one(&StressFolder::open(&place)?, id).map(Some),
        None => Ok(None),
    }
}

fn is_record(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("record-") && name.ends_with(".map"))
}

/// The cell whose id is, or begins or ends with, these characters.
fn one(folder: &StressFolder, id: &str) -> Result<CellsOfRun, Failure> {
    let place = folder.path().display();
    let mut found: Vec<CellResult> = folder.finished()?.cells;
    found.retain(|cell| !id.is_empty() && (cell.id.starts_with(id) || cell.id.ends_with(id)));
    match found.len() {
        0 => Err(Failure::usage(format_args!(
            "no finished cell of {place} is called {id}"
        ))),
        1 => Ok(CellsOfRun {
            cells: folder.path().join(StressFolder::CELLS),
            facts: folder.facts()?,
            results: found,
        }),
        several => Err(Failure::usage(format_args!(
            "{several} cells of {place} are called {id}..."
        ))),
    }
}

/// The cells that failed, and those with faults that were recovered from; unexplained ones first.
fn failed(folder: &StressFolder) -> Result<CellsOfRun, Failure> {
    let mut results = folder.finished()?.cells;
    results.retain(|cell| {
        let counts = matches!(cell.verdict, Verdict::Fail | Verdict::Known);
        counts && Aim::of(cell).is_some()
    });
    results.sort_by_key(|cell| cell.verdict == Verdict::Known);
    if results.is_empty() {
        return Err(Failure::usage(format_args!(
            "no cell of {0} failed; name another one as {0}:ID",
            folder.path().display()
        )));
    }
    Ok(CellsOfRun {
        cells: folder.path().join(StressFolder::CELLS),
        facts: folder.facts()?,
        results,
    })
}

/// The profile that a cell ran with, and the numbers of its run's command line.
pub(crate) fn profile_of(
    facts: &StressFacts,
    result: &CellResult,
) -> Result<(StressArgs, Profile), Failure> {
    let parsed = |words: &[String]| match Cli::try_parse_from(words) {
        Ok(Cli {
            command: Command::Stress(args),
        }) => Some(*args),
        _ => None,
    };
    let Some(mut args) = parsed(&PLAIN.map(str::to_owned)) else {
        return Err(Failure::usage("walkfuzz stress has no defaults"));
    };
    args.profile.clone_from(&facts.profile);
    if let Some(theirs) = parsed(&facts.command) {
        args.profile = theirs.profile;
        args.seconds = theirs.seconds;
    }
    args.seed = facts.seed;
    args.keep = true;
    let mut profile = crate::stress::profile(&args)?;
    profile.limits.budget = None;
    profile.limits.cells = None;
    profile.limits.jobs = 1;
    let ours = Path::new(&args.profile).components().count() == 1
        && profiles().join(format!("{}.toml", args.profile)).is_file();
    let flags = &result.cell.flags;
    if !ours && flag_set(flags).is_none() {
        return Err(Failure::usage(format_args!(
            "cell {} has JVM options that the profile {} defines, which are not taken from a file; if you trust it: {}",
            result.id,
            args.profile,
            visible(&result.command)
        )));
    }
    if !ours {
        profile.flags.clear();
    }
    Ok((args, profile))
}
