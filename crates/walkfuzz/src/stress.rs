//! `walkfuzz stress`: real programs under a sampler, over a matrix of JVMs, flags, walkers, clocks and workloads.

pub(crate) mod args;
mod progress;
pub(crate) mod sampler;
pub(crate) mod workload;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use walkfuzz_harness::interrupt;
use walkfuzz_jvm::Places;
use walkfuzz_record::JvmFacts;
use walkfuzz_stress::launch;
use walkfuzz_stress::recording::is_jfr;
use walkfuzz_stress::report::{self, Run, Screen};
use walkfuzz_stress::run::{Ended, Runner, Start, estimate};
use walkfuzz_stress::store::{StressFacts, StressFolder};
use walkfuzz_stress::subjects::Subjects;
use walkfuzz_stress::{Cell, Dimension, Filter, Plan, Profile, Space, Verdict, plan};
use walkfuzz_triage::KnownIssues;

use crate::failure::{FINDINGS, Failure, INTERRUPTED, UNKNOWN};
use crate::stress::args::StressArgs;
use crate::stress::progress::Progress;
use crate::stress::workload::Workloads;

/// Where the profiles are, below a checkout.
const PROFILES: &str = "ci";

pub(crate) fn run(args: &StressArgs) -> Result<(), Failure> {
    let resumed = args.resume.as_deref().map(StressFolder::open).transpose()?;
    let facts = resumed.as_ref().map(StressFolder::facts).transpose()?;
    let profile = profile(args, facts.as_ref())?;
    let places = Places::from_env();
    let subjects = Subjects::find(profile.values(Dimension::Jdk), &places);
    for missing in &subjects.missing {
        eprintln!("walkfuzz: left out: {missing}");
    }
    let workloads = Workloads::find(args, &places)?;
    let (plan, cells) = match &facts {
        Some(facts) => (Plan::default(), facts.plan.clone()),
        None => {
            let plan = make_plan(args, &profile, &subjects, &workloads)?;
            let cells = plan.cells.clone();
            (plan, cells)
        }
    };
    if args.dry_run {
        return dry_run(args, &profile, &plan, &cells);
    }
    let sampler = sampler::find()?;
    let folder = match resumed {
        Some(folder) => folder,
        None => {
            let runs = std::path::absolute(&args.runs).unwrap_or_else(|_| args.runs.clone());
            StressFolder::create(&runs, &new_facts(args, &profile, &plan))?
        }
    };
    let done: Vec<String> = folder
        .finished()?
        .cells
        .into_iter()
        .map(|cell| cell.id)
        .collect();
    let left: Vec<Cell> = cells
        .iter()
        .filter(|cell| !done.contains(&cell.id()))
        .cloned()
        .collect();
    interrupt::catch();
    // Orphans of ended cells become our children, and are waited for.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let progress = Progress::new(cells.len(), done.len());
    let start = |cell: &Cell, folder: &Path| {
        start(
            cell, folder, &profile, &subjects, &workloads, &sampler, args,
        )
    };
    let runner = Runner {
        folder: &folder,
        profile: &profile,
        start: &start,
        issues: KnownIssues::built_in(),
        asked: &interrupt::seen,
        hear: &|event| progress.hear(&event),
        keep: args.keep,
    };
    let ended = runner.run(&left)?;
    progress.end();
    if ended == Ended::Done {
        let mut facts = folder.facts()?;
        facts.finished = Some(Timestamp::now());
        folder.write_facts(&facts)?;
    }
    conclude(args, &folder, ended)
}

fn profile(args: &StressArgs, resumed: Option<&StressFacts>) -> Result<Profile, Failure> {
    let name = resumed.map_or(args.profile.as_str(), |facts| facts.profile.as_str());
    let folder = profiles();
    let mut profile = Profile::load(&folder, name).map_err(Failure::usage)?;
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
        profile.matrix.insert(Dimension::Jdk, only("default"));
    }
    Ok(profile)
}

/// The checkout's `ci`, or one in the current folder.
fn profiles() -> PathBuf {
    crate::checkout::root().map_or_else(|_| PathBuf::from(PROFILES), |root| root.join(PROFILES))
}

