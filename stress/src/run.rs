//! Running a plan's cells, some at a time, until all are done, the time is up or the user wants an end.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use walkfuzz_record::JvmFacts;
use walkfuzz_triage::KnownIssues;

use crate::assess::{self, Known, assess, files};
use crate::cell::Cell;
use crate::clock::Clock;
use crate::launch::{REPOSITORY, TEMPORARY, asked};
use crate::mark::mark;
use crate::process::{self, MAPS, output_file};
use crate::profile::{Limits, Profile};
use crate::recording;
use crate::result::{CellResult, Numbers, Verdict};
use crate::store::{StoreError, StressFolder};
use crate::verdict::sampling_warning;

/// How a cell is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Variables beside the driver's own.
    pub environment: Vec<(String, String)>,
    /// The folder that it runs in; absent: the cell's own.
    pub at: Option<PathBuf>,
    /// Whether its program tells how far it is.
    pub tells: bool,
    /// Its JVM.
    pub jvm: JvmFacts,
    /// The command that runs it alone.
    pub command: String,
    /// What prints the samples of the flight recordings that the cell leaves, if it is one of JFR's; the files come last.
    pub reader: Option<Vec<String>>,
}

/// What happens meanwhile.
#[derive(Debug)]
pub enum Event<'a> {
    /// A cell begins.
    Begins(&'a Cell),
    /// A cell has ended.
    Ended(&'a CellResult),
    /// A cell could not be started, and why.
    NotStarted(&'a Cell, &'a str),
}

/// Who runs cells.
pub struct Runner<'a> {
    /// Where results go.
    pub folder: &'a StressFolder,
    /// Limits and minimum.
    pub profile: &'a Profile,
    /// How a cell is started; its folder is there.
    pub start: &'a (dyn Fn(&Cell, &Path) -> Result<Start, String> + Sync),
    /// Issues that are known.
    pub issues: &'a KnownIssues,
    /// Whether the user wants an end.
    pub asked: &'a (dyn Fn() -> bool + Sync),
    /// Hears what happens.
    pub hear: &'a (dyn Fn(Event<'_>) + Sync),
    /// Whether passing cells keep what they left.
    pub keep: bool,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All cells are done.
    Done,
    /// The budget is used up.
    OutOfBudget,
    /// The user wanted it.
    Interrupted,
}

impl Runner<'_> {
    /// Runs the cells.
    ///
    /// # Errors
    /// Results cannot be written: nothing more is started then.
    pub fn run(&self, cells: &[Cell]) -> Result<Ended, StoreError> {
        let began = Instant::now();
        let next = AtomicUsize::new(0);
        let broken = AtomicBool::new(false);
        let error = Mutex::new(None);
        let out_of_budget = || {
            let need = assess::estimate(self.profile.limits.sampled);
            let budget = self.profile.limits.budget;
            budget.is_some_and(|budget| began.elapsed() + need > budget)
        };
        let stops = || (self.asked)() || broken.load(Ordering::Relaxed) || out_of_budget();
        std::thread::scope(|scope| {
            for _ in 0..self.profile.limits.jobs.min(cells.len()) {
                scope.spawn(|| {
                    while !stops() {
                        let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            return;
                        };
                        if let Err(failure) = self.cell(cell) {
                            broken.store(true, Ordering::Relaxed);
                            *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                        }
                    }
                });
            }
        });
        if let Some(error) = error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        Ok(if (self.asked)() {
            Ended::Interrupted
        } else if next.load(Ordering::Relaxed) < cells.len() {
            Ended::OutOfBudget
        } else {
            Ended::Done
        })
    }

    fn cell(&self, cell: &Cell) -> Result<(), StoreError> {
        let folder = self.folder.cell(cell);
        let failed = |source| StoreError::Write {
            path: folder.clone(),
            source,
        };
        if folder.exists() {
            // What an interrupted run left of it.
            std::fs::remove_dir_all(&folder).map_err(failed)?;
        }
        std::fs::create_dir_all(&folder).map_err(failed)?;
        (self.hear)(Event::Begins(cell));
        let start = match (self.start)(cell, &folder) {
            Ok(start) => start,
            Err(why) => return self.leave_out(cell, &folder, &why),
        };
        let Some((program, arguments)) = start.words.split_first() else {
            return self.leave_out(cell, &folder, "there is no command to run");
        };
        let mut command = walkfuzz_record::machine::command(program);
        command
            .args(arguments)
            .current_dir(start.at.as_deref().unwrap_or(&folder));
        command.envs(start.environment.iter().map(|(name, value)| (name, value)));
        let started = Timestamp::now();
        let mark = mark(&cell.id(), std::process::id());
        let output = output_file(&folder);
        let limits = &self.profile.limits;
        let ran = process::run(command, &mark, limits, start.tells, &output, || {
            (self.asked)()
        });
        let finished = match ran {
            Ok(finished) => finished,
            Err(error) => {
                let why = format!("cannot start {program}: {error}");
                return self.leave_out(cell, &folder, &why);
            }
        };
        if (self.asked)() && finished.ended == walkfuzz_triage::Ended::Interrupted {
            // It runs again when the run is resumed.
            return std::fs::remove_dir_all(&folder).map_err(failed);
        }
        let recorded = start
            .reader
            .as_deref()
            .and_then(|reader| read_recordings(reader, &folder, &self.profile.limits, self.asked));
        let result = assess(
            &Known {
                recorded: recorded.as_ref(),
                cell,
                jvm: &start.jvm,
                started,
                tells: start.tells,
                asked: asked(cell),
                ceiling: Clock::parse(&cell.clock)
                    .ok()
                    .and_then(|clock| clock.ceiling()),
                minimum: self.profile.minimum,
                command: &start.command,
                issues: self.issues,
            },
            &folder,
            &finished,
        );
        self.folder.append(&result)?;
        for used in [TEMPORARY, REPOSITORY] {
            let _ = std::fs::remove_dir_all(folder.join(used));
        }
        if !self.keep && is_dull(&result) {
            let _ = std::fs::remove_dir_all(&folder);
        } else if result.findings.is_empty() {
            let _ = std::fs::remove_file(folder.join(MAPS));
        }
        (self.hear)(Event::Ended(&result));
        Ok(())
    }
}

