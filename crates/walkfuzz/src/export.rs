//! `walkfuzz export`: a finding as a folder that crashes the same JVM without walkfuzz.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use walkfuzz_context::Batch;
use walkfuzz_export::{Attempts, Export, ExportError, FILES, SCRIPT};
use walkfuzz_harness::{interrupt, quoted};
use walkfuzz_jvm::{Places, Version};
use walkfuzz_record::{Finding, RunFolder};

use crate::child::lines;
use crate::cli::ExportArgs;
use crate::failure::{Failure, INTERRUPTED, UNKNOWN};
use crate::finding::known_finding;

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
    /// Why it may not crash.
    doubts: &'a [String],
    /// What came of running it; absent without `--run`.
    attempts: Option<Attempts>,
    /// Whether the end was asked for before all attempts were made.
    interrupted: bool,
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let (run, finding) = known_finding(&args.finding, &args.runs)?;
    let batch = run.as_ref().and_then(|run| batch(run, &finding));
    let export = Export::of(&finding, batch.as_ref())?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => PathBuf::from(format!("export-{}", finding.id)),
    };
    export.write(&folder)?;
    let jdk = jdk_of(&finding);
    let script = folder.join(SCRIPT);
    let command = match &jdk {
        Some(home) => format!(
            "sh {} {}",
            quoted(&script.display().to_string()),
            quoted(&home.display().to_string())
        ),
        None => format!("sh {} JDK_HOME", quoted(&script.display().to_string())),
    };
    let attempts = match args.run {
        true => Some(try_it(args, &folder, jdk.as_deref(), &finding)?),
        false => None,
    };
    let good = attempts.is_none_or(|attempts| attempts.died > 0);
    let interrupted = interrupt::seen();
    // What was written is an answer in any case; that it does not crash there is another.
    let end = if interrupted {
        Err(Failure::said(INTERRUPTED))
    } else if good {
        Ok(())
    } else {
        Err(Failure::said(UNKNOWN))
    };
    if args.json {
        crate::print_json(&Written {
            finding: &finding.id,
            title: &finding.title,
            site: export.plan.site(),
            folder,
            files: FILES,
            jdk,
            command,
            doubts: &export.doubts,
            attempts,
            interrupted,
        })?;
        return end;
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
    if let Some(attempts) = attempts {
        let early = if interrupted {
            format!("; interrupted, {} were asked for", args.attempts)
        } else {
            String::new()
        };
        text.push_str(&format!("  tried    {}{early}\n", attempts.in_words()));
    }
    if attempts.is_none() || !good {
        for doubt in &export.doubts {
            text.push_str(&format!("  but      {doubt}\n"));
        }
    }
    crate::print(text.as_bytes())?;
    end
}

/// Runs the script as anybody would; its output goes to stderr as it comes.
fn try_it(
    args: &ExportArgs,
    folder: &Path,
    jdk: Option<&Path>,
    finding: &Finding,
) -> Result<Attempts, Failure> {
    let Some(home) = jdk else {
        return Err(Failure::environment(format_args!(
            "--run needs JDK {}; it is not on this machine",
            finding.jvm.version
        )));
    };
    let mut script = Command::new("sh");
    script
        .arg(folder.join(SCRIPT))
        .arg(home)
        .env("ATTEMPTS", args.attempts.to_string())
        .env("SECONDS_EACH", args.each.as_secs().max(1).to_string())
        .env("KEEP_GOING", "1");
    let output = lines(script)?;
    let attempts = match Attempts::parse(&output) {
        Some(attempts) => attempts,
        None if interrupt::seen() => Attempts::so_far(&output),
        None => {
            return Err(Failure::environment(format_args!(
                "{SCRIPT} did not come to its end"
            )));
        }
    };
    if attempts.all() > 0 {
        attempts.note(folder, &format!("JDK {}", finding.jvm.version))?;
    }
    Ok(attempts)
}

/// The finding's input, if the run folder still has it.
fn batch(run: &RunFolder, finding: &Finding) -> Option<Batch> {
    let artifact = finding.input.artifact.as_ref()?;
    let bytes = run.read_named(artifact).ok()?;
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
