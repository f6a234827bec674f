//! What runs in a process of its own, with a JVM inside. Measurements print one line of JSON on stdout.
//!
//! These processes end without exit handlers: the JVM's would meet threads that still run Java code.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use walkfuzz_harness::campaign::{Role, begin, end_process, summarise};
use walkfuzz_harness::measure::{guard_costs, step_floor_ns};
use walkfuzz_harness::queue_costs::{QueueCosts, queue_costs};
use walkfuzz_harness::snapshots::libfuzzer::catch_interrupts;
use walkfuzz_harness::snapshots::{SnapshotSession, start_again};
use walkfuzz_harness::start::jvm_options;
use walkfuzz_harness::supervisor::LIBFUZZER_INTERRUPTED;
use walkfuzz_harness::{FrameCosts, HarnessError, Mode, Session, Settings, interrupt};
use walkfuzz_record::{RunFolder, StoreError, Summary, Totals};

use crate::child::end_with_parent;
use crate::cli::InJvm;
use crate::failure::{ENVIRONMENT, Failure};

/// What a measuring process says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Measured {
    pub(crate) direct_ns: f64,
    pub(crate) guarded_ns: f64,
    pub(crate) floor_ns: f64,
    pub(crate) recovery_ns: f64,
    pub(crate) step_ns: f64,
    pub(crate) agct_ns_a_frame: f64,
    pub(crate) reference_ns_a_frame: f64,
    pub(crate) iterator_ns_a_frame: f64,
    pub(crate) walks: u64,
    pub(crate) beyond_first_frame: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) walker_seconds: f64,
    pub(crate) wall_seconds: f64,
    pub(crate) inputs: u64,
    pub(crate) resident_mb: f64,
    /// At [`QUEUE_INTERVALS`].
    pub(crate) queue: [QueueCosts; 2],
}

/// Between two samples of a thread.
const QUEUE_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_micros(100)];

pub(crate) fn run(what: &InJvm) -> Result<(), Failure> {
    match *what {
        InJvm::Compare { .. }
        | InJvm::Step { .. }
        | InJvm::Campaign { .. }
        | InJvm::Snapshots { .. }
        | InJvm::WalkSnapshots { .. } => end_with_parent(),
        // Other threads start a trial, or it is over in a moment; the warden outlives its driver.
        _ => {}
    }
    match *what {
        InJvm::Trial { ref request } => crate::variants::trial_process::in_jvm(request),
        InJvm::Compare { ref request } => crate::compare::in_jvm(request),
        InJvm::Step { walks } => step(walks),
        InJvm::Campaign {
            seconds,
            only_given,
            ref seeds,
        } => campaign(seconds, only_given, seeds),
        InJvm::Guard => {
            let costs = guard_costs()?;
            say(&Measured {
                direct_ns: costs.direct_ns,
                guarded_ns: costs.guarded_ns,
                floor_ns: costs.floor_ns,
                recovery_ns: costs.recovery_ns,
                step_ns: step_floor_ns().unwrap_or(0.0),
                ..Measured::default()
            })
        }
        InJvm::Extensions => crate::extensions::say(),
        InJvm::Start => measure(|session| {
            session.run_input(&[])?;
            Ok(Measured {
                resident_mb: resident_mb(),
                ..Measured::default()
            })
        }),
        InJvm::Bare { seconds } => measure(|session| {
            let costs = session.walk_bare(Duration::from_secs(u64::from(seconds)))?;
            Ok(Measured {
                walks: costs.walks,
                beyond_first_frame: costs.beyond_first_frame,
                cpu_seconds: costs.cpu_seconds,
                ..Measured::default()
            })
        }),
        InJvm::Walkers { seconds } => measure(|session| {
            let reference = session.world().reference()?;
            let time = Duration::from_secs(u64::from(seconds));
            let costs = session.frame_costs(&[&reference], time)?;
            Ok(Measured {
                agct_ns_a_frame: per_frame(&costs, 0),
                reference_ns_a_frame: per_frame(&costs, 1),
                ..walked(&costs)
            })
        }),
        InJvm::Asgst { seconds } => measure(|session| {
            let (reference, iterator) = (session.world().reference()?, session.asgst_iterator()?);
            let time = Duration::from_secs(u64::from(seconds));
            let costs = session.frame_costs(&[&reference, &iterator], time)?;
            Ok(Measured {
                agct_ns_a_frame: per_frame(&costs, 0),
                reference_ns_a_frame: per_frame(&costs, 1),
                iterator_ns_a_frame: per_frame(&costs, 2),
                ..walked(&costs)
            })
        }),
        InJvm::Queue { seconds } => queue(Duration::from_secs(u64::from(seconds))),
        InJvm::Snapshots {
            count,
            seconds,
            ref out,
        } => snapshots(count as usize, Duration::from_secs(u64::from(seconds)), out),
        InJvm::WalkSnapshots {
            walks,
            seed,
            ref folder,
        } => walk_snapshots(walks, seed, folder),
        InJvm::Warden { driver } => {
            crate::stress::warden::watch(driver);
            Ok(())
        }
        InJvm::Natural { seconds } => measure(|session| {
            let began = Instant::now();
            let costs = session
                .walk_naturally(u64::MAX, || began.elapsed().as_secs() < u64::from(seconds))?;
            session.finish();
            Ok(Measured {
                beyond_first_frame: costs.beyond_first_frame,
                cpu_seconds: costs.cpu_seconds,
                ..recorded(&summarise(session.run_folder())?)
            })
        }),
        InJvm::Loop { seconds } => measure(|session| {
            let began = Instant::now();
            while began.elapsed().as_secs() < u64::from(seconds) {
                for _ in 0..1_000 {
                    session.run_input(&[])?;
                }
            }
            let wall_seconds = began.elapsed().as_secs_f64();
            session.finish();
            let folder = session.run_folder();
            Ok(Measured {
                wall_seconds,
                beyond_first_frame: beyond_first_frame(folder)?,
                ..recorded(&summarise(folder)?)
            })
        }),
    }
}

