//! `walkfuzz stress`: real programs under a sampler, over a matrix of JVMs, flags, walkers, clocks and workloads.

pub(crate) mod args;
mod driver;
pub(crate) mod merge;
mod progress;
pub(crate) mod reports;
pub(crate) mod repro;
pub(crate) mod warden;
pub(crate) mod workload;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use jiff::Timestamp;
use walkfuzz_harness::interrupt;
use walkfuzz_jvm::Places;
use walkfuzz_stress::launch;
use walkfuzz_stress::run::{Ended, Runner, estimate};
use walkfuzz_stress::store::{StressFacts, StressFolder};
use walkfuzz_stress::subjects::Subjects;
use walkfuzz_stress::{Cell, CellResult, Dimension, Filter, Plan, Profile, Space, Verdict, plan};
use walkfuzz_triage::KnownIssues;

use crate::cli::{Cli, Command};
use crate::failure::{FINDINGS, Failure, INTERRUPTED, UNKNOWN};
use crate::stress::args::StressArgs;
use crate::stress::driver::Driver;
use crate::stress::progress::Progress;
use crate::stress::reports::{says_something, show, write_reports};
use crate::stress::warden::Warden;
use crate::stress::workload::Workloads;
use walkfuzz_stress::agents;

/// Where the profiles are, below a checkout.
const PROFILES: &str = "ci";

pub(crate) fn run(args: &StressArgs) -> Result<(), Failure> {
    let Some(resumed) = &args.resume else {
        return run_cells(args, None);
    };
    // Cells run elsewhere, and their records are named from there.
    let folder = StressFolder::open(resumed)?.absolute()?;
    // Held until the end.
    let _lock = (!args.dry_run).then(|| folder.lock()).transpose()?;
    let args = resumed_args(args, &folder.facts()?);
    run_cells(&args, Some(folder))
}

/// What the run was started with, as far as it is not said anew.
fn resumed_args(args: &StressArgs, facts: &StressFacts) -> StressArgs {
    let mut all = match Cli::try_parse_from(&facts.command) {
        Ok(Cli {
            command: Command::Stress(original),
        }) => *original,
        _ => StressArgs {
            profile: facts.profile.clone(),
            ..args.clone()
        },
    };
    all.seed = facts.seed;
    all.resume.clone_from(&args.resume);
    all.dry_run = args.dry_run;
    all.json = args.json;
    all.fail |= args.fail;
    all.keep |= args.keep;
    all.jobs = args.jobs.or(all.jobs);
    all.budget = args.budget.or(all.budget);
    all.seconds = args.seconds.or(all.seconds);
    all.renaissance = args.renaissance.clone().or(all.renaissance);
    all.dacapo = args.dacapo.clone().or(all.dacapo);
    all
}

fn run_cells(args: &StressArgs, resumed: Option<StressFolder>) -> Result<(), Failure> {
    let facts = resumed.as_ref().map(StressFolder::facts).transpose()?;
    let profile = profile(args)?;
    let filter = match &args.filter {
        Some(text) => Filter::parse(text).map_err(Failure::usage)?,
        None => Filter::everything(),
    };
    let places = Places::from_env();
    let workloads = Workloads::find(args.renaissance.as_deref(), args.dacapo.as_deref(), &places)?;
    let subjects = if args.program.is_empty() {
        Subjects::find(profile.values(Dimension::Jdk), &places)
    } else {
        Subjects::default()
    };
    for missing in &subjects.missing {
        eprintln!("walkfuzz: left out: {missing}");
    }
    let (plan, cells) = match &facts {
        Some(facts) => (planned(facts), facts.plan.clone()),
        None => {
            let plan = make_plan(args, &profile, &filter, &subjects, &workloads)?;
            let cells = plan.cells.clone();
            (plan, cells)
        }
    };
    let done = match &resumed {
        Some(folder) => folder.finished()?.cells,
        None => Vec::new(),
    };
    let left = without(&cells, &done);
    let is_finished = facts.is_some_and(|facts| facts.finished.is_some());
    if args.dry_run {
        return dry_run(args, &profile, &plan, &left);
    }
    let sampler = agents::find(&agents::SAMPLER)?;
    let (folder, _lock) = match resumed {
        Some(folder) => (folder, None),
        None => {
            let runs = std::path::absolute(&args.runs).unwrap_or_else(|_| args.runs.clone());
            let folder = StressFolder::create(&runs, &new_facts(args, &profile, &plan))?;
            let lock = folder.lock()?;
            (folder, Some(lock))
        }
    };
    let driver = Driver {
        profile: &profile,
        subjects: &subjects,
        workloads: &workloads,
        sampler,
        args,
        seed: args.seed,
    };
    let ended = drive(&driver, &folder, &left, cells.len())?;
    // Where nothing was left to do, it ended when it did.
    if ended != Ended::Interrupted && !(left.is_empty() && is_finished) {
        let mut facts = folder.facts()?;
        facts.finished = Some(Timestamp::now());
        folder.write_facts(&facts)?;
    }
    conclude(args, &folder, ended)
}

