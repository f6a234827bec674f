//! The command line of `walkfuzz corpus`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    /// Replay every entry on the JDKs that it speaks of, and move those whose state has changed.
    Check(CheckArgs),
    /// Make an entry of a finding.
    Add(AddArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ends with: all as expected (exit code 0), not as expected (1), something unknown (4): a missing JDK proves nothing.

Examples:
    walkfuzz corpus check
    walkfuzz corpus check JDK-8313796 --budget 10m
    walkfuzz corpus check --jdk 17 --dry-run --json")]
pub(crate) struct CheckArgs {
    /// Names of entries; all of them when left out.
    pub(crate) entries: Vec<String>,
    /// Only what can be tried on this JDK: a folder, a feature version or a full version.
    #[arg(long)]
    pub(crate) jdk: Option<String>,
    /// Only entries whose JDKs are all installed.
    #[arg(long)]
    pub(crate) installed: bool,
    /// How long, all in all: `90s`, `10m`, `1h`.
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub(crate) budget: Duration,
    /// Move and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The corpus.
    #[arg(long, default_value = "corpus")]
    pub(crate) corpus: PathBuf,
    /// Print JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz corpus add 321812653c41
    walkfuzz corpus add 321812653c41 --name JDK-8313796 --issue JDK-8313796 --fixed 17.0.9 --same-instruction")]
pub(crate) struct AddArgs {
    /// The finding: its id, RUNFOLDER:ID or an artifact.
    pub(crate) finding: String,
    /// The entry's name; made of the JDK and the signature when left out.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The tracker's issue.
    #[arg(long, default_value = "")]
    pub(crate) issue: String,
    /// The version that has the fix: the entry then stands under `regression`.
    #[arg(long)]
    pub(crate) fixed: Option<String>,
    /// Only the same instruction counts, for functions with more than one fault.
    #[arg(long)]
    pub(crate) same_instruction: bool,
    /// Leave out the finding's capsule.
    #[arg(long)]
    pub(crate) no_capsule: bool,
    /// Moments at which a check tries it at most.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) moments: u64,
    /// Where run folders are.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// The corpus.
    #[arg(long, default_value = "corpus")]
    pub(crate) corpus: PathBuf,
}
