//! `walkfuzz repro` of a stress run's cell: the same cell again and again, until the time is up.
//!
//! The run's folder may be somebody else's: its words choose among what is here (profiles, sets of flags, workloads, JDKs) and
//! are never taken as commands, options or paths of programs.

mod aim;
mod answer;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use walkfuzz_harness::interrupt;
use walkfuzz_harness::quoted;
use walkfuzz_harness::snapshots::CAPSULE;
use walkfuzz_jvm::Places;
use walkfuzz_stress::launch;
use walkfuzz_stress::run::{Event, Runner};
use walkfuzz_stress::store::{StressFacts, StressFolder};
use walkfuzz_stress::subjects::Subjects;
use walkfuzz_stress::{Cell, CellResult, Profile};
use walkfuzz_triage::KnownIssues;

use crate::cli::ReproArgs;
use crate::failure::{Failure, INTERRUPTED};
use crate::stress::args::StressArgs;
use crate::stress::driver::Driver;
use crate::stress::reports::write_reports;
use crate::stress::repro::aim::Aim;
use crate::stress::repro::answer::Answer;
pub(crate) use crate::stress::repro::place::cells;
use crate::stress::repro::place::{CellsOfRun, profile_of};
use crate::stress::workload::{self, Workloads};
use crate::visible::visible;
use walkfuzz_stress::agents;

/// More repetitions than this say little more.
const MOST: usize = 20;

/// Runs each of these cells again; they share the time.
pub(crate) fn run(again: &CellsOfRun, args: &ReproArgs) -> Result<(), Failure> {
    let share = args.budget
        / u32::try_from(again.results.len())
            .unwrap_or(u32::MAX)
            .max(1);
    let mut answers = Vec::new();
    for result in &again.results {
        let attempt = Attempt::plan(&again.facts, result, args)?;
        attempt.announce(share);
        for capsule in capsules(&again.cells, result) {
            eprintln!(
                "walkfuzz: its capsule needs no JVM: walkfuzz replay {}",
                visible(&quoted(&capsule.display().to_string()))
            );
        }
        if args.dry_run {
            continue;
        }
        answers.push(attempt.carry_out(share, args)?);
        if interrupt::seen() {
            break;
        }
    }
    if args.dry_run {
        return Ok(());
    }
    if args.json {
        crate::print_json(&answers)?;
    } else {
        let text: String = answers.iter().map(Answer::render).collect();
        crate::print(text.as_bytes())?;
    }
    if interrupt::seen() {
        return Err(Failure::said(INTERRUPTED));
    }
    match answers.iter().map(Answer::exit_code).max() {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::said(code)),
    }
}

/// The capsules that the sampler made of a cell's faults.
fn capsules(cells: &Path, result: &CellResult) -> Vec<PathBuf> {
    let folder = cells.join(result.cell.id());
    let files = result.findings.iter().filter_map(|finding| {
        // A name of the folder's, and nothing further away.
        let name = Path::new(finding.evidence.as_ref()?).file_name()?;
        Some(folder.join(name))
    });
    let is_capsule =
        |path: &PathBuf| path.extension().is_some_and(|end| end == CAPSULE) && path.is_file();
    files.filter(is_capsule).collect()
}

/// A cell that is to run again.
struct Attempt<'a> {
    original: &'a CellResult,
    cell: Cell,
    aim: Aim,
    args: StressArgs,
    profile: Profile,
    subjects: Subjects,
    workloads: Workloads,
    notes: Vec<String>,
}

impl<'a> Attempt<'a> {
    fn plan(
        facts: &StressFacts,
        original: &'a CellResult,
        wishes: &ReproArgs,
    ) -> Result<Self, Failure> {
        let id = &original.id;
        let aim = Aim::of(original).ok_or_else(|| {
            Failure::usage(format_args!(
                "cell {id} shows nothing to reproduce: {}, {}",
                original.verdict.name(),
                original.reason
            ))
        })?;
        if original.cell.workload == workload::COMMAND {
            return Err(Failure::usage(format_args!(
                "cell {id} ran a command of its user's, which is not started from a file; if you trust it: {}",
                visible(&original.command)
            )));
        }
        let mut notes = Vec::new();
        let (args, profile) = profile_of(facts, original)?;
        let places = Places::from_env();
        let mut cell = original.cell.clone();
        let wanted = wishes.jdk.as_ref().filter(|jdk| !jdk.is_empty());
        let subjects = Subjects::find(&[wanted.unwrap_or(&cell.jdk).clone()], &places);
        let Some(version) = subjects.versions().first().cloned() else {
            return Err(Failure::environment(subjects.missing.join("; ")));
        };
        if version != cell.jdk {
            notes.push(format!("it was found on {}", cell.jdk));
            cell.jdk = version;
        }
        if let Some(gc) = wishes.gc.as_ref().filter(|gc| **gc != cell.collector) {
            notes.push(format!(
                "it was found with the {} collector",
                cell.collector
            ));
            cell.collector.clone_from(gc);
        }
        let build = subjects.named(&cell.jdk).map(|jdk| jdk.identity.clone());
        if notes.is_empty() && build.is_some_and(|build| build != original.jvm.build_id) {
            notes.push(format!(
                "another build of {} is here: it was found on {}",
                cell.jdk, original.jvm.build_id
            ));
        }
        let jar = |name| std::env::var_os(name).map(PathBuf::from);
        let (renaissance, dacapo) = (jar("RENAISSANCE_JAR"), jar("DACAPO_JAR"));
        let workloads = Workloads::find(renaissance.as_deref(), dacapo.as_deref(), &places)?;
        let refused = launch::check(&cell)
            .err()
            .or_else(|| workloads.refuses(&cell))
            .or_else(|| subjects.refuses(&cell, &profile));
        if let Some(why) = refused {
            return Err(Failure::environment(format_args!(
                "cell {id} cannot run here: {why}"
            )));
        }
        Ok(Self {
            original,
            cell,
            aim,
            args,
            profile,
            subjects,
            workloads,
            notes,
        })
    }

