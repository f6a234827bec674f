//! A run in child processes: the JVM that is walked, the run folder, the wait for everything that was started, the summary.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use walkfuzz_harness::campaign::{create_run, summarise};
use walkfuzz_harness::{Settings, WalkerChoice, interrupt};
use walkfuzz_jvm::{Collector, JvmOptions, Places};
use walkfuzz_record::render::end_screen;
use walkfuzz_record::{RunFolder, Summary, Verdict};

use crate::cli::{FailOn, SubjectArgs};
use crate::failure::{ENVIRONMENT, FINDINGS, Failure, INTERRUPTED, UNKNOWN, USAGE};

/// The JVM to walk, checked before anything is built or started.
pub(crate) fn jvm_options(subject: &SubjectArgs) -> Result<JvmOptions, Failure> {
    let places = Places::from_env();
    let jdk = places.choose(subject.jdk.as_deref().filter(|jdk| !jdk.is_empty()))?;
    let mut options = JvmOptions::new(jdk);
    options.collector = subject.gc.as_deref().and_then(Collector::from_name);
    Ok(options)
}

/// The variables that tell a child which JVM to walk.
pub(crate) fn environment(
    subject: &SubjectArgs,
    options: &JvmOptions,
) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("WALKFUZZ_JDK", options.jdk.home.display().to_string()),
        ("WALKFUZZ_SEED", subject.seed.to_string()),
    ];
    variables.extend(subject.gc.clone().map(|gc| ("WALKFUZZ_GC", gc)));
    variables
}

/// Makes the run folder; its path is absolute. `walkers` are what it walks with and what judges, where the environment does not say that.
pub(crate) fn make_run(
    driver: &str,
    subject: &SubjectArgs,
    options: &JvmOptions,
    walkers: Option<[WalkerChoice; 2]>,
) -> Result<RunFolder, Failure> {
    let mut settings = Settings::from_environment()?;
    settings.runs = std::path::absolute(&subject.runs).unwrap_or_else(|_| subject.runs.clone());
    settings.seed = u64::from(subject.seed);
    if let Some([walker, oracle]) = walkers {
        (settings.walker, settings.oracle) = (walker, Some(oracle));
    }
    let command: Vec<String> = std::env::args().collect();
    let folder = create_run(&settings, options, &command)?;
    let mut facts = folder.facts()?;
    facts.driver = driver.to_owned();
    folder.write_facts(&facts)?;
    Ok(folder)
}

/// This program, to be started again.
pub(crate) fn myself() -> Result<Command, Failure> {
    let path: PathBuf = std::env::current_exe()
        .map_err(|error| Failure::environment(format_args!("cannot find this program: {error}")))?;
    Ok(walkfuzz_record::machine::command(path))
}

/// How a started program ended; `None`: by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) interrupted: bool,
}

/// Has this process end when the one that started it does, even if that one is killed. It is the main thread of this program that starts it, and waits.
pub(crate) fn end_with_parent() {
    // Where it cannot be had, the limits of the work end it.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
}

/// Runs a program to its end, and to the end of everything that it started: cargo dies of a Ctrl-C at once, while the fuzzer
/// below it still writes down what it has.
pub(crate) fn run(command: Command, json: bool) -> Result<Ended, Failure> {
    run_until(command, json, || false)
}

/// As [`run`]; when `enough` says so, the program is told to end in good order. Asked a hundred times a second.
pub(crate) fn run_until(
    mut command: Command,
    json: bool,
    enough: impl FnMut() -> bool,
) -> Result<Ended, Failure> {
    interrupt::catch();
    // Orphans become our children, so that they can be waited for.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    command.stdin(Stdio::null());
    if json {
        command.stdout(std::io::stderr());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .map_err(|error| Failure::environment(format_args!("cannot start {program}: {error}")))?;
    let code = wait(&mut child, enough)?;
    let interrupted = interrupt::seen();
    reap();
    Ok(Ended { code, interrupted })
}

/// What a program says on stdout until its end; the user's Ctrl-C is passed on, and the program ends in good order. For little output.
pub(crate) fn output(mut command: Command) -> Result<Output, Failure> {
    interrupt::catch();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|error| {
        Failure::environment(format_args!("cannot start this program again: {error}"))
    })?;
    wait(&mut child, || false)?;
    child.wait_with_output().map_err(|error| {
        Failure::environment(format_args!("cannot wait for a child process: {error}"))
    })
}

