//! The command line of `walkfuzz interpose`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walkfuzz_context::text::TextError;
use walkfuzz_context::{Arch, element};
use walkfuzz_harness::quoted;
use walkfuzz_jvm::{Jdk, Version};

use crate::cli::{SubjectArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = "\
MODE: words joined by commas.
    async-profiler: one of cpu, itimer, ctimer, wall; cstack=vm|vmx|dwarf|fp|no; interval=TIME; features=LIST (joined by +); safemode=N
    jfr (JDK 25): cpu-time; interval=TIME

Examples:
    walkfuzz interpose --mode itimer,cstack=vm --jdk 17
    walkfuzz interpose --mode wall,cstack=fp,interval=100us --workload streams --time 1m --json
    walkfuzz interpose --profiler jfr --jdk 25
    walkfuzz interpose --profiler jfr --jdk 25 --queue 'sp~bit5'")]
pub(crate) struct InterposeArgs {
    /// Which profiler.
    #[arg(long, value_enum, default_value_t = ProfilerName::AsyncProfiler)]
    pub(crate) profiler: ProfilerName,
    /// What it is told; see below. [default: cpu for async-profiler, cpu-time for jfr]
    #[arg(long, default_value = "")]
    pub(crate) mode: String,
    /// async-profiler's library, instead of the pinned one that scripts/get-async-profiler brings.
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program that is profiled; docs/workloads.md lists them.
    #[arg(long, default_value = "sorting")]
    pub(crate) workload: String,
    /// How long the program runs in each of the two runs.
    #[arg(long, value_parser = duration, default_value = "20s")]
    pub(crate) time: Duration,
    /// Calls with a perturbed context after each untouched one.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) perturb: u32,
    /// JFR alone: leaves its handler the context as it is, and edits an element of its queue of samples after each call: edits of sp, pc, bcp, ticks, period
    /// and size, or `random`. [default: none; contexts are perturbed]
    #[arg(long, value_name = "EDITS", conflicts_with = "perturb", value_parser = queue_edits)]
    pub(crate) queue: Option<String>,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
}

/// A profiler that can be stood before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfilerName {
    /// async-profiler, from Maven Central.
    AsyncProfiler,
    /// The JVM's flight recorder, its sampler by CPU time.
    Jfr,
}

/// Checks what the interposer will be told.
fn queue_edits(text: &str) -> Result<String, TextError> {
    if text != "random" {
        element::parse(Arch::NATIVE, text)?;
    }
    Ok(text.to_owned())
}

impl InterposeArgs {
    /// The line that makes these runs again, on this JDK.
    pub(crate) fn again(&self, jdk: &Jdk) -> String {
        let own = self
            .subject
            .jdk
            .as_deref()
            .filter(|jdk| jdk.contains('/'))
            .and_then(|folder| std::path::absolute(folder).ok());
        // A folder is kept: what has the same version elsewhere need not be the same build.
        let jdk = own.map_or_else(
            || Version::release(&jdk.version.to_string()).to_owned(),
            |folder| folder.display().to_string(),
        );
        let library = self.library.as_ref().map(|library| {
            let whole = std::path::absolute(library);
            whole.as_ref().unwrap_or(library).display().to_string()
        });
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let options = [
            ("--profiler", Some(self.profiler.name().to_owned())),
            ("--mode", given(&self.mode)),
            ("--library", library),
            ("--jdk", Some(jdk)),
            ("--gc", self.subject.gc.as_deref().and_then(given)),
            ("--workload", Some(self.workload.clone())),
            ("--time", Some(format!("{}ms", self.time.as_millis()))),
            (
                "--perturb",
                self.queue.is_none().then(|| self.perturb.to_string()),
            ),
            ("--queue", self.queue.clone()),
            ("--seed", Some(self.subject.seed.to_string())),
        ];
        let mut line = "walkfuzz interpose".to_owned();
        for (name, value) in options {
            if let Some(value) = value {
                line.push_str(&format!(" {name} {}", quoted(&value)));
            }
        }
        line
    }
}

impl ProfilerName {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ProfilerName::AsyncProfiler => "async-profiler",
            ProfilerName::Jfr => "jfr",
        }
    }
}
