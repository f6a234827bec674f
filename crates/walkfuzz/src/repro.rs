//! `walkfuzz repro`: make it happen again, whatever "it" was given as.

mod answer;
pub(crate) mod campaign;
mod crash_log;
pub(crate) mod plan;
mod thing;

use std::time::Duration;

use walkfuzz_harness::Settings;
use walkfuzz_harness::campaign::create_run;
use walkfuzz_jvm::JvmOptions;
use walkfuzz_record::{FindingVerdict, Record, RunFolder};
use walkfuzz_triage::{CrashLog, CrashPlan, KnownIssues};

use crate::cli::ReproArgs;
use crate::failure::{Failure, INTERRUPTED};
use crate::replay::replay;
use crate::repro::answer::Reproduction;
use crate::repro::campaign::Aim;
use crate::repro::crash_log::{Lead, aim, lead};
use crate::repro::plan::{Plan, Wishes};
use crate::repro::thing::Thing;
use crate::visible::visible;

/// Walks of a capsule: they are all alike, or something is wrong with this machine.
const REPLAYS: u64 = 20;

pub(crate) fn run(args: &ReproArgs) -> Result<(), Failure> {
    if let Some(cells) = crate::stress::repro::cells(&args.thing, &args.runs)? {
        return crate::stress::repro::run(&cells, args);
    }
    let wishes = Wishes {
        jdk: args.jdk.clone().filter(|jdk| !jdk.is_empty()),
        gc: args.gc.clone(),
        budget: args.budget,
    };
    let thing = Thing::identify(&args.thing, &args.runs)?;
    let mut reproductions = Vec::new();
    let plans = match thing {
        Thing::CrashLog(path, log) => match lead(&path, &log, &wishes)? {
            Lead::Try(plan) => vec![*plan],
            Lead::Settled(settled) => {
                reproductions.push(*settled);
                Vec::new()
            }
        },
        Thing::Capsule(path) if args.dry_run => {
            crate::replay::read(&path)?;
            eprintln!(
                "walkfuzz: will replay {} {REPLAYS} times, without a JVM",
                path.display()
            );
            return Ok(());
        }
        Thing::Capsule(path) => {
            let replayed = replay(&path, REPLAYS)?;
            reproductions.push(Reproduction::replayed(&path, replayed));
            Vec::new()
        }
        thing => plans(thing, &wishes)?,
    };
    // Several findings share the time.
    let share = wishes.budget / u32::try_from(plans.len()).unwrap_or(u32::MAX).max(1);
    for mut plan in plans {
        plan.campaign.budget = share.max(Duration::from_secs(1));
        announce(&plan);
        if args.dry_run {
            continue;
        }
        let reproduction = carry_out(&plan, args)?;
        let interrupted = reproduction.interrupted;
        reproductions.push(reproduction);
        if interrupted {
            break;
        }
    }
    if args.dry_run && reproductions.is_empty() {
        return Ok(());
    }
    conclude(&reproductions, args)
}

/// What will be done about each thing that the argument names.
fn plans(thing: Thing, wishes: &Wishes) -> Result<Vec<Plan>, Failure> {
    match thing {
        Thing::Finding(run, finding) => Ok(vec![Plan::for_finding(&run, &finding, wishes)?]),
        Thing::Run(run) => {
            let mut findings = run.findings()?.findings;
            if findings.is_empty() {
                return Err(Failure::usage(format_args!(
                    "{} has no finding to reproduce",
                    run.path().display()
                )));
            }
            // Bugs first, then what was seen most often: it costs the least time.
            findings.sort_by_key(|finding| {
                let bug = finding.verdict == FindingVerdict::Bug;
                (!bug, std::cmp::Reverse(finding.count))
            });
            let plan = |finding| Plan::for_finding(&run, finding, wishes);
            findings.iter().map(plan).collect()
        }
        Thing::Artifact { path, bytes, note } => {
            let what = format!("input {}", path.display());
            let mut plan = Plan::for_input(what, bytes, Aim::default(), None, wishes)?;
            plan.notes.extend(note);
            Ok(vec![plan])
        }
        Thing::Entry(entry) => Ok(vec![Plan::for_entry(&entry, wishes)?]),
        Thing::Record(record) => Ok(vec![for_record(&record, wishes)?]),
        Thing::Capsule(_) | Thing::CrashLog(..) => Ok(Vec::new()),
    }
}

