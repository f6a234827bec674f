//! The command line of a cell: a JVM with the sampler in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use walkfuzz_context::Arch;
use walkfuzz_jvm::{Collector, Jdk, JvmOptions, escaped};
use walkfuzz_walkers::Manner;

use crate::cell::Cell;
use crate::clock::Clock;
use crate::flags::flag_set;
use crate::profile::{Profile, parse_duration};
use crate::recording;

/// Single steps after each sample, in mode `stepped`.
const STEPS: u32 = 64;
/// Perturbed walks at each sample, in mode `perturbed`.
const PERTURBED: u32 = 16;
/// walkfuzz's own walkers, which read with loads whose faults the guard resumes.
const RESUMED: [&str; 3] = ["reference", "asgst-iterator", "asgst-jep435"];
/// ASGST's safepoint queue.
const QUEUE: &str = "asgst-queue";
/// The walker's name in cells that nobody samples: what the sampled ones are compared with.
pub const NO_WALKER: &str = "none";
/// The folder for temporary files in a cell's.
pub const TEMPORARY: &str = "tmp";
/// Where JFR keeps what it has recorded so far, in a cell's folder: what is left if the JVM does not come to write the recording.
pub const REPOSITORY: &str = "repository";
/// How long the clocks run before they are stopped and started again, in mode `churn`.
const CHURN: &str = "50ms";

/// How a walker is called, and with what around it.
pub const MODES: [&str; 5] = ["guarded", "bare", "stepped", "perturbed", "churn"];

/// A program to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Options that its JVM needs.
    pub options: Vec<String>,
    /// Its class path.
    pub class_path: Vec<PathBuf>,
    /// Main class or `-jar FILE`, and arguments.
    pub words: Vec<String>,
    /// Whether it speaks the protocol of docs/workloads.md.
    pub tells: bool,
}

/// Why a cell's values do not go together, if they do not.
///
/// # Errors
/// The reason.
pub fn check(cell: &Cell) -> Result<(), String> {
    sampler_options(cell, Path::new("/"), 1)?;
    if cell.mode == "stepped" && Arch::NATIVE != Arch::X86_64 {
        return Err("single steps cannot be had on this architecture".to_owned());
    }
    if cell.walker == NO_WALKER && (cell.mode != "bare" || cell.interval != "10ms") {
        return Err(
            "a JVM that nobody samples has no mode and no interval: bare and 10ms stand for them"
                .to_owned(),
        );
    }
    if Manner::remote_holds(&cell.walker).is_some()
        && !matches!(cell.mode.as_str(), "guarded" | "churn")
    {
        return Err(format!(
            "{} walks untouched contexts under crash protection: mode guarded or churn",
            cell.walker
        ));
    }
    if cell.walker == QUEUE && !matches!(cell.mode.as_str(), "guarded" | "churn") {
        return Err(format!(
            "{QUEUE} completes untouched samples under crash protection: mode guarded or churn"
        ));
    }
    if RESUMED.contains(&cell.walker.as_str()) && cell.mode == "bare" {
        return Err(format!(
            "{} reads with loads whose faults the guard resumes: not mode bare",
            cell.walker
        ));
    }
    let Some((walker, event, _, oldest)) = recording::WALKERS
        .into_iter()
        .find(|(walker, ..)| *walker == cell.walker)
    else {
        return Ok(());
    };
    if cell.mode != "bare" {
        return Err("JFR brings its own protection: mode bare alone".to_owned());
    }
    if cell.clock != "timer" {
        return Err("JFR brings its own clock: timer stands for it".to_owned());
    }
    if event == "jdk.ExecutionSample" && parse_duration(&cell.interval)? < Duration::from_millis(1)
    {
        return Err(format!("{walker} samples every millisecond at most"));
    }
    let line: u32 = cell
        .jdk
        .split('.')
        .next()
        .and_then(|line| line.parse().ok())
        .unwrap_or(0);
    if line < oldest {
        return Err(format!("{walker} needs JDK {oldest}"));
    }
    Ok(())
}

/// The modules that a cell needs and small runtimes lack.
#[must_use]
pub fn modules(cell: &Cell) -> Vec<&'static str> {
    let churns = cell.antagonists.split('+').any(|name| name == "jfr-churn");
    let needs = [
        ("jdk.jfr", recording::is_jfr(&cell.walker) || churns),
        ("jdk.management", cell.workload == "finagle-http"),
        ("jdk.security.auth", cell.workload == "spark"),
    ];
    let wanted = needs.into_iter().filter(|(_, needed)| *needed);
    wanted.map(|(module, _)| module).collect()
}

