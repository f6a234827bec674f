//! The command line of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::SubjectArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Untouched contexts are walked on held threads, perturbed ones in frozen copies of them. What the walkers differ in is told by tier; the
reasons that are known are counted apart (docs/compare.md). JVMTI is asked too, of threads that stand still.

Examples:
    walkfuzz compare
    walkfuzz compare --walkers agct,reference --jdk 21 --seconds 60
    walkfuzz compare --walkers agct,./libmine.so
    walkfuzz compare --contexts 1000000 --gc z --json
    walkfuzz compare --fail-on bug
    walkfuzz compare walkfuzz-runs/RUN/capsules/ID.wfcap

A capsule holds one context: what its walker and the reference walker say of it is told without a JVM, and options of one say nothing.

Exit codes: 0 compared, 1 untouched contexts differ, or JVMTI contradicts a walk, for no known reason and --fail-on asked for it (any: also contexts that the code
passes through) or a capsule's walk ends otherwise than it says, 2 wrong usage, 3 the environment or the capsule lacks something, 4 unknown: too few untouched
contexts in which both give frames, or a capsule needs a libjvm that is not here")]
pub(crate) struct CompareArgs {
    /// A capsule from a session with the reference walker as its oracle; a JVM is started when left out.
    #[arg(value_name = "CAPSULE", conflicts_with_all = ["seconds", "contexts", "in_copy", "depth", "jvmti", "engine", "dry_run"])]
    pub(crate) capsule: Option<PathBuf>,
    /// Which two: agct, reference, or a library that gives method ids, PATH/LIB.so or PATH/LIB.so@sha256:HEX. Those that a capsule holds when left
    /// out, without one agct,reference.
    #[arg(long, value_delimiter = ',')]
    pub(crate) walkers: Option<Vec<String>>,
    /// How long, at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: u32,
    /// How many contexts, at most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) contexts: Option<u64>,
    /// Perturbed contexts in each frozen copy; 0: untouched contexts alone.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    pub(crate) in_copy: u32,
    /// The most frames of a walk.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub(crate) depth: u16,
    /// Threads that wait or are in native code, of which JVMTI is asked as well; 0: none. It takes at most a quarter of the time.
    #[arg(long, value_name = "ASKED", default_value_t = 400, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    pub(crate) jvmti: u32,
    /// How threads are held; step where the processor can.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<EngineChoice>,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Print the command that would run, and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How threads are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// At each instruction.
    Step,
    /// Where a timer's signal meets them.
    Live,
}
