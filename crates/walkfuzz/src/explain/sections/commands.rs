//! What to type next.

use std::path::Path;

use walkfuzz_harness::quoted;
use walkfuzz_record::{Finding, OutcomeKind, RunFolder};

use super::{is_capsule_alone, none};
use crate::explain::page::{Block, Section};

/// Where run folders are if nothing else is said.
const RUNS: &str = "walkfuzz-runs";

/// The finding as the other subcommands take it from here.
pub(super) struct Target(String);

impl Target {
    /// A path as the user gave it; else the whole id, and where runs are if they are elsewhere.
    pub(super) fn of(finding: &Finding, run: Option<&RunFolder>, named: &str, runs: &Path) -> Self {
        if run.is_none() || Path::new(named).exists() {
            return Self(quoted(named));
        }
        let name = match named.rsplit_once(':') {
            Some((folder, _)) => quoted(&format!("{folder}:{}", finding.id)),
            None => finding.id.clone(),
        };
        let runs = runs.display().to_string();
        Self(match &*runs {
            RUNS => name,
            runs => format!("{name} --runs {}", quoted(runs)),
        })
    }

    /// A command about it.
    pub(super) fn command(&self, subcommand: &str) -> String {
        format!("walkfuzz {subcommand} {}", self.0)
    }
}

pub(super) fn commands(finding: &Finding, run: Option<&RunFolder>, target: &Target) -> Section {
    let in_run = |path: &String| Some(run?.named(path).ok()?.display().to_string());
    let mut commands = Vec::new();
    // As this page finds the run, which may have been moved since the finding was written down.
    let capsule = finding.capsule.path.as_ref().and_then(in_run);
    match capsule {
        Some(file) => commands.push(format!("walkfuzz replay {}", quoted(&file))),
        None => commands.extend(recorded(finding, true)),
    }
    let has_input = !finding.input.bytes.is_empty() || finding.input.artifact.is_some();
    if has_input || is_capsule_alone(finding) {
        commands.push(target.command("repro"));
    }
    if finding.outcome.kind == OutcomeKind::Fault {
        commands.push(target.command("export"));
    }
    if has_input {
        commands.push(target.command("variants"));
    }
    commands.extend(recorded(finding, false));
    let blocks = if commands.is_empty() {
        none("No input was kept: nothing runs it again.")
    } else {
        vec![Block::Commands(commands)]
    };
    Section::new("Commands", blocks)
}

/// Those that were written down with the finding: replays, or the others.
fn recorded(finding: &Finding, replays: bool) -> impl Iterator<Item = String> {
    let is_replay = |command: &&String| command.starts_with("walkfuzz replay ");
    let commands = finding.commands.iter();
    commands
        .filter(move |command| is_replay(command) == replays)
        .cloned()
}
