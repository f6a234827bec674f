//! walkfuzz: the program. Each subcommand is a module; what they share is the run of a child process (`child`) and the way to
//! fail (`failure`). Everything that walks is in `walkfuzz-harness`.
#![forbid(unsafe_code)]

mod async_profiler;
mod bench;
mod checkout;
mod child;
mod cli;
mod compare;
mod corpus;
mod doctor;
mod explain;
mod export;
mod extensions;
mod failure;
mod finding;
mod finding_of_capsule;
mod finding_words;
mod fuzz;
mod in_jvm;
mod interpose;
mod jdk;
mod minimise;
mod replay;
mod report;
mod repro;
mod snapshots;
mod step;
mod stress;
mod table;
mod tools;
mod variants;
mod visible;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command, SnapshotsCommand};
use crate::failure::Failure;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let json = command.wants_json();
    let done = match command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Jdk(command) => jdk::run(command),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Step(args) => step::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Minimise(args) => minimise::run(&args),
        Command::Snapshots(SnapshotsCommand::Take(args)) => snapshots::take(&args),
        Command::Snapshots(SnapshotsCommand::Walk(args)) => snapshots::walk(&args),
        Command::Snapshots(SnapshotsCommand::Live(args)) => snapshots::live(&args),
        Command::Repro(args) => repro::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Variants(args) => variants::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Interpose(args) => interpose::run(&args),
        Command::Merge(args) => stress::merge::run(&args),
        Command::Corpus(command) => corpus::run(&command),
        Command::Completions { shell } => completions(shell),
        Command::Man => manual(),
        Command::InJvm(what) => in_jvm::run(&what),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("error: {}", visible::visible(&failure.message));
            }
            if json && !ANSWERED.load(Ordering::Relaxed) {
                // A reader that does not read the answer does not change it.
                let _ = print_json(&failure.answer());
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Whether the one JSON value that stdout holds was printed.
static ANSWERED: AtomicBool = AtomicBool::new(false);

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "walkfuzz", &mut script);
    write_out(&script)
}

fn manual() -> Result<(), Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(Failure::environment)?;
    write_out(&page)
}

/// Writes text for people to stdout; see [`visible::visible`].
fn print(bytes: &[u8]) -> Result<(), Failure> {
    match std::str::from_utf8(bytes) {
        Ok(text) => write_out(visible::visible(text).as_bytes()),
        Err(_) => write_out(bytes),
    }
}

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::environment(
            format_args!("cannot write to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::environment)?;
    text.push('\n');
    ANSWERED.store(true, Ordering::Relaxed);
    write_out(text.as_bytes())
}
