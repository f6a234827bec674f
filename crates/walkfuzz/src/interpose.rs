//! `walkfuzz interpose`: a shipped profiler as it is, with perturbed contexts in its signal handlers; docs/interposer.md.
//!
//! Two runs of the same program and seed: one in which the interposer calls the profiler's handlers with untouched contexts alone, and one with perturbed
//! ones as well. What the profiler reports is held beside each other.

mod answer;
pub(crate) mod args;
mod collapsed;
mod mode;
mod run;

use std::path::PathBuf;

use jiff::Timestamp;
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::{Counter, KOfN};
use walkfuzz_stress::Profile;
use walkfuzz_stress::subjects::Subjects;

use crate::async_profiler;
use crate::cli::FailOn;
use crate::failure::{FINDINGS, Failure, UNKNOWN};
use crate::stress::workload::Workloads;
use answer::{Active, AgctDifference, Answer, Finding, Recorded, Side, reported};
use args::{InterposeArgs, ProfilerName};
use mode::Mode;
use run::{BESIDE, Ran, Stage};
use walkfuzz_stress::agents::{self, INTERPOSER};

/// Where the answer is kept, in the folder of the runs.
const ANSWER: &str = "interpose.json";
/// What died of an edited element. No way is known in which such an element comes to be by itself.
const JFR_QUEUE: &str = "jfr-cpu-time queue [T4]";
/// The first release whose flight recorder samples in a signal's handler.
const JFR_SINCE: u32 = 25;

pub(crate) fn run(args: &InterposeArgs) -> Result<(), Failure> {
    let mode = Mode::parse(args.profiler, &args.mode)?;
    let places = Places::from_env();
    let wanted = args.subject.jdk.as_deref().filter(|jdk| !jdk.is_empty());
    let jdk = places.choose(wanted)?;
    let profile = limits(args)?;
    let workloads = Workloads::find(None, None, &places)?;
    let (library, version) = profiler(args, &jdk)?;
    let stage = Stage {
        args,
        mode: &mode,
        jdk: &jdk,
        profile: &profile,
        workloads: &workloads,
        interposer: agents::find(&INTERPOSER)?,
        library,
    };
    refuse(&stage, &places)?;
    let _warden = crate::stress::watch()?;
    let folder = folder(args)?;
    let mode = mode.words();
    eprintln!(
        "walkfuzz: {} {version} ({mode}) on JDK {}, untouched",
        args.profiler.name(),
        jdk.version
    );
    let untouched = stage.run(folder.join("untouched"), 0)?;
    began(&untouched)?;
    eprintln!(
        "walkfuzz: the same with {} at each signal",
        match &args.queue {
            Some(edits) => format!("an element of the queue edited ({edits})"),
            None => format!("{} perturbed calls", args.perturb),
        }
    );
    let perturbed = stage.run(folder.join("perturbed"), args.perturb)?;
    began(&perturbed)?;
    let sides = [Side::of(&untouched), Side::of(&perturbed)];
    let asked = KOfN::new(
        untouched.asked_agct() + perturbed.asked_agct(),
        sides.iter().map(Side::returned).sum(),
    );
    let walker = Active::of(asked, sides.iter().map(Side::in_java).sum());
    let proven = untouched.proves_something() && perturbed.proves_something();
    let [untouched_side, perturbed_side] = sides;
    let whose = format!(
        "{} {version} ({mode}; {})",
        args.profiler.name(),
        walker.words()
    );
    let answer = Answer {
        profiler: args.profiler.name(),
        version,
        mode,
        jdk: jdk.version.to_string(),
        workload: args.workload.clone(),
        seconds: args.time.as_secs(),
        perturb: args.queue.as_ref().map_or(args.perturb, |_| 0),
        queue: args.queue.clone(),
        seed: args.subject.seed,
        verdict: if proven { "ran" } else { "unknown" },
        walker,
        asked_agct: asked,
        untouched: untouched_side,
        perturbed: perturbed_side,
        agct: AgctDifference::of(&perturbed),
        reported: reported(&untouched.folder, &perturbed.folder),
        recorded: recorded(&stage, &untouched, &perturbed),
        findings: findings(
            &whose,
            args.queue.is_some(),
            &args.again(&jdk),
            &untouched,
            &perturbed,
        ),
        folder,
    };
    keep(&answer)?;
    if args.subject.json {
        crate::print_json(&answer)?;
    } else {
        crate::print(answer.for_people().as_bytes())?;
    }
    conclude(&answer, args.subject.fail_on)
}

fn limits(args: &InterposeArgs) -> Result<Profile, Failure> {
    let mut profile = Profile::load(&crate::stress::profiles(), "smoke").map_err(Failure::usage)?;
    let limits = &mut profile.limits;
    limits.sampled = args.time;
    limits.time_out = args.time + BESIDE;
    limits.hang = args.time + BESIDE;
    Ok(profile)
}