fn make_plan(
    args: &StressArgs,
    profile: &Profile,
    subjects: &Subjects,
    workloads: &Workloads,
) -> Result<Plan, Failure> {
    let filter = args
        .filter
        .as_deref()
        .map_or(Ok(Filter::everything()), Filter::parse);
    let filter = filter.map_err(Failure::usage)?;
    let mut matrix = profile.matrix.clone();
    matrix.insert(Dimension::Jdk, subjects.versions());
    if subjects.versions().is_empty() {
        return Err(Failure::environment(
            "none of the profile's JDKs is here; bring one with: walkfuzz jdk install 21",
        ));
    }
    let impossible = |cell: &Cell| {
        launch::check(cell)
            .err()
            .or_else(|| workloads.refuses(cell))
            .or_else(|| subjects.refuses(cell, profile))
    };
    let space = Space {
        matrix: &matrix,
        filter: &filter,
        exclude: &profile.exclude,
        impossible: &impossible,
    };
    let most = profile
        .limits
        .cells
        .unwrap_or(usize::MAX)
        .min(most_in(profile));
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

/// More cells than fit into the budget need no place in the plan.
fn most_in(profile: &Profile) -> usize {
    let Some(budget) = profile.limits.budget else {
        return usize::MAX;
    };
    let cell = profile.limits.sampled.as_secs_f64();
    let cells = budget.as_secs_f64() / cell * profile.limits.jobs as f64;
    (cells.ceil() as usize).max(1)
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
    for (why, count) in &plan.impossible {
        text.push_str(&format!("left out {count}: {why}\n"));
    }
    for cell in cells {
        text.push_str(&format!("{cell}\n"));
    }
    crate::print(text.as_bytes())
}

fn start(
    cell: &Cell,
    folder: &Path,
    profile: &Profile,
    subjects: &Subjects,
    workloads: &Workloads,
    sampler: &Path,
    args: &StressArgs,
) -> Result<Start, String> {
    let jdk = subjects
        .named(&cell.jdk)
        .ok_or_else(|| format!("JDK {} is gone", cell.jdk))?;
    let jvm = JvmFacts {
        version: cell.jdk.clone(),
        vendor: jdk.implementor.clone().unwrap_or_default(),
        build_id: jdk.identity.clone(),
        collector: cell.collector.clone(),
        options: launch::flag_options(profile, &cell.flags)?,
    };
    if cell.workload == workload::COMMAND {
        let options = launch::sampler_options(cell, folder)?;
        let tool = format!("-agentpath:{}={options}", sampler.display());
        return Ok(Start {
            words: args.program.clone(),
            environment: vec![("JAVA_TOOL_OPTIONS".to_owned(), tool)],
            tells: false,
            jvm,
            command: String::new(),
            reader: None,
        });
    }
    let program = workloads.program(cell, profile.limits.sampled)?;
    Ok(Start {
        words: launch::java(cell, jdk, profile, sampler, &program, folder)?,
        environment: Vec::new(),
        tells: program.tells,
        jvm,
        command: command(cell, profile),
        reader: is_jfr(&cell.walker).then(|| workloads.reader()),
    })
}

/// The command that runs a cell alone.
fn command(cell: &Cell, profile: &Profile) -> String {
    let terms: Vec<String> = Dimension::ALL
        .iter()
        .map(|&axis| format!("{}={}", axis.name(), cell.get(axis)))
        .collect();
    format!(
        "walkfuzz stress --profile {} --keep --filter '{}'",
        profile.name,
        terms.join(" & ")
    )
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
    let any = |verdict| results.iter().any(|result| result.verdict == verdict);
    if any(Verdict::Fail) && args.fail {
        return Err(Failure::said(FINDINGS));
    }
    if any(Verdict::Pass) || any(Verdict::Known) || any(Verdict::Outside) || any(Verdict::Fail) {
        Ok(())
    } else {
        Err(Failure::said(UNKNOWN))
    }
}

/// A stress run for people, or as JSON.
pub(crate) fn show(folder: &StressFolder, as_json: bool, all: bool) -> Result<(), Failure> {
    let (facts, finished) = (folder.facts()?, folder.finished()?);
    let run = Run {
        facts: &facts,
        cells: &finished.cells,
    };
    if as_json {
        return crate::print_json(&report::json(run));
    }
    let colour = report::wants_colour(
        std::io::stdout().is_terminal(),
        std::env::var_os("NO_COLOR").as_deref(),
    );
    let screen = Screen {
        colour,
        all,
        folder: &folder.path().display().to_string(),
    };
    crate::print(report::terminal(run, &screen).as_bytes())
}

/// `report.html`, `report.json` and `junit.xml` in the run's folder.
fn write_reports(folder: &StressFolder) -> Result<(), Failure> {
    let (facts, finished) = (folder.facts()?, folder.finished()?);
    let run = Run {
        facts: &facts,
        cells: &finished.cells,
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
            StoreError::Facts { .. } | StoreError::Schema { .. } => Self::usage(error),
            StoreError::Read { ref source, .. }
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Self::usage(error)
            }
            error => Self::environment(error),
        }
    }
}
