//! What all cells of a stress run share, and how each of them is started.

use std::path::{Path, PathBuf};

use walkfuzz_harness::quoted;
use walkfuzz_record::JvmFacts;
use walkfuzz_stress::launch;
use walkfuzz_stress::recording::is_jfr;
use walkfuzz_stress::run::Start;
use walkfuzz_stress::subjects::Subjects;
use walkfuzz_stress::{Cell, Dimension, Profile};

use crate::stress::args::StressArgs;
use crate::stress::workload::{self, Workloads};

/// Where every JVM looks for options.
const TOOL_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// Who starts cells.
pub(crate) struct Driver<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) subjects: &'a Subjects,
    pub(crate) workloads: &'a Workloads,
    pub(crate) sampler: PathBuf,
    /// What the user asked for.
    pub(crate) args: &'a StressArgs,
    /// Of everything that is drawn at random in a cell.
    pub(crate) seed: u64,
}

impl Driver<'_> {
    /// How a cell is started, whose folder is there.
    pub(crate) fn start(&self, cell: &Cell, folder: &Path) -> Result<Start, String> {
        if cell.workload == workload::COMMAND {
            return self.command(cell, folder);
        }
        let jdk = self
            .subjects
            .named(&cell.jdk)
            .ok_or_else(|| format!("JDK {} is gone", cell.jdk))?;
        let jvm = JvmFacts {
            version: cell.jdk.clone(),
            vendor: jdk.implementor.clone().unwrap_or_default(),
            build_id: jdk.identity.clone(),
            collector: cell.collector.clone(),
            options: launch::flag_options(self.profile, &cell.flags)?,
        };
        let sampled = self.profile.limits.sampled;
        let program = self.workloads.program(cell, sampled, self.seed)?;
        let words = launch::java(
            cell,
            jdk,
            self.profile,
            &self.sampler,
            &program,
            folder,
            self.seed,
        )?;
        Ok(Start {
            words,
            environment: Vec::new(),
            at: None,
            tells: program.tells,
            jvm,
            command: self.again(cell),
            reader: is_jfr(&cell.walker).then(|| self.workloads.reader()),
        })
    }

    /// The user's command, whose JVMs find the sampler in their environment.
    fn command(&self, cell: &Cell, folder: &Path) -> Result<Start, String> {
        let options = launch::sampler_options(cell, folder, self.seed)?;
        let agent = format!("-agentpath:{}={options}", self.sampler.display());
        // The JVM puts its process id for %p, and % for %%.
        let folder = folder.display().to_string().replace('%', "%%");
        let log = format!("-XX:ErrorFile={folder}/hs_err_pid%p.log");
        let tool = format!("{} {}", one_option(&agent), one_option(&log));
        let theirs = std::env::var(TOOL_OPTIONS).unwrap_or_default();
        let here = std::env::current_dir().map_err(|error| error.to_string())?;
        Ok(Start {
            words: self.args.program.clone(),
            environment: vec![(
                TOOL_OPTIONS.to_owned(),
                format!("{theirs} {tool}").trim_start().to_owned(),
            )],
            // Its words may name files.
            at: Some(here),
            tells: false,
            // Which it is will be seen when it runs.
            jvm: JvmFacts {
                collector: cell.collector.clone(),
                ..JvmFacts::default()
            },
            command: self.again(cell),
            reader: None,
        })
    }

    /// The command that runs a cell alone.
    fn again(&self, cell: &Cell) -> String {
        let args = self.args;
        let terms: Vec<String> = Dimension::ALL
            .iter()
            .map(|&axis| format!("{}={}", axis.name(), cell.get(axis)))
            .collect();
        let mut words = ["walkfuzz", "stress", "--profile", &args.profile, "--keep"]
            .map(str::to_owned)
            .to_vec();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        option("--filter", Some(terms.join(" & ")));
        option("--seconds", args.seconds.map(|seconds| seconds.to_string()));
        option("--seed", (self.seed != 1).then(|| self.seed.to_string()));
        for (suite, jar) in [("renaissance", &args.renaissance), ("dacapo", &args.dacapo)] {
            let jar = jar.as_ref().map(|jar| jar.display().to_string());
            let ours = cell.workload.strip_prefix(suite).is_some();
            option(&format!("--{suite}"), jar.filter(|_| ours));
        }
        if cell.workload == workload::COMMAND {
            words.push("--".to_owned());
            words.extend(args.program.iter().cloned());
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

/// An option as the JVM reads it in its environment: it splits at blanks but within quotes, of either kind, and knows no other way to
/// say a quote than within those of the other kind (`Arguments::parse_options_buffer`).
fn one_option(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"'\"'\""))
}

#[cfg(test)]
mod tests {
    use super::one_option;

    #[test]
    fn quotes_are_quoted_by_the_others() {
        assert_eq!(one_option("a b'c"), "\"a b'c\"");
        assert_eq!(one_option("a\"b"), r#""a"'"'"b""#);
    }
}