/// The profiler's library, if it has one, and its version.
fn profiler(args: &InterposeArgs, jdk: &Jdk) -> Result<(Option<PathBuf>, String), Failure> {
    if args.queue.is_some() && args.profiler != ProfilerName::Jfr {
        return Err(Failure::usage(
            "--queue: async-profiler has no queue of samples; it goes with --profiler jfr",
        ));
    }
    if args.profiler == ProfilerName::Jfr {
        if args.library.is_some() {
            return Err(Failure::usage(
                "--library: JFR is the JVM's own; leave it out",
            ));
        }
        let feature = jdk.version.feature();
        if feature < JFR_SINCE {
            return Err(Failure::environment(format_args!(
                "JFR of JDK {feature} samples in no signal handler; from JDK {JFR_SINCE} on it does: name one with --jdk"
            )));
        }
        return Ok((None, jdk.version.to_string()));
    }
    let library = match &args.library {
        Some(library) if library.is_file() => {
            std::path::absolute(library).map_err(Failure::environment)?
        }
        Some(library) => {
            return Err(Failure::usage(format_args!(
                "--library names {}, which is no file",
                library.display()
            )));
        }
        None => async_profiler::find().map_err(|reason| {
            Failure::environment(format_args!("async-profiler is not here: {reason}"))
        })?,
    };
    let version = async_profiler::version(&jdk.home.join("bin/java"), &library);
    let version = version.ok_or_else(|| {
        Failure::usage(format_args!(
            "{} does not say its version as async-profiler does",
            library.display()
        ))
    })?;
    Ok((Some(library), version))
}

/// What cannot run here.
fn refuse(stage: &Stage<'_>, places: &Places) -> Result<(), Failure> {
    let cell = stage.launched();
    if let Some(why) = stage.workloads.refuses(&cell) {
        return Err(Failure::usage(why));
    }
    let values = [stage.jdk.home.display().to_string()];
    if let Some(why) = Subjects::find(&values, places).refuses(&cell, stage.profile) {
        return Err(Failure::environment(why));
    }
    Ok(())
}

/// A folder of the two runs.
fn folder(args: &InterposeArgs) -> Result<PathBuf, Failure> {
    let runs = std::path::absolute(&args.subject.runs).map_err(Failure::environment)?;
    // async-profiler knows no way to say a comma in a file's name.
    if runs.display().to_string().contains(',') {
        return Err(Failure::usage(format_args!(
            "--runs: {} has a comma, which async-profiler's options cannot have",
            runs.display()
        )));
    }
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
    Ok(runs.join(format!("interpose-{time}-{}", std::process::id())))
}

/// A profiler that did not begin has said why.
fn began(ran: &Ran) -> Result<(), Failure> {
    match &ran.complaint {
        Some(complaint) if ran.counter(Counter::Samples) == 0 => Err(Failure::environment(
            format_args!("the profiler did not begin: {complaint}"),
        )),
        _ => Ok(()),
    }
}

/// What JFR's recordings hold.
fn recorded(stage: &Stage<'_>, untouched: &Ran, perturbed: &Ran) -> Option<[Recorded; 2]> {
    if stage.args.profiler != ProfilerName::Jfr {
        return None;
    }
    let read = |ran: &Ran| stage.recorded(&ran.folder);
    Some([read(untouched)?, read(perturbed)?])
}

/// Leaves the answer with the runs.
fn keep(answer: &Answer) -> Result<(), Failure> {
    let path = answer.folder.join(ANSWER);
    let text = serde_json::to_string_pretty(answer).map_err(Failure::environment)?;
    std::fs::write(&path, text + "\n").map_err(|error| {
        Failure::environment(format_args!("cannot write {}: {error}", path.display()))
    })
}

fn findings(
    whose: &str,
    queue: bool,
    command: &str,
    untouched: &Ran,
    perturbed: &Ran,
) -> Vec<Finding> {
    let runs = [("untouched", untouched), ("perturbed", perturbed)];
    let all = runs.into_iter().flat_map(|(run, ran)| {
        ran.result
            .findings
            .iter()
            .cloned()
            .map(move |finding| (run, finding))
    });
    let named = all.map(|(run, mut finding)| {
        // A JVM that died in the perturbed run died of perturbed calls, as far as anybody can tell; what the guard caught stands in the record.
        let caught = finding
            .evidence
            .as_deref()
            .is_some_and(|file| file.ends_with(".map"));
        finding.perturbed |= run == "perturbed" && !caught;
        // The title ends with the walker's name, which is the profiler's.
        let what = finding.title.split(" via ").next().unwrap_or_default();
        finding.title = match run {
            "perturbed" if queue => format!("{what} via {JFR_QUEUE}"),
            _ => format!("{what} via {whose}"),
        };
        Finding {
            run,
            finding,
            command: command.to_owned(),
        }
    });
    named.collect()
}

fn conclude(answer: &Answer, fail_on: FailOn) -> Result<(), Failure> {
    // Whatever comes after a perturbed call may come of it.
    let natural = |found: &Finding| found.run == "untouched";
    let fails = match fail_on {
        FailOn::Never => false,
        FailOn::Bug => answer.findings.iter().any(natural),
        FailOn::Any => !answer.findings.is_empty(),
    };
    if fails {
        return Err(Failure::said(FINDINGS));
    }
    if answer.verdict == "unknown" {
        return Err(Failure {
            code: UNKNOWN,
            message: "too few untouched calls in Java came back to prove anything".to_owned(),
        });
    }
    Ok(())
}
