//! Stress runs for people and programs: one, two beside each other, many in a row.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use walkfuzz_stress::report::{self, Night, Run, Screen};
use walkfuzz_stress::store::{StressFacts, StressFolder};
use walkfuzz_stress::{CellResult, Verdict};

use crate::cli::{FailOn, ReportArgs};
use crate::failure::{FINDINGS, Failure, UNKNOWN};

/// What a folder holds. Results that were cut off are told.
pub(crate) fn read(folder: &StressFolder) -> Result<(StressFacts, Vec<CellResult>), Failure> {
    let finished = folder.finished()?;
    if finished.damaged_lines > 0 {
        eprintln!(
            "walkfuzz: {}: {} results are cut off or damaged, and left out",
            folder.path().display(),
            finished.damaged_lines
        );
    }
    Ok((folder.facts()?, finished.cells))
}

/// `walkfuzz report` of a stress run.
pub(crate) fn report(folder: &StressFolder, args: &ReportArgs) -> Result<(), Failure> {
    let held = read(folder)?;
    let run = as_run(&held);
    if args.html {
        crate::print(report::html(run, "").as_bytes())?;
    } else if args.junit {
        let text = report::junit(run).map_err(Failure::environment)?;
        crate::print(text.as_bytes())?;
    } else {
        print(run, folder, args.json, args.findings)?;
    }
    judge(run.cells, args.fail_on)
}

/// How the program ends if somebody asked for its exit code.
fn judge(cells: &[CellResult], fail_on: FailOn) -> Result<(), Failure> {
    let has = |verdict| cells.iter().any(|cell| cell.verdict == verdict);
    let fails = match fail_on {
        FailOn::Never => return Ok(()),
        FailOn::Bug => has(Verdict::Fail),
        FailOn::Any => has(Verdict::Fail) || has(Verdict::Known),
    };
    if fails {
        Err(Failure::said(FINDINGS))
    } else if says_something(cells) {
        Ok(())
    } else {
        Err(Failure::said(UNKNOWN))
    }
}

/// Whether any cell came to a verdict.
pub(crate) fn says_something(cells: &[CellResult]) -> bool {
    cells.iter().any(|cell| cell.verdict != Verdict::Unknown)
}

/// `walkfuzz report --compare A B`.
pub(crate) fn compare(args: &ReportArgs) -> Result<(), Failure> {
    let [before, after] = args.run.as_slice() else {
        return Err(Failure::usage(format_args!(
            "--compare takes two run folders, the earlier one first; {} are named",
            args.run.len()
        )));
    };
    let (before, after) = (StressFolder::open(before)?, StressFolder::open(after)?);
    let (one, other) = (read(&before)?, read(&after)?);
    let compared = report::compare(as_run(&one), as_run(&other));
    if compared.matched == 0 {
        return Err(Failure::usage(format_args!(
            "{} and {} have no cell in common: nothing can be compared",
            before.path().display(),
            after.path().display()
        )));
    }
    if args.json {
        crate::print_json(&compared)?;
    } else {
        let screen = Screen {
            colour: colour(),
            all: args.findings,
            folder: "",
        };
        crate::print(compared.text(&screen).as_bytes())?;
    }
    if args.fail_on != FailOn::Never && compared.is_worse() {
        return Err(Failure::said(FINDINGS));
    }
    Ok(())
}

fn as_run((facts, cells): &(StressFacts, Vec<CellResult>)) -> Run<'_> {
    Run { facts, cells }
}

/// `walkfuzz report --trend RUN...`.
pub(crate) fn trend(runs: &[PathBuf], as_json: bool) -> Result<(), Failure> {
    if runs.is_empty() {
        return Err(Failure::usage("--trend takes the folders of stress runs"));
    }
    let mut nights = Vec::new();
    // One at a time: a year of nights need not fit into memory.
    for path in runs {
        nights.push(Night::of(as_run(&read(&StressFolder::open(path)?)?)));
    }
    let trend = report::trend(&nights);
    if as_json {
        crate::print_json(&trend)
    } else {
        crate::print(trend.text().as_bytes())
    }
}

/// A stress run for people, or as JSON.
pub(crate) fn show(folder: &StressFolder, as_json: bool, all: bool) -> Result<(), Failure> {
    print(as_run(&read(folder)?), folder, as_json, all)
}

fn print(run: Run<'_>, folder: &StressFolder, as_json: bool, all: bool) -> Result<(), Failure> {
    if as_json {
        return crate::print_json(&report::json(run));
    }
    let screen = Screen {
        colour: colour(),
        all,
        folder: &folder.path().display().to_string(),
    };
    crate::print(report::terminal(run, &screen).as_bytes())
}

fn colour() -> bool {
    report::wants_colour(
        std::io::stdout().is_terminal(),
        std::env::var_os("NO_COLOR").as_deref(),
    )
}

/// `report.html`, `report.json` and `junit.xml` in the run's folder.
pub(crate) fn write_reports(folder: &StressFolder) -> Result<(), Failure> {
    let (facts, cells) = (folder.facts()?, folder.finished()?.cells);
    let run = Run {
        facts: &facts,
        cells: &cells,
    };
    let json = serde_json::to_string_pretty(&report::json(run)).map_err(Failure::environment)?;
    let junit = report::junit(run).map_err(Failure::environment)?;
    for (name, text) in [
        ("report.html", report::html(run, "")),
        ("report.json", json),
        ("junit.xml", junit),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map_err(|error| {
            Failure::environment(format_args!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

impl From<walkfuzz_stress::store::StoreError> for Failure {
    fn from(error: walkfuzz_stress::store::StoreError) -> Self {
        use walkfuzz_stress::store::StoreError;
        match error {
            StoreError::Facts { .. }
            | StoreError::Schema { .. }
            | StoreError::NotARun { .. }
            | StoreError::InUse { .. }
            | StoreError::UnderWay { .. } => Self::usage(error),
            error => Self::environment(error),
        }
    }
}
