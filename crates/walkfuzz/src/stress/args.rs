//! The command line of `walkfuzz stress`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::duration;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz stress --profile smoke
    walkfuzz stress --profile nightly --budget 8h --shard 1/4
    walkfuzz stress --profile nightly --filter 'jdk=17 & !workload~spark' --dry-run
    walkfuzz stress --resume walkfuzz-runs/RUN
    walkfuzz stress --seconds 30 -- java -jar app.jar

FILTER: AXIS=VALUE, AXIS~TEXT, jdk<VERSION with ! & | ( ); the axes are jdk, collector, flags, walker, mode, workload, antagonists, clock,
interval.")]
pub(crate) struct StressArgs {
    /// The matrix and its limits: a name under ci/, or a file.
    #[arg(long, default_value = "smoke")]
    pub(crate) profile: String,
    /// Only cells that match, see below.
    #[arg(long)]
    pub(crate) filter: Option<String>,
    /// Print the plan and end.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Run part K of N of the plan.
    #[arg(long, value_name = "K/N", value_parser = walkfuzz_stress::plan::parse_shard)]
    pub(crate) shard: Option<(usize, usize)>,
    /// Go on with an interrupted run: the cells of this folder that are not finished.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["profile", "filter", "shard", "seed", "cells", "runs", "program"])]
    pub(crate) resume: Option<PathBuf>,
    /// Cells at a time.
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// How long the run may take, 90s or 8h.
    #[arg(long, value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// How many seconds each cell samples.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// At most so many cells.
    #[arg(long, value_parser = at_least_one)]
    pub(crate) cells: Option<usize>,
    /// Of the plan's order, and of what is drawn at random in each cell.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep the records and outputs of passing cells, too.
    #[arg(long)]
    pub(crate) keep: bool,
    /// A jar of the Renaissance benchmarks, for workloads named renaissance:NAME.
    #[arg(long, env = "RENAISSANCE_JAR", value_name = "JAR")]
    pub(crate) renaissance: Option<PathBuf>,
    /// A jar of the DaCapo benchmarks, for workloads named dacapo:NAME.
    #[arg(long, env = "DACAPO_JAR", value_name = "JAR")]
    pub(crate) dacapo: Option<PathBuf>,
    /// Where the run folder is made.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// End with exit code 1 if a cell fails.
    #[arg(long)]
    pub(crate) fail: bool,
    /// Print the results as JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
    /// A program of yours, sampled instead of the profile's workloads.
    #[arg(last = true)]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Merging all shards of a run gives the run in one piece. Some may be missing: the merged run says so.

Examples:
    walkfuzz merge shard-1/RUN shard-2/RUN --out night")]
pub(crate) struct MergeArgs {
    /// The shards' run folders.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// The folder to make; it must be new or empty.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Print the merged results as JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a run has at least 1 cell; --dry-run runs none".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}