/// The cells that have no result yet.
fn without(cells: &[Cell], done: &[CellResult]) -> Vec<Cell> {
    let done: HashSet<&str> = done.iter().map(|cell| cell.id.as_str()).collect();
    let left = cells
        .iter()
        .filter(|cell| !done.contains(cell.id().as_str()));
    left.cloned().collect()
}

/// The plan that a run was started with.
fn planned(facts: &StressFacts) -> Plan {
    Plan {
        cells: facts.plan.clone(),
        points: facts.points,
        pairs: facts.pairs.1 as usize,
        covered: facts.pairs.0 as usize,
        impossible: facts.impossible.iter().cloned().collect(),
        complete: false,
    }
}

/// Runs the cells that are left of `all`.
fn drive(
    driver: &Driver<'_>,
    folder: &StressFolder,
    left: &[Cell],
    all: usize,
) -> Result<Ended, Failure> {
    let _warden = watch()?;
    let progress = Progress::new(all, all - left.len());
    let start = |cell: &Cell, folder: &Path| driver.start(cell, folder);
    let runner = Runner {
        folder,
        profile: driver.profile,
        start: &start,
        issues: KnownIssues::built_in(),
        asked: &interrupt::seen,
        hear: &|event| progress.hear(&event),
        keep: driver.args.keep,
    };
    progress.show_while(|| Ok(runner.run(left)?))
}

/// Makes this process one that ends in good order, and in any case with its cells: a second Ctrl-C ends it at once.
pub(crate) fn watch() -> Result<Warden, Failure> {
    let warden = Warden::set()?;
    interrupt::catch_once(i32::from(INTERRUPTED));
    // Orphans of ended cells become our children, and are waited for.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    Ok(warden)
}

fn profile(args: &StressArgs) -> Result<Profile, Failure> {
    let mut profile = Profile::load(&profiles(), &args.profile).map_err(Failure::usage)?;
    let limits = &mut profile.limits;
    if let Some(seconds) = args.seconds {
        let extra = limits.time_out.saturating_sub(limits.sampled);
        limits.sampled = std::time::Duration::from_secs(seconds.max(1));
        limits.time_out = limits.sampled + extra;
    }
    limits.budget = args.budget.or(limits.budget);
    limits.jobs = args.jobs.unwrap_or(limits.jobs).max(1);
    limits.cells = args.cells.or(limits.cells);
    if !args.program.is_empty() {
        let only = |value: &str| vec![value.to_owned()];
        profile
            .matrix
            .insert(Dimension::Workload, only(workload::COMMAND));
        profile.matrix.insert(Dimension::Antagonists, only("none"));
        profile.matrix.insert(Dimension::Collector, only("default"));
        profile.matrix.insert(Dimension::Flags, only("default"));
        profile
            .matrix
            .insert(Dimension::Jdk, only(workload::OWN_JDK));
    }
    Ok(profile)
}

/// The checkout's `ci`, or one in the current folder, if there is one.
pub(crate) fn profiles() -> PathBuf {
    crate::checkout::root().map_or_else(|_| PathBuf::from(PROFILES), |root| root.join(PROFILES))
}

