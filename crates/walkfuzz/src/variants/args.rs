//! The command line of `walkfuzz variants`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::duration;

/// How Java code is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompilerMode {
    /// As the JVM likes.
    Default,
    /// The interpreter alone.
    Int,
    /// C1 without profiling.
    C1,
    /// C2, nothing in between.
    C2,
    /// Compiled before the first call.
    Xcomp,
}

impl CompilerMode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            CompilerMode::Default => "default",
            CompilerMode::Int => "int",
            CompilerMode::C1 => "c1",
            CompilerMode::C2 => "c2",
            CompilerMode::Xcomp => "xcomp",
        }
    }

    /// The JVM's option for it.
    pub(crate) const fn option(self) -> Option<&'static str> {
        match self {
            CompilerMode::Default => None,
            CompilerMode::Int => Some("-Xint"),
            CompilerMode::C1 => Some("-XX:TieredStopAtLevel=1"),
            CompilerMode::C2 => Some("-XX:-TieredCompilation"),
            CompilerMode::Xcomp => Some("-Xcomp"),
        }
    }
}

/// HotSpot's collectors.
pub(crate) const COLLECTORS: [&str; 6] = ["serial", "parallel", "g1", "z", "shenandoah", "epsilon"];

#[derive(Debug, Args)]
#[command(after_help = "\
FINDING is a finding's id, RUNFOLDER:ID, an artifact, a capsule, or an entry of the corpus.

Examples:
    walkfuzz variants 321812653c41
    walkfuzz variants 321812653c41 --jdks 17,25 --gc g1,z --modes default,int
    walkfuzz variants corpus/regression/JDK-8313796.toml --range 17 --install")]
pub(crate) struct VariantsArgs {
    /// The finding, the capsule, or the corpus entry.
    pub(crate) finding: String,
    /// JDKs, by folder or version, separated by commas; every one installed when left out.
    #[arg(long, value_delimiter = ',', conflicts_with = "range")]
    pub(crate) jdks: Vec<String>,
    /// Every patch level of a feature version: first bad, last good, fixed in. The JVM's own collector and mode unless said otherwise.
    #[arg(long, value_parser = clap::value_parser!(u32).range(11..=99))]
    pub(crate) range: Option<u32>,
    /// Bring the patch levels that are not installed.
    #[arg(long, requires = "range")]
    pub(crate) install: bool,
    /// Collectors, separated by commas; every one when left out.
    #[arg(long, value_delimiter = ',', value_parser = COLLECTORS)]
    pub(crate) gc: Vec<String>,
    /// Compiler modes, separated by commas; every one when left out.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) modes: Vec<CompilerMode>,
    /// Moments of the finding's class that each cell tries.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) moments: u64,
    /// How long, all in all: `90s`, `10m`, `1h`.
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub(crate) budget: Duration,
    /// Say which JVMs would be tried, and end.
    #[arg(long, conflicts_with = "json")]
    pub(crate) dry_run: bool,
    /// Where run folders are.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// Print JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
}