/// What a process was walking when it was killed: the input that its record holds.
fn for_record(record: &Record, wishes: &Wishes) -> Result<Plan, Failure> {
    let lane = record.lanes.iter().find(|lane| lane.open.is_some());
    let Some(lane) = lane.or(record.lanes.first()) else {
        return Err(Failure::usage(format_args!(
            "{} holds no walk: its process was killed before the first",
            record.path.display()
        )));
    };
    let input = lane
        .input
        .as_ref()
        .filter(|input| input.intact && !input.bytes.is_empty());
    let Some(input) = input else {
        return Err(Failure::usage(format_args!(
            "{} holds no whole input: its process walked untouched contexts, or died while it wrote one down",
            record.path.display()
        )));
    };
    let folder = record.path.parent().map(RunFolder::open);
    let run = folder.and_then(Result::ok);
    let facts = run.as_ref().map(RunFolder::facts).transpose()?;
    let log = run.as_ref().and_then(|run| log_of(run, record.pid));
    let (aim, known) = match &log {
        Some(log) => {
            let plan = CrashPlan::new(log, KnownIssues::built_in());
            (aim(&plan, log), plan.known)
        }
        None => (Aim::default(), Vec::new()),
    };
    let doing = record.in_flight();
    let doing = doing.first().map_or("no walk was open", String::as_str);
    let what = format!("the last input of process {} ({doing})", record.pid);
    let facts = facts.as_ref().map(|facts| &facts.jvm);
    let mut plan = Plan::for_input(what, input.bytes.clone(), aim, facts, wishes)?;
    plan.known = known;
    if log.is_none() {
        plan.notes
            .push("the process left no crash log: any fault of its last input counts".to_owned());
    }
    Ok(plan)
}

/// The crash log that a process of the run left.
fn log_of(run: &RunFolder, pid: u64) -> Option<CrashLog> {
    let bytes = run.read_named(&format!("hs_err_pid{pid}.log")).ok()?;
    Some(CrashLog::parse(&bytes)).filter(CrashLog::is_crash_log)
}

fn announce(plan: &Plan) {
    eprintln!("walkfuzz: {}", visible(&plan.what));
    eprintln!(
        "walkfuzz: will look for {}{} on JDK {} for up to {} s, {}",
        plan.campaign.aim.describe(),
        if plan.campaign.only_given {
            " of its own walks"
        } else {
            ""
        },
        plan.jdk,
        plan.campaign.budget.as_secs(),
        match plan.campaign.seeds.len() {
            0 => "beginning with no input".to_owned(),
            1 => "beginning with its input".to_owned(),
            several => format!("beginning with {several} inputs"),
        }
    );
    for note in &plan.notes {
        eprintln!("walkfuzz: note: {}", visible(note));
    }
}

fn carry_out(plan: &Plan, args: &ReproArgs) -> Result<Reproduction, Failure> {
    let mut settings = Settings::from_environment()?;
    settings.runs = std::path::absolute(&args.runs).unwrap_or_else(|_| args.runs.clone());
    let command: Vec<String> = std::env::args().collect();
    let folder = create_run(&settings, &JvmOptions::new(plan.jdk.clone()), &command)?;
    let mut facts = folder.facts()?;
    facts.driver = "repro".to_owned();
    folder.write_facts(&facts)?;
    let outcome = plan.campaign.run(&folder)?;
    Ok(Reproduction::of(plan, &folder, &outcome))
}

fn conclude(reproductions: &[Reproduction], args: &ReproArgs) -> Result<(), Failure> {
    if args.json {
        crate::print_json(&reproductions)?;
    } else {
        let text: String = reproductions.iter().map(Reproduction::render).collect();
        crate::print(text.as_bytes())?;
    }
    if reproductions.iter().any(|it| it.interrupted) {
        return Err(Failure::said(INTERRUPTED));
    }
    let answers = reproductions.iter().map(|it| it.answer.exit_code());
    match answers.max() {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::said(code)),
    }
}
