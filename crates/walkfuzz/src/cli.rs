//! The command line, as data.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use walkfuzz_context::Arch;

use crate::compare::CompareArgs;
use crate::corpus::args::CorpusCommand;
use crate::interpose::args::InterposeArgs;
use crate::stress::args::{MergeArgs, StressArgs};
use crate::variants::args::VariantsArgs;

/// What stands under the help text.
const EXIT_CODES: &str = "\
Exit codes:
    0  it worked (findings alone do not change that)
    1  the answer is no: findings that --fail-on or --fail asked to fail on; repro: not reproduced, or no walker's crash;
       replay: it ended otherwise; compare: --fail-on; corpus check: an entry is not as expected; snapshots walk: the chains differ
    2  wrong usage: an argument, or a file or folder that is not what it should be
    3  the environment lacks something; the message names the command that brings it
    4  unknown: nothing was proven. fuzz, step, compare: too few walks; replay: needs a libjvm that is not here; variants: no cell was
       tried; export --run: it never crashed; repro: too little to go on; corpus check: a JDK is missing; snapshots take: none
  130  interrupted; what was found so far is kept";

/// Fuzzing and stress tests for asynchronous JVM stack walkers.
#[derive(Debug, Parser)]
#[command(name = "walkfuzz", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this machine can run; for each missing thing the command that brings it.
    Doctor(OutputArgs),
    /// List or install JDKs.
    #[command(subcommand)]
    Jdk(JdkCommand),
    /// Fuzz a target for a while and show what was found.
    Fuzz(FuzzArgs),
    /// Walk at every instruction of Java code, untouched contexts only, no fuzzer.
    Step(StepArgs),
    /// Two walkers side by side on the same contexts: where they agree, and where not.
    Compare(CompareArgs),
    /// Show a run folder: for people, or as JSON.
    Report(ReportArgs),
    /// Walk what a capsule holds again, without a JVM, and say whether it ends the same.
    Replay(ReplayArgs),
    /// Look for the smallest perturbation that does the same in a capsule, and keep no word that it does not need.
    Minimise(MinimiseArgs),
    /// Take snapshots: capsules that walks from other registers are made in, without a JVM.
    #[command(subcommand)]
    Snapshots(SnapshotsCommand),
    /// Make it happen again: a finding, a run, an input, a capsule, a killed process's record, a JVM's crash log.
    Repro(ReproArgs),
    /// Write a finding as a folder that crashes the same JVM with cc and javac alone.
    Export(ExportArgs),
    /// Explain a finding on one page: for the terminal, a browser or a bug tracker.
    Explain(ExplainArgs),
    /// Measure: guard, loops, step engine, start-up, guidance; every figure beside its baseline.
    Bench(BenchArgs),
    /// Try a finding on every installed JDK, collector and compiler mode; or on the patch levels of one JDK.
    Variants(VariantsArgs),
    /// Sample real programs over a matrix of JVMs, flags, walkers, clocks and workloads; a verdict for each cell.
    Stress(Box<StressArgs>),
    /// Stand before a shipped profiler's signal handlers, and hand them perturbed contexts.
    Interpose(Box<InterposeArgs>),
    /// Put the shards of a stress run together.
    Merge(MergeArgs),
    /// Keep findings as files, and replay them.
    #[command(subcommand)]
    Corpus(CorpusCommand),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// What others run in a process of its own: a JVM starts once per process.
    #[command(subcommand, hide = true)]
    InJvm(InJvm),
}