    fn what(&self) -> String {
        format!("cell {}: {}", self.original.id, self.aim)
    }

    fn announce(&self, budget: Duration) {
        eprintln!("walkfuzz: {}", visible(&self.what()));
        eprintln!(
            "walkfuzz: will run {} again, {} s of sampling each time, up to {MOST} times within {} s",
            self.cell,
            self.profile.limits.sampled.as_secs(),
            budget.as_secs()
        );
        for note in &self.notes {
            eprintln!("walkfuzz: note: {}", visible(note));
        }
    }

    fn carry_out(&self, budget: Duration, wishes: &ReproArgs) -> Result<Answer, Failure> {
        let sampler = agents::find(&agents::SAMPLER)?;
        let runs = std::path::absolute(&wishes.runs).unwrap_or_else(|_| wishes.runs.clone());
        let mut facts = crate::stress::new_facts(&self.args, &self.profile, &Default::default());
        facts.plan = vec![self.cell.clone()];
        let folder = StressFolder::create(&runs, &facts)?;
        let driver = Driver {
            profile: &self.profile,
            subjects: &self.subjects,
            workloads: &self.workloads,
            sampler,
            args: &self.args,
            seed: self.args.seed,
        };
        let began = Instant::now();
        let mut evidence = Evidence::of(&folder, &self.cell);
        let mut results: Vec<CellResult> = Vec::new();
        let mut not_started = None;
        {
            let heard = Mutex::new(Heard::default());
            let _warden = crate::stress::watch()?;
            let start = |cell: &Cell, folder: &Path| driver.start(cell, folder);
            let runner = Runner {
                folder: &folder,
                profile: &self.profile,
                start: &start,
                issues: KnownIssues::built_in(),
                asked: &interrupt::seen,
                hear: &|event| hear(&heard, &event),
                keep: true,
            };
            for number in 1..=MOST {
                let each = began.elapsed() / u32::try_from(number - 1).unwrap_or(1).max(1);
                let late = number > 1 && began.elapsed() + each > budget;
                if late || interrupt::seen() {
                    break;
                }
                runner.run(std::slice::from_ref(&self.cell))?;
                let Heard { ended, refused } = heard
                    .lock()
                    .map(|mut heard| std::mem::take(&mut *heard))
                    .unwrap_or_default();
                not_started = refused.or(not_started);
                let Some(result) = ended else { break };
                let met = self.aim.is_met(&result);
                evidence.keep(met);
                eprintln!(
                    "walkfuzz: {number}: {}, {}",
                    if met { "again" } else { result.verdict.name() },
                    result.reason
                );
                results.push(result);
            }
        }
        evidence.bring_back();
        if let Some(met) = results.iter().find(|result| self.aim.is_met(result)) {
            // Of a cell that ran several times the last line counts.
            folder.append(met)?;
        }
        facts.finished = Some(Timestamp::now());
        folder.write_facts(&facts)?;
        write_reports(&folder)?;
        Ok(Answer::of(
            self.what(),
            &self.aim,
            &results,
            not_started,
            answer::Circumstances {
                jdk: self.cell.jdk.clone(),
                notes: self.notes.clone(),
                known: self
                    .original
                    .findings
                    .iter()
                    .flat_map(|f| f.known.clone())
                    .collect(),
                seconds: began.elapsed().as_secs_f64(),
                run: folder.path().display().to_string(),
                interrupted: interrupt::seen(),
            },
        ))
    }
}

/// What came of one repetition.
#[derive(Default)]
struct Heard {
    ended: Option<CellResult>,
    refused: Option<String>,
}

fn hear(heard: &Mutex<Heard>, event: &Event<'_>) {
    let Ok(mut heard) = heard.lock() else { return };
    match event {
        Event::Begins(_) => {}
        Event::Ended(result) => heard.ended = Some((*result).clone()),
        Event::NotStarted(_, why) => heard.refused = Some((*why).to_owned()),
    }
}

/// What the first repetition left that showed it, put aside while others run in its place.
struct Evidence {
    place: PathBuf,
    aside: PathBuf,
    kept: bool,
}

impl Evidence {
    fn of(folder: &StressFolder, cell: &Cell) -> Self {
        let place = folder.cell(cell);
        Self {
            aside: place.with_extension("first"),
            place,
            kept: false,
        }
    }

    fn keep(&mut self, met: bool) {
        if met && !self.kept {
            self.kept = std::fs::rename(&self.place, &self.aside).is_ok();
        }
    }

    fn bring_back(&self) {
        if self.kept {
            let _ = std::fs::remove_dir_all(&self.place);
            let _ = std::fs::rename(&self.aside, &self.place);
        }
    }
}
