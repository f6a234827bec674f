//! `walkfuzz fuzz`: cargo-fuzz with everything that it needs to be told, and a summary at the end.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use walkfuzz_harness::quoted;
use walkfuzz_record::RunFolder;
use walkfuzz_record::machine::cargo_target;

use crate::child::{Ended, conclude, environment, jvm_options, make_run, run as run_child};
use crate::cli::FuzzArgs;
use crate::failure::{ENVIRONMENT, Failure, INTERRUPTED};
use crate::{checkout, tools};

/// How the names of targets begin that need no JVM and leave no run folder.
const PARSERS: &str = "parse_";

pub(crate) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    let root = checkout::root()?;
    if !root
        .join("fuzz/fuzz_targets")
        .join(format!("{}.rs", args.target))
        .is_file()
    {
        return Err(Failure::usage(format_args!(
            "no target {} (see `cargo fuzz list`)",
            args.target
        )));
    }
    tools::need_cargo_fuzz()?;
    if args.target.starts_with(PARSERS) {
        return run_parser(args, &root);
    }
    let options = jvm_options(&args.subject)?;
    if args.dry_run {
        let mut command = cargo_fuzz(args, &root, None)?;
        command.envs(environment(&args.subject, &options));
        return crate::print(format!("{}\n", shown(&command)).as_bytes());
    }
    // Beforehand, so that the run's clock does not count it.
    build(args, &root)?;
    let folder = make_run("fuzz", &args.subject, &options, None)?;
    let mut command = cargo_fuzz(args, &root, Some(&folder))?;
    command
        .envs(environment(&args.subject, &options))
        .env("WALKFUZZ_RUN", folder.path());
    eprintln!(
        "walkfuzz: JDK {}; run folder {}",
        options.jdk,
        folder.path().display()
    );
    let ended = run_child(command, args.subject.json)?;
    conclude(&folder, &args.subject, ended)
}

fn run_parser(args: &FuzzArgs, root: &Path) -> Result<(), Failure> {
    let command = cargo_fuzz(args, root, None)?;
    if args.dry_run {
        return crate::print(format!("{}\n", shown(&command)).as_bytes());
    }
    match run_child(command, args.subject.json)? {
        Ended {
            interrupted: true, ..
        } => Err(Failure::said(INTERRUPTED)),
        Ended { code: Some(0), .. } => Ok(()),
        Ended { .. } => Err(Failure::said(ENVIRONMENT)),
    }
}

fn build(args: &FuzzArgs, root: &Path) -> Result<(), Failure> {
    let mut command = Command::new("cargo");
    command
        .args(["fuzz", "build", "-s", &name(args.sanitizer)])
        .args(cargo_target())
        .arg(&args.target)
        .current_dir(root);
    match run_child(command, args.subject.json)? {
        Ended {
            interrupted: true, ..
        } => Err(Failure::said(INTERRUPTED)),
        Ended { code: Some(0), .. } => Ok(()),
        Ended { .. } => Err(Failure::environment(
            "the target does not build; cargo's message stands above",
        )),
    }
}

/// What the command line calls a value.
fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The command, in the checkout's root: there cargo reads `.cargo/config.toml`.
fn cargo_fuzz(args: &FuzzArgs, root: &Path, run: Option<&RunFolder>) -> Result<Command, Failure> {
    let mut command = Command::new("cargo");
    command
        .args(["fuzz", "run", "-s", &name(args.sanitizer)])
        .args(cargo_target())
        .arg(&args.target)
        .current_dir(root);
    if let Some(corpus) = corpus(args, run)? {
        command.arg(corpus);
    }
    command.arg("--").args([
        format!("-max_total_time={}", args.seconds),
        format!("-seed={}", args.subject.seed),
        "-print_final_stats=1".to_owned(),
    ]);
    if !args.target.starts_with(PARSERS) {
        // libFuzzer's line for each new input would bury ours.
        command.args(["-verbosity=0", "-print_funcs=0"]);
    }
    command.args(&args.libfuzzer);
    command
        .env("WALKFUZZ_ENGINE", name(args.engine))
        .env("WALKFUZZ_BLIND", if args.blind { "1" } else { "0" });
    Ok(command)
}

/// A corpus other than cargo-fuzz's own; it must exist.
fn corpus(args: &FuzzArgs, run: Option<&RunFolder>) -> Result<Option<OsString>, Failure> {
    let folder = match (&args.corpus, args.blind, run) {
        (Some(corpus), ..) => std::path::absolute(corpus).unwrap_or_else(|_| corpus.clone()),
        // Nothing to read, and what is written is of no use.
        (None, true, Some(run)) => run.path().join("corpus"),
        _ => return Ok(None),
    };
    if !args.dry_run {
        std::fs::create_dir_all(&folder).map_err(|error| {
            Failure::environment(format_args!("cannot make {}: {error}", folder.display()))
        })?;
    }
    Ok(Some(folder.into_os_string()))
}

/// A command as a shell takes it.
fn shown(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| {
            Some(format!(
                "{}={}",
                name.to_string_lossy(),
                quoted(&value?.to_string_lossy())
            ))
        })
        .collect();
    words.push(quoted(&command.get_program().to_string_lossy()));
    words.extend(
        command
            .get_args()
            .map(|word| quoted(&word.to_string_lossy())),
    );
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let mut command = Command::new("cargo");
        command.args(["fuzz", "a b", "it's"]).env("X", "1");
        assert_eq!(shown(&command), r"X=1 cargo fuzz 'a b' 'it'\''s'");
    }
}
