//! `walkfuzz export`: a finding as a folder that crashes the same JVM without walkfuzz.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walkfuzz_context::Batch;
use walkfuzz_export::{Export, ExportError, FILES, SCRIPT};
use walkfuzz_jvm::{Places, Version};
use walkfuzz_record::{Finding, RunFolder};

use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::finding::find_finding;

/// What `--json` prints.
#[derive(Serialize)]
struct Written<'a> {
    finding: &'a str,
    title: &'a str,
    /// Where the JVM is to die.
    site: &'a str,
    folder: PathBuf,
    files: [&'static str; 4],
    /// The finding's JDK, if it is on this machine.
    jdk: Option<PathBuf>,
    /// What runs it.
    command: String,
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let (run, finding) = find_finding(&args.finding, &args.runs)?;
    let export = Export::of(&finding, batch(&run, &finding).as_ref())?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => PathBuf::from(format!("export-{}", finding.id)),
    };
    export.write(&folder)?;
    let jdk = jdk_of(&finding);
    let script = folder.join(SCRIPT);
    let command = match &jdk {
        Some(home) => format!("sh {} {}", script.display(), home.display()),
        None => format!("sh {} JDK_HOME", script.display()),
    };
    if args.json {
        return crate::print_json(&Written {
            finding: &finding.id,
            title: &finding.title,
            site: export.plan.site(),
            folder,
            files: FILES,
            jdk,
            command,
        });
    }
    let mut text = format!(
        "{}\n  written  {}: {}\n  run      {command}\n",
        finding.title,
        folder.display(),
        FILES.join(", "),
    );
    if jdk.is_none() {
        text.push_str(&format!(
            "  note     JDK {} is not on this machine\n",
            finding.jvm.version
        ));
    }
    crate::print(text.as_bytes())
}

/// The finding's input, if the run folder still has it.
fn batch(run: &RunFolder, finding: &Finding) -> Option<Batch> {
    let artifact = finding.input.artifact.as_ref()?;
    let bytes = std::fs::read(run.path().join(artifact)).ok()?;
    Some(Batch::decode(&bytes))
}

/// The JDK that the finding is of: the folder that its commands name, else one of its version.
fn jdk_of(finding: &Finding) -> Option<PathBuf> {
    let named = finding.commands.iter().find_map(|command| {
        let words = command.split_whitespace();
        let home = words
            .filter_map(|word| word.strip_prefix("WALKFUZZ_JDK="))
            .next()?;
        Path::new(home)
            .join("bin/java")
            .is_file()
            .then(|| PathBuf::from(home))
    });
    let release = Version::release(&finding.jvm.version);
    named.or_else(|| Some(Places::from_env().choose(Some(release)).ok()?.home))
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Write { .. } => Self::environment(error),
            _ => Self::usage(error),
        }
    }
}