fn make_plan(
    args: &StressArgs,
    profile: &Profile,
    filter: &Filter,
    subjects: &Subjects,
    workloads: &Workloads,
) -> Result<Plan, Failure> {
    let mut matrix = profile.matrix.clone();
    if args.program.is_empty() {
        matrix.insert(Dimension::Jdk, subjects.versions());
        if subjects.versions().is_empty() {
            return Err(Failure::environment(
                "none of the profile's JDKs is here; bring one with: walkfuzz jdk install 21",
            ));
        }
    }
    let impossible = |cell: &Cell| {
        launch::check(cell)
            .err()
            .or_else(|| workloads.refuses(cell))
            .or_else(|| subjects.refuses(cell, profile))
    };
    let space = Space {
        matrix: &matrix,
        filter,
        exclude: &profile.exclude,
        impossible: &impossible,
    };
    let most = profile
        .limits
        .cells
        .unwrap_or(usize::MAX)
        .min(most_in(profile, args.shard.map_or(1, |(_, of)| of)));
    let mut plan = plan(&space, most, args.seed);
    if plan.cells.is_empty() {
        return Err(match plan.impossible.iter().next() {
            Some((why, _)) => Failure::environment(format_args!("no cell can run here: {why}")),
            None => Failure::usage(format_args!(
                "no cell of profile {} matches the filter `{}`",
                profile.name,
                args.filter.as_deref().unwrap_or_default()
            )),
        });
    }
    if let Some((number, of)) = args.shard {
        plan.shard(number, of);
    }
    Ok(plan)
}

/// More cells than fit into the budget of each of so many shards need no place in the plan.
fn most_in(profile: &Profile, shards: usize) -> usize {
    let Some(budget) = profile.limits.budget else {
        return usize::MAX;
    };
    let cell = profile.limits.sampled.as_secs_f64();
    let cells = budget.as_secs_f64() / cell * profile.limits.jobs as f64;
    (cells.ceil() as usize).max(1).saturating_mul(shards)
}

fn new_facts(args: &StressArgs, profile: &Profile, plan: &Plan) -> StressFacts {
    StressFacts {
        schema: walkfuzz_stress::result::SCHEMA,
        walkfuzz: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        profile: profile.name.clone(),
        seed: args.seed,
        shard: args.shard.map(|(number, of)| format!("{number}/{of}")),
        started: Timestamp::now(),
        finished: None,
        machine: walkfuzz_harness::campaign::machine(),
        points: plan.points,
        pairs: (plan.covered as u64, plan.pairs as u64),
        impossible: plan.impossible.clone().into_iter().collect(),
        plan: plan.cells.clone(),
    }
}

fn dry_run(
    args: &StressArgs,
    profile: &Profile,
    plan: &Plan,
    cells: &[Cell],
) -> Result<(), Failure> {
    if args.json {
        return crate::print_json(&cells);
    }
    let seconds = estimate(profile, cells.len()).as_secs();
    let mut text = format!(
        "{}: {}\n{} cells of {} points; {} of {} pairs of values; about {} min with {} at a time\n",
        profile.name,
        profile.summary,
        cells.len(),
        plan.points,
        plan.covered,
        plan.pairs,
        seconds.div_ceil(60),
        profile.limits.jobs
    );
    if args.resume.is_some() {
        let (left, all) = (cells.len(), plan.cells.len());
        text.push_str(&format!("of the {all} planned, {left} are left\n"));
    }
    for (why, count) in &plan.impossible {
        text.push_str(&format!("left out {count}: {why}\n"));
    }
    for cell in cells {
        text.push_str(&format!("{cell}\n"));
    }
    crate::print(text.as_bytes())
}

fn conclude(args: &StressArgs, folder: &StressFolder, ended: Ended) -> Result<(), Failure> {
    let results = folder.finished()?.cells;
    write_reports(folder)?;
    show(folder, args.json, false)?;
    if ended == Ended::Interrupted {
        eprintln!(
            "walkfuzz: go on with: walkfuzz stress --resume {}",
            folder.path().display()
        );
        return Err(Failure::said(INTERRUPTED));
    }
    let fails = |result: &CellResult| result.verdict == Verdict::Fail;
    if args.fail && results.iter().any(fails) {
        return Err(Failure::said(FINDINGS));
    }
    if says_something(&results) {
        Ok(())
    } else {
        Err(Failure::said(UNKNOWN))
    }
}