/// As [`output`], for a program that starts others: its lines go to stderr as they come, and are returned. After a Ctrl-C everything below
/// this process is told to end, also what has left its group (`timeout` does).
pub(crate) fn lines(mut command: Command) -> Result<String, Failure> {
    interrupt::catch();
    let _ = nix::sys::prctl::set_child_subreaper(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .map_err(|error| Failure::environment(format_args!("cannot start {program}: {error}")))?;
    let out = child.stdout.take().map(BufReader::new);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        for line in out.into_iter().flat_map(BufReader::lines) {
            let Ok(line) = line else { break };
            eprintln!("{line}");
            text.push_str(&line);
            text.push('\n');
        }
        text
    });
    wait(&mut child, interrupt::seen)?;
    if interrupt::seen() {
        reap();
    }
    // It ends when nobody is left who could write.
    Ok(reader.join().unwrap_or_default())
}

fn wait(child: &mut Child, mut enough: impl FnMut() -> bool) -> Result<Option<i32>, Failure> {
    let mut told = false;
    loop {
        let ended = child.try_wait().map_err(|error| {
            Failure::environment(format_args!("cannot wait for a child process: {error}"))
        })?;
        if let Some(status) = ended {
            return Ok(status.code());
        }
        // At a terminal, everybody in the foreground is told by the kernel.
        if !told && (interrupt::was_sent() || enough()) {
            told = true;
            for pid in descendants(std::process::id()) {
                let _ = kill(pid, Signal::SIGINT);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for orphans, which are those of an interrupted run.
fn reap() {
    loop {
        match waitpid(None, Some(WaitPidFlag::empty())) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// All processes below this one.
fn descendants(pid: u32) -> Vec<Pid> {
    let mut found = Vec::new();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    for task in tasks {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children
            .split_whitespace()
            .filter_map(|word| word.parse::<u32>().ok())
        {
            found.extend(i32::try_from(child).ok().map(Pid::from_raw));
            found.extend(descendants(child));
        }
    }
    found
}

/// Shows what a run amounts to, and says how the program ends.
pub(crate) fn conclude(
    run: &RunFolder,
    subject: &SubjectArgs,
    ended: Ended,
) -> Result<(), Failure> {
    let summary = summarise(run)?;
    let died = !ended.interrupted && ended.code != Some(0);
    // Without a single walk there is nothing to show, and the child has said why.
    if !died || summary.walks > 0 {
        if subject.json {
            crate::print_json(&summary)?;
        } else {
            crate::print(end_screen(&summary).as_bytes())?;
        }
    }
    if ended.interrupted {
        return Err(Failure::said(INTERRUPTED));
    }
    if died {
        let strict = Settings::from_environment()?.strict;
        return Err(early_end(
            last_exit_code(run).or(ended.code),
            strict,
            summary.walks,
        ));
    }
    judge(&summary, subject.fail_on)
}

/// What the last process of a run ended with: cargo-fuzz makes a 1 of whatever the fuzzer ended with.
fn last_exit_code(run: &RunFolder) -> Option<i32> {
    run.processes().ok()?.last()?.exit_code
}

/// How the program ends if the run did not reach its end.
fn early_end(code: Option<i32>, strict: bool, walks: u64) -> Failure {
    match code {
        Some(2) => Failure::said(USAGE),
        _ if walks == 0 => Failure::said(ENVIRONMENT),
        // A strict run aborts at its first finding; nobody watches over it and keeps its exit code.
        Some(1) if strict => Failure::said(FINDINGS),
        _ => Failure::environment("the run ended early; its last words stand above"),
    }
}

/// How the program ends by what was found.
pub(crate) fn judge(summary: &Summary, fail_on: FailOn) -> Result<(), Failure> {
    let fails = match fail_on {
        FailOn::Never => false,
        FailOn::Bug => summary.bugs > 0,
        FailOn::Any => summary.bugs + summary.robustness > 0,
    };
    if summary.verdict == Verdict::Unknown {
        return Err(Failure::said(UNKNOWN));
    }
    if fails {
        Err(Failure::said(FINDINGS))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_never_a_success() {
        let code = |code, strict, walks| early_end(code, strict, walks).code;
        assert_eq!(code(Some(3), false, 0), ENVIRONMENT);
        assert_eq!(code(Some(2), false, 0), USAGE);
        // The session failed, the JVM died too often, libFuzzer gave up: after some walks.
        for ended in [Some(3), None, Some(1)] {
            assert_eq!(code(ended, false, 1000), ENVIRONMENT);
        }
        assert_eq!(code(Some(1), true, 1000), FINDINGS);
        assert_eq!(code(Some(3), true, 1000), ENVIRONMENT);
    }
}