impl Runner<'_> {
    /// A cell that could not be started is one of which nothing is known.
    fn leave_out(&self, cell: &Cell, folder: &Path, why: &str) -> Result<(), StoreError> {
        self.folder.append(&assess::left_out(cell, why))?;
        (self.hear)(Event::NotStarted(cell, why));
        std::fs::remove_dir_all(folder).map_err(|source| StoreError::Write {
            path: folder.to_owned(),
            source,
        })
    }
}

/// What the flight recordings in a cell's folder hold, read by a program, its arguments first. `None` if nothing can be read.
#[must_use]
pub fn read_recordings(
    reader: &[String],
    folder: &Path,
    limits: &Limits,
    asked: &dyn Fn() -> bool,
) -> Option<(Numbers, Vec<String>)> {
    let (program, arguments) = reader.split_first()?;
    let files = recordings(folder);
    if files.is_empty() {
        return None;
    }
    let mut command = walkfuzz_record::machine::command(program);
    command.args(arguments).args(files);
    let output = folder.join("recording.txt");
    let cell = folder.file_name()?.to_string_lossy();
    // Whoever ends what has this mark ends no other cell's reader.
    let mark = mark(&format!("{cell}-recording"), std::process::id());
    process::run(command, &mark, limits, false, &output, asked).ok()?;
    recording::numbers(&String::from_utf8_lossy(&std::fs::read(&output).ok()?))
}

/// The recording of a JVM that ended well; of another one, the chunks that JFR had written until then.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let whole = |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.len() > 0);
    let mut found: Vec<PathBuf> = files(folder, "", ".jfr")
        .into_iter()
        .filter(whole)
        .collect();
    if found.is_empty() {
        // One folder for each JVM.
        for jvm in files(&folder.join(REPOSITORY), "", "") {
            found.extend(files(&jvm, "", ".jfr").into_iter().filter(whole));
        }
    }
    found
}

/// Whether nobody will want to see more of a cell than its numbers.
fn is_dull(result: &CellResult) -> bool {
    // A clock that gives less than was asked for is said, and there is no more to see.
    let slow = sampling_warning(&result.sampling, asked(&result.cell));
    let told = |warning: &String| Some(warning) == slow.as_ref();
    result.verdict == Verdict::Pass && result.warnings.iter().all(told)
}

/// How long a plan takes, roughly.
#[must_use]
pub fn estimate(profile: &Profile, cells: usize) -> Duration {
    let rounds = cells.div_ceil(profile.limits.jobs.max(1)) as u32;
    let whole = assess::estimate(profile.limits.sampled) * rounds;
    profile
        .limits
        .budget
        .map_or(whole, |budget| budget.min(whole))
}