impl Command {
    /// Whether `--json` was given.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Doctor(args) | Command::Jdk(JdkCommand::List(args)) => args.json,
            Command::Fuzz(args) => args.subject.json,
            Command::Step(args) => args.subject.json,
            Command::Compare(args) => args.subject.json,
            Command::Report(args) => args.json,
            Command::Replay(args) => args.json,
            Command::Minimise(args) => args.json,
            Command::Snapshots(SnapshotsCommand::Take(args)) => args.json,
            Command::Snapshots(SnapshotsCommand::Walk(args)) => args.json,
            Command::Repro(args) => args.json,
            Command::Export(args) => args.json,
            Command::Explain(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Variants(args) => args.json,
            Command::Stress(args) => args.json,
            Command::Interpose(args) => args.subject.json,
            Command::Merge(args) => args.json,
            Command::Corpus(CorpusCommand::Check(args)) => args.json,
            Command::Jdk(_)
            | Command::Snapshots(SnapshotsCommand::Live(_))
            | Command::Corpus(CorpusCommand::Add(_))
            | Command::Completions { .. }
            | Command::Man
            | Command::InJvm(_) => false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// An architecture, as the command line calls it.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ArchArg {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

impl From<ArchArg> for Arch {
    fn from(arch: ArchArg) -> Self {
        match arch {
            ArchArg::X86_64 => Arch::X86_64,
            ArchArg::Aarch64 => Arch::Aarch64,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum JdkCommand {
    /// The JDKs on this machine, and those that can be installed.
    List(OutputArgs),
    /// Install a pinned JDK into the cache folder.
    #[command(
        after_help = "Examples:\n    walkfuzz jdk install 21\n    walkfuzz jdk install 17.0.9"
    )]
    Install {
        /// A feature version (17) or a full one (17.0.9).
        version: String,
        /// For which architecture, if not for this one: what an emulator shall run.
        #[arg(long, value_enum)]
        arch: Option<ArchArg>,
        /// Say what would be installed, and where to.
        #[arg(long)]
        dry_run: bool,
    },
    /// Install the JDK that would be used, unless it is there; 21 if nothing says which.
    Ensure {
        /// Which JDK: a folder, a feature version or a full version.
        #[arg(long, env = "WALKFUZZ_JDK")]
        jdk: Option<String>,
    },
}

/// Which JVM to walk, and where what is found is kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct SubjectArgs {
    /// Which JDK: a folder, a feature version or a full version.
    #[arg(long, env = "WALKFUZZ_JDK")]
    pub(crate) jdk: Option<String>,
    /// Which collector; the JVM's own choice when left out.
    #[arg(long, env = "WALKFUZZ_GC", value_parser = ["serial", "parallel", "g1", "z", "shenandoah", "epsilon"])]
    pub(crate) gc: Option<String>,
    /// Seed of the workload, and of libFuzzer.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u32,
    /// Where the run folder is made.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// End with exit code 1 on such findings.
    #[arg(long, value_enum, default_value_t = FailOn::Never)]
    pub(crate) fail_on: FailOn,
    /// Print the summary as JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What makes a run end with exit code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Findings never do.
    Never,
    /// A finding whose verdict is "bug".
    Bug,
    /// Any finding.
    Any,
}

/// How threads are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// A thread that is held in its handler serves many inputs.
    Live,
    /// A moment at each instruction.
    Step,
    /// A forked copy for each input: deterministic and slow.
    Frozen,
}

/// cargo-fuzz's sanitizers that make sense beside a JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// AddressSanitizer.
    Address,
    /// None: faster.
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz fuzz
    walkfuzz fuzz walk_ucontext --seconds 600 --jdk 17.0.9 --gc z
    walkfuzz fuzz --engine step --seconds 30
    walkfuzz fuzz --json --fail-on bug -- -max_len=512")]
pub(crate) struct FuzzArgs {
    /// The target.
    #[arg(default_value = "walk_ucontext")]
    pub(crate) target: String,
    /// How long.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=2_592_000))]
    pub(crate) seconds: u32,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// How threads are held.
    #[arg(long, value_enum, default_value_t = EngineName::Live)]
    pub(crate) engine: EngineName,
    /// Which sanitizer the target is built with.
    #[arg(long, value_enum, default_value_t = Sanitizer::None)]
    pub(crate) sanitizer: Sanitizer,
    /// No corpus and no feedback: the baseline that guidance is measured against.
    #[arg(long)]
    pub(crate) blind: bool,
    /// Keep the corpus here instead of `fuzz/corpus/TARGET`.
    #[arg(long, conflicts_with = "blind")]
    pub(crate) corpus: Option<PathBuf>,
    /// Print the command that would run, and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Further arguments for libFuzzer.
    #[arg(last = true)]
    pub(crate) libfuzzer: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n    walkfuzz step --walks 100000000 --jdk 21\n    walkfuzz step --walks 1000000 --json"
)]
pub(crate) struct StepArgs {
    /// How many walks.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) walks: u64,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsCommand {
    /// Take snapshots of healthy walks, spread over what threads do.
    Take(TakeArgs),
    /// Walk snapshots from generated registers, without a JVM and a fuzzer: rate, and a hash over all outcomes.
    Walk(WalkArgs),
    /// Try what a run found in snapshots in a running JVM of the same build, at other moments.
    Live(LiveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
`walkfuzz snapshots walk` does this at its end; `walk_capsule` has no JVM and leaves it to you.

Examples:
    walkfuzz snapshots live walkfuzz-runs/20260101-120000-77
    walkfuzz snapshots live walkfuzz-runs/20260101-120000-77 --seconds 300")]
pub(crate) struct LiveArgs {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// Seconds that it may take.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=86_400))]
    pub(crate) seconds: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The same seed and snapshots give the same chain. What the puppet confirms is then tried in a running JVM of the same build, at
other moments.

Examples:
    walkfuzz snapshots walk --walks 5000000
    walkfuzz snapshots walk --seed 7 --repeat 3 --json")]
pub(crate) struct WalkArgs {
    /// The snapshots' folder.
    #[arg(long, default_value = "walkfuzz-runs/snapshots")]
    pub(crate) snapshots: PathBuf,
    /// How many walks.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) walks: u64,
    /// Seed of what is generated.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often, each time in a process of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// One batch in so many also edits words of the stack in the snapshot: a class of its own, counted apart.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) memory: Option<u32>,
    /// Seconds that trying the findings in a running JVM may take.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(3..=86_400))]
    pub(crate) live: u32,
    /// Try no finding in a running JVM.
    #[arg(long)]
    pub(crate) no_live: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A snapshot is some tens of megabytes of one JVM's memory: local, and not for others' eyes.

Examples:
    walkfuzz snapshots take --count 16
    walkfuzz snapshots take --count 8 --jdk 17 --gc serial,g1,z --out snapshots")]
pub(crate) struct TakeArgs {
    /// How many, for each collector.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) count: u32,
    /// Which JDK: a folder, a feature version or a full version.
    #[arg(long, env = "WALKFUZZ_JDK")]
    pub(crate) jdk: Option<String>,
    /// Which collectors, one after the other; the JVM's own choice when left out.
    #[arg(long, value_delimiter = ',', value_parser = ["serial", "parallel", "g1", "z", "shenandoah", "epsilon"])]
    pub(crate) gc: Vec<String>,
    /// The folder that they are put into.
    #[arg(long, default_value = "walkfuzz-runs/snapshots")]
    pub(crate) out: PathBuf,
    /// Seconds that each collector's may take.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ends with: reproduced (exit code 0), not reproduced or not a walker crash (1), unknown (4).

Examples:
    walkfuzz repro 6379944d61ec
    walkfuzz repro hs_err_pid4711.log --budget 5m
    walkfuzz repro walkfuzz-runs/RUN --budget 10m --json
    walkfuzz repro walkfuzz-runs/RUN/record-4711.map --dry-run")]
pub(crate) struct ReproArgs {
    /// A finding's id (or its beginning), a run folder, an input, a capsule, a record (`record-*.map`), or a crash log (`hs_err_pid*.log`).
    pub(crate) thing: String,
    /// How long to try, all in all: `90s`, `5m`, `1h`.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) budget: Duration,
    /// Another JDK than the original's: a folder, a feature version or a full version.
    #[arg(long)]
    pub(crate) jdk: Option<String>,
    /// Another collector than the original's.
    #[arg(long, value_parser = ["serial", "parallel", "g1", "z", "shenandoah", "epsilon"])]
    pub(crate) gc: Option<String>,
    /// Where run folders are, and where a new one is made.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// Say what would be done, and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the answer as JSON; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `90s`, `5m`, `1h 30m`; from a second to 30 days: sums of longer ones would not fit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
    let span: jiff::SignedDuration = text.parse().map_err(|_| "a time such as 90s, 5m or 1h")?;
    let duration = Duration::try_from(span).unwrap_or_default();
    if duration < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    if duration > LONGEST {
        return Err("at most 720h, which are 30 days".to_owned());
    }
    Ok(duration)
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz report
    walkfuzz report --findings
    walkfuzz report walkfuzz-runs/RUN --json
    walkfuzz report walkfuzz-runs/RUN --html > report.html
    walkfuzz report --compare LAST-NIGHT THIS-NIGHT --fail-on bug
    walkfuzz report --trend nights/*")]
pub(crate) struct ReportArgs {
    /// The run folder; the newest one when left out. Two with --compare, any number with --trend.
    #[arg(value_name = "RUN")]
    pub(crate) run: Vec<PathBuf>,
    /// Where run folders are.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// What changed from the first stress run to the second, and whether that is more than chance.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Stress runs in the order of their times.
    #[arg(long, conflicts_with = "compare")]
    pub(crate) trend: bool,
    /// Print JSON: the summary, and every finding in full.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a stress run as a page; its links lead into the run's folder.
    #[arg(long, conflicts_with_all = ["json", "compare", "trend"])]
    pub(crate) html: bool,
    /// Print a stress run as JUnit XML.
    #[arg(long, conflicts_with_all = ["json", "html", "compare", "trend"])]
    pub(crate) junit: bool,
    /// Print every finding in full.
    #[arg(long)]
    pub(crate) findings: bool,
    /// End with exit code 1 on such findings; of a stress run cells that fail, of a comparison turns for the worse.
    #[arg(long, value_enum, default_value_t = FailOn::Never)]
    pub(crate) fail_on: FailOn,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz replay walkfuzz-runs/RUN/capsules/0123456789ab.wfcap
    walkfuzz replay FILE --times 1000
    walkfuzz replay FILE --times 100000 --loop --json
    walkfuzz replay FILE --refer SMALLER.wfcap

Exit codes: 0 every walk ended as the capsule says, 1 one did not, 2 the file is no capsule that may be replayed,
3 this machine does not allow it, 4 unknown: pages of a libjvm are needed that is not here")]
pub(crate) struct ReplayArgs {
    /// The capsule.
    pub(crate) file: PathBuf,
    /// How often.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) times: u64,
    /// Walk again in the same process, instead of in a fresh one each time.
    #[arg(long = "loop")]
    pub(crate) looped: bool,
    /// Walk in a sandboxed child at full speed, without ptrace. The judge is the replay without this.
    #[arg(long, conflicts_with = "looped")]
    pub(crate) in_process: bool,
    /// Write the capsule again, with pages that are unchanged in a libjvm on this machine by reference.
    #[arg(long, value_name = "FILE")]
    pub(crate) refer: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz minimise walkfuzz-runs/RUN/capsules/ID.wfcap
    walkfuzz minimise FILE --out smaller.wfcap

Only what the file holds is walked: a candidate that reads another page is not taken. Findings in a run folder are
minimised already.")]
pub(crate) struct MinimiseArgs {
    /// The capsule of a fault, or of wrong frames.
    pub(crate) file: PathBuf,
    /// Write the smallest form there.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    walkfuzz export 137e88
    walkfuzz export 20260301T093000.123Z-4711:137e88 --out reproducer
    walkfuzz export walkfuzz-runs/RUN/artifacts/HASH --json
    walkfuzz export 137e88 --run --attempts 20
    sh export-137e88e015f9/run.sh /usr/lib/jvm/java-17-openjdk-amd64")]
pub(crate) struct ExportArgs {
    /// The finding: its id, the beginning of it, RUNFOLDER:ID, its artifact, a capsule, or an entry of the corpus that has one.
    pub(crate) finding: String,
    /// The folder to write; `export-ID` when left out. It must be new or empty.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Run what was written on the finding's JDK, and say how often it crashed there.
    #[arg(long)]
    pub(crate) run: bool,
    /// How often it is run.
    #[arg(long, default_value_t = 5, requires = "run", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) attempts: u32,
    /// How long each attempt may take: `20s`.
    #[arg(long, default_value = "30s", requires = "run", value_parser = duration)]
    pub(crate) each: Duration,
    /// Where run folders are.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n    walkfuzz explain c9308f\n    walkfuzz explain c9308f --out finding.html\n    walkfuzz explain walkfuzz-runs/RUN:c9308f --format markdown"
)]
pub(crate) struct ExplainArgs {
    /// A finding: its id or the beginning of it, RUNFOLDER:ID, its artifact, a capsule, or an entry of the corpus that has one.
    pub(crate) finding: String,
    /// How the page looks; by --out's name when left out, else text.
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExplainFormat>,
    /// Write the page to this file.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Where run folders are.
    #[arg(long, default_value = "walkfuzz-runs")]
    pub(crate) runs: PathBuf,
    /// The folder of the finding's JDK, if walkfuzz does not find it by itself.
    #[arg(long)]
    pub(crate) jdk: Option<PathBuf>,
    /// Print JSON: the finding, and the page's sections.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// How the page of a finding looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// For a terminal.
    Text,
    /// For a bug tracker.
    Markdown,
    /// One file for a browser.
    Html,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n    walkfuzz bench guard start bare step\n    walkfuzz bench guided --jdk 17 --seconds 30 --rounds 5"
)]
pub(crate) struct BenchArgs {
    /// What to measure; everything when left out.
    #[arg(value_enum)]
    pub(crate) parts: Vec<BenchPart>,
    /// Which JDK.
    #[arg(long, env = "WALKFUZZ_JDK")]
    pub(crate) jdk: Option<String>,
    /// Seconds for each part that runs a JVM.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: u32,
    /// Runs of each side in the comparison of guided and blind fuzzing; turns of each profiler in `stress`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parts of `bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchPart {
    /// Guarded against direct calls; recovery against the kernel's floor.
    Guard,
    /// From the start of the process to its first input; resident memory.
    Start,
    /// The walker in a plain guarded loop: the baseline of the following.
    Bare,
    /// Generated batches through a session, without libFuzzer.
    Loop,
    /// Untouched walks at every instruction.
    Step,
    /// Guided fuzzing under libFuzzer: walks per second, the walker's share.
    Fuzz,
    /// Guided against blind fuzzing: sites found, and time to each.
    Guided,
    /// From a fault to its capsule, replays, crash logs.
    Repro,
    /// Walks of snapshots, without a JVM; whether they end the same three times.
    Snapshots,
    /// The sampler: what its clocks deliver, what a sample costs beside async-profiler's.
    Stress,
    /// The reference walker beside AsyncGetCallTrace, frame by frame.
    Walkers,
    /// ASGST: an iterator beside the reference walker, frame by frame.
    Asgst,
}

impl BenchPart {
    pub(crate) const ALL: [BenchPart; 12] = [
        BenchPart::Guard,
        BenchPart::Start,
        BenchPart::Bare,
        BenchPart::Loop,
        BenchPart::Step,
        BenchPart::Fuzz,
        BenchPart::Guided,
        BenchPart::Repro,
        BenchPart::Snapshots,
        BenchPart::Stress,
        BenchPart::Walkers,
        BenchPart::Asgst,
    ];
}

/// What happens in a process of its own. Chosen by the environment: JDK, collector, run folder, engine, seed.
#[derive(Debug, Subcommand)]
pub(crate) enum InJvm {
    /// A supervised run of untouched walks.
    Step {
        /// How many.
        walks: u64,
    },
    /// The guard's costs; needs no JVM.
    Guard,
    /// What the JVM offers beyond JVMTI.
    Extensions,
    /// One input.
    Start,
    /// The bare loop.
    Bare {
        /// How long.
        seconds: u32,
    },
    /// What a frame costs the session's walker and the reference walker.
    Walkers {
        /// How long.
        seconds: u32,
    },
    /// What ASGST's safepoint queue costs and completes.
    Queue {
        /// How long.
        seconds: u32,
    },
    /// What a frame costs the reference walker and an ASGST iterator.
    Asgst {
        /// How long.
        seconds: u32,
    },
    /// Generated batches.
    Loop {
        /// How long.
        seconds: u32,
    },
    /// A finding's walks at many moments; the request is JSON.
    Trial {
        /// What to try.
        request: String,
    },
    /// Two walkers side by side; the request is JSON.
    Compare {
        /// What to do.
        request: String,
    },
    /// A supervised survey without libFuzzer.
    Campaign {
        /// How long.
        seconds: u32,
        /// Nothing is bred: only the inputs are walked.
        #[arg(long)]
        only_given: bool,
        /// Inputs to begin with.
        seeds: Vec<PathBuf>,
    },
    /// Snapshots.
    Snapshots {
        /// How many.
        count: u32,
        /// Seconds that they may take.
        seconds: u32,
        /// Where to.
        out: PathBuf,
    },
    /// Walks of snapshots; needs no JVM.
    WalkSnapshots {
        /// How many.
        walks: u64,
        /// Of what is generated.
        seed: u64,
        /// The snapshots' folder.
        folder: PathBuf,
    },
    /// Ends what a stress run's cells leave if the run itself is killed; needs no JVM. Waits for the end of its standard input.
    Warden {
        /// The run's process.
        driver: u32,
    },
    /// Untouched walks, unsupervised.
    Natural {
        /// How long.
        seconds: u32,
    },
}