/// `time` for all intervals together.
fn queue(time: Duration) -> Result<(), Failure> {
    let time = time / QUEUE_INTERVALS.len() as u32;
    let folder = Settings::from_environment()?.runs;
    let costs = queue_costs(jvm_options()?, &folder, &QUEUE_INTERVALS, time);
    let costs = costs.unwrap_or_else(|error| fail(&error));
    let mut measured = Measured::default();
    for (place, costs) in measured.queue.iter_mut().zip(costs) {
        *place = costs;
    }
    end_with(&measured)
}

/// How many walks were measured.
fn walked(costs: &[FrameCosts]) -> Measured {
    Measured {
        walks: costs.iter().map(|costs| costs.walks).sum(),
        ..Measured::default()
    }
}

fn per_frame(costs: &[FrameCosts], index: usize) -> f64 {
    costs.get(index).map_or(0.0, FrameCosts::per_frame)
}

/// What a run's records say.
pub(crate) fn recorded(summary: &Summary) -> Measured {
    Measured {
        walks: summary.walks,
        cpu_seconds: summary.thread_seconds,
        walker_seconds: summary.walker_seconds,
        wall_seconds: summary.seconds,
        inputs: summary.engine.inputs,
        ..Measured::default()
    }
}

/// Walks of a run that gave more than one frame.
pub(crate) fn beyond_first_frame(run: &RunFolder) -> Result<u64, StoreError> {
    let records = run.records()?;
    Ok(Totals::of(records.iter().flatten())
        .outcomes(None)
        .depth_histogram()
        .count_between(2, u64::MAX))
}

fn say(measured: &Measured) -> Result<(), Failure> {
    say_line(measured)
}

fn say_line(said: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(said).map_err(Failure::environment)?;
    crate::write_out(format!("{line}\n").as_bytes())
}

fn measure(
    body: impl FnOnce(&mut Session) -> Result<Measured, HarnessError>,
) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut session =
        Session::start(Mode::Merge, &arguments, None).unwrap_or_else(|error| fail(&error));
    let measured = body(&mut session).unwrap_or_else(|error| fail(&error));
    end_with(&measured)
}

fn end_with(measured: &Measured) -> ! {
    let said = say(measured);
    end_process(if said.is_ok() {
        0
    } else {
        i32::from(ENVIRONMENT)
    })
}