/// The sampler's options for a cell whose record goes to `folder`; `seed` is for what it draws at random.
///
/// # Errors
/// A value that means nothing.
pub fn sampler_options(cell: &Cell, folder: &Path, seed: u64) -> Result<String, String> {
    let clock = Clock::parse(&cell.clock)?;
    parse_duration(&cell.interval)?;
    let mode = match cell.mode.as_str() {
        "guarded" => "guard=on".to_owned(),
        "bare" => "guard=off".to_owned(),
        "stepped" => format!("guard=on,steps={STEPS}"),
        "perturbed" => format!("guard=on,perturb={PERTURBED}"),
        "churn" => format!("guard=on,churn={CHURN}"),
        other => {
            return Err(format!(
                "`{other}` is no mode; expected one of {}",
                MODES.join(", ")
            ));
        }
    };
    // The sampler puts the process id for %p, and not in a folder that is called so.
    let record = format!("{}/record-%p.map", escaped(&folder.display().to_string()));
    Ok(format!(
        "record={record},clock={},interval={},choose={},walker={},{mode},seed={seed}",
        clock.clocks,
        cell.interval,
        clock.choose,
        escaped(&cell.walker)
    ))
}

/// Samples that a cell asks for in a second of a running thread.
#[must_use]
pub fn asked(cell: &Cell) -> f64 {
    let interval = parse_duration(&cell.interval).unwrap_or(Duration::from_secs(1));
    let clocks = cell
        .clock
        .split(':')
        .next()
        .unwrap_or("")
        .split('+')
        .count();
    clocks as f64 / interval.as_secs_f64()
}

/// The JVM options of a cell's flags.
///
/// # Errors
/// There is no such set.
pub fn flag_options(profile: &Profile, name: &str) -> Result<Vec<String>, String> {
    if let Some(options) = profile.flags.get(name) {
        return Ok(options.clone());
    }
    flag_set(name)
        .map(|set| {
            set.options
                .iter()
                .map(|&option| option.to_owned())
                .collect()
        })
        .ok_or_else(|| format!("`{name}` is no set of flags; define it in the profile's [flags]"))
}

/// The java command of a cell, its program first.
///
/// # Errors
/// A value that means nothing.
pub fn java(
    cell: &Cell,
    jdk: &Jdk,
    profile: &Profile,
    sampler: &Path,
    program: &Program,
    folder: &Path,
    seed: u64,
) -> Result<Vec<String>, String> {
    let mut options = JvmOptions::new(jdk.clone());
    options.heap.clone_from(&profile.limits.heap);
    options.collector = collector(&cell.collector)?;
    options.error_folder = Some(folder.to_owned());
    options.extra = flag_options(profile, &cell.flags)?;
    options.extra.extend(program.options.iter().cloned());
    // What libraries unpack there goes with the cell.
    let temporary = folder.join(TEMPORARY);
    std::fs::create_dir_all(&temporary)
        .map_err(|error| format!("cannot make {}: {error}", temporary.display()))?;
    options
        .extra
        .push(format!("-Djava.io.tmpdir={}", temporary.display()));
    let mut words = vec![jdk.home.join("bin/java").display().to_string()];
    words.extend(options.arguments());
    words.extend(sampling(cell, sampler, folder, seed)?);
    if !program.class_path.is_empty() {
        let paths: Vec<String> = program
            .class_path
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        words.extend(["-cp".to_owned(), paths.join(":")]);
    }
    words.extend(program.words.iter().cloned());
    Ok(words)
}

/// The options that turn sampling on: the sampler, or a flight recording.
fn sampling(cell: &Cell, sampler: &Path, folder: &Path, seed: u64) -> Result<Vec<String>, String> {
    if cell.walker == NO_WALKER {
        return Ok(Vec::new());
    }
    let interval = jfr_time(parse_duration(&cell.interval)?);
    let Some(settings) = recording::settings(&cell.walker, &interval) else {
        let options = sampler_options(cell, folder, seed)?;
        return Ok(vec![format!("-agentpath:{}={options}", sampler.display())]);
    };
    let file = folder.join("settings.jfc");
    std::fs::write(&file, settings)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(vec![
        format!(
            "-XX:FlightRecorderOptions=repository={}",
            folder.join(REPOSITORY).display()
        ),
        format!(
            "-XX:StartFlightRecording=settings={},filename={},dumponexit=true",
            file.display(),
            folder.join("recording.jfr").display()
        ),
    ])
}