/// Takes snapshots; each is a line of JSON.
fn snapshots(count: usize, limit: Duration, out: &Path) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut session =
        Session::start(Mode::Merge, &arguments, None).unwrap_or_else(|error| fail(&error));
    // The JVM has taken these signals for its own shutdown.
    interrupt::catch();
    let taken = session.take_snapshots(count, out, limit, |taken| {
        if let Ok(line) = serde_json::to_string(taken) {
            // A reader that has gone away does not matter to the files.
            let _ = crate::write_out(format!("{line}\n").as_bytes());
        }
    });
    match taken {
        Ok(_) => end_process(0),
        Err(error) => fail(&error),
    }
}

/// Walks snapshots; what was done is a line of JSON.
fn walk_snapshots(walks: u64, seed: u64, folder: &Path) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut session = SnapshotSession::start(Mode::Survey, folder, seed, &arguments)
        .unwrap_or_else(|error| {
            // At other addresses there may be room; a damaged file stays what it is.
            if !matches!(error, HarnessError::SnapshotFile(_)) {
                start_again();
            }
            fail(&error)
        });
    catch_interrupts();
    let began = Instant::now();
    let mut effort = session.finish();
    let cpu_before = effort.cpu_seconds;
    while effort.walks < walks && !interrupt::seen() {
        if let Err(error) = session.walk_batches(1_000) {
            fail(&error);
        }
        effort = session.finish();
    }
    effort = session.end();
    effort.cpu_seconds -= cpu_before;
    say_line(&crate::snapshots::Walked {
        seconds: began.elapsed().as_secs_f64(),
        resident_mb: resident_mb(),
        run: session.run_folder().path().to_owned(),
        effort,
    })
}

fn fail(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    end_process(error.exit_code())
}

/// Walks in all processes of a run, each of which is replaced when it dies. `walk` gets the run folder as the processes before this
/// one have left it, and the arguments with what is left of the time.
fn supervised(
    arguments: &[String],
    walk: impl FnOnce(&mut Session, &Summary, &[String]) -> Result<(), HarnessError>,
) -> Result<(), Failure> {
    let (run, arguments) = match begin(&Settings::from_environment()?, arguments)? {
        Role::Done(code) => {
            return match u8::try_from(code) {
                Ok(0) => Ok(()),
                Ok(code) => Err(Failure::said(code)),
                Err(_) => Err(Failure::said(ENVIRONMENT)),
            };
        }
        Role::Child { run, arguments } => (run, arguments),
    };
    interrupt::catch();
    let before = summarise(&run).unwrap_or_else(|error| fail(&error));
    let mut session =
        Session::start(Mode::Survey, &arguments, Some(run)).unwrap_or_else(|error| fail(&error));
    // The JVM has taken these signals for its own shutdown.
    interrupt::catch_once(LIBFUZZER_INTERRUPTED);
    let walked = walk(&mut session, &before, &arguments);
    session.finish();
    match walked {
        Ok(()) if interrupt::seen() => end_process(LIBFUZZER_INTERRUPTED),
        Ok(()) => end_process(0),
        Err(error) => fail(&error),
    }
}

fn step(walks: u64) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    supervised(&arguments, |session, before, _| {
        session
            .walk_naturally(walks.saturating_sub(before.walks), || !interrupt::seen())
            .map(drop)
    })
}

/// Walks the seeds at ever new moments and, unless only they shall be walked, what is bred from them.
fn campaign(seconds: u32, only_given: bool, seeds: &[PathBuf]) -> Result<(), Failure> {
    const TIME: &str = "-max_total_time=";
    let seeds: Vec<Vec<u8>> = seeds
        .iter()
        .map(|path| {
            std::fs::read(path).map_err(|error| {
                Failure::usage(format_args!("cannot read {}: {error}", path.display()))
            })
        })
        .collect::<Result<_, _>>()?;
    let arguments = [
        std::env::args().next().unwrap_or_default(),
        format!("{TIME}{seconds}"),
    ];
    supervised(&arguments, |session, _, arguments| {
        let left = arguments
            .iter()
            .find_map(|word| word.strip_prefix(TIME)?.parse().ok());
        let left = Duration::from_secs(left.unwrap_or(0));
        let began = Instant::now();
        if !only_given {
            session.breed_between_inputs();
        }
        while began.elapsed() < left && !interrupt::seen() {
            if !only_given {
                session.run_input(&[])?;
            }
            for seed in &seeds {
                session.run_given(seed)?;
            }
        }
        Ok(())
    })
}

/// Resident memory of this process.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