/// A time as JFR's settings write it.
fn jfr_time(time: Duration) -> String {
    match time.as_micros() {
        micros if micros % 1000 == 0 => format!("{} ms", micros / 1000),
        micros => format!("{micros} us"),
    }
}

/// A cell's collector; `None` leaves the choice to the JVM.
///
/// # Errors
/// There is no such collector.
pub fn collector(name: &str) -> Result<Option<Collector>, String> {
    if name == "default" {
        return Ok(None);
    }
    Collector::from_name(name).map(Some).ok_or_else(|| {
        let names = Collector::ALL.map(Collector::name).join(", ");
        format!("`{name}` is no collector; expected default or one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::tests::cell;

    #[test]
    fn the_sampler_is_told_what_the_cell_says() {
        let cell = cell("17.0.15 g1 default agct stepped forkjoin none timer+itimer:random8 100us");
        assert_eq!(
            sampler_options(&cell, Path::new("/runs/a,b=c%p"), 7).unwrap(),
            "record=/runs/a%2Cb%3Dc%25p/record-%p.map,clock=timer+itimer,interval=100us,choose=random:8,walker=agct,guard=on,steps=64,seed=7"
        );
        assert_eq!(asked(&cell), 20_000.0);
    }

    #[test]
    fn jfr_goes_with_few_values() {
        let says = |values: &str| check(&cell(values));
        assert_eq!(
            says("25 g1 default jfr-cputime bare queens none timer 100us"),
            Ok(())
        );
        assert!(
            says("17 g1 default jfr-cputime bare queens none timer 100us")
                .unwrap_err()
                .contains("needs JDK 25")
        );
        assert!(
            says("25 g1 default jfr-cputime guarded queens none timer 100us")
                .unwrap_err()
                .contains("mode bare")
        );
        assert!(
            says("25 g1 default jfr-cputime bare queens none tick 100us")
                .unwrap_err()
                .contains("own clock")
        );
        assert!(
            says("17 g1 default jfr-execution bare queens none timer 100us")
                .unwrap_err()
                .contains("millisecond")
        );
        assert_eq!(
            says("17 g1 default jfr-execution bare queens none timer 1ms"),
            Ok(())
        );
        assert_eq!(jfr_time(Duration::from_micros(100)), "100 us");
        assert_eq!(jfr_time(Duration::from_millis(10)), "10 ms");
    }

    #[test]
    fn walks_from_outside_go_with_protection_alone() {
        let says = |mode: &str| {
            let values = format!("17 g1 default agct-remote-tid {mode} queens none tick 1ms");
            check(&cell(&values))
        };
        assert_eq!((says("guarded"), says("churn")), (Ok(()), Ok(())));
        for mode in ["bare", "stepped", "perturbed"] {
            assert!(says(mode).unwrap_err().contains("mode guarded or churn"));
        }
    }

    #[test]
    fn queues_go_with_untouched_samples_alone() {
        let says = |mode: &str| {
            let values = format!("17 g1 default asgst-queue {mode} queens none timer 1ms");
            check(&cell(&values))
        };
        assert_eq!((says("guarded"), says("churn")), (Ok(()), Ok(())));
        for mode in ["bare", "stepped", "perturbed"] {
            assert!(says(mode).unwrap_err().contains("mode guarded or churn"));
        }
    }

    #[test]
    fn our_walkers_go_with_protection_alone() {
        for walker in RESUMED {
            let says = |mode: &str| {
                let values = format!("17 g1 default {walker} {mode} queens none timer 1ms");
                check(&cell(&values))
            };
            for mode in ["guarded", "stepped", "churn", "perturbed"] {
                assert_eq!(says(mode), Ok(()));
            }
            assert!(says("bare").unwrap_err().contains("not mode bare"));
        }
    }

    #[test]
    fn words_without_meaning_are_named() {
        let with = |values: &str| sampler_options(&cell(values), Path::new("/x"), 1).unwrap_err();
        assert!(with("17 g1 default agct naked forkjoin none timer 100us").contains("no mode"));
        assert!(with("17 g1 default agct bare forkjoin none sundial 100us").contains("no clock"));
        assert!(with("17 g1 default agct bare forkjoin none timer soon").contains("not a time"));
        assert!(collector("cms").unwrap_err().contains("no collector"));
        assert!(
            flag_options(&Profile::plain(), "nosuch")
                .unwrap_err()
                .contains("no set of flags")
        );
    }
}
