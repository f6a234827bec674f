//! `walkfuzz report`: a run folder for people, or as JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use walkfuzz_harness::campaign::summarise;
use walkfuzz_harness::compared::Comparison;
use walkfuzz_record::render::end_screen;
use walkfuzz_record::{Finding, RunFolder, Summary};
use walkfuzz_stress::store::StressFolder;

use crate::child::judge;
use crate::cli::{FailOn, ReportArgs};
use crate::compare;
use crate::failure::Failure;
use crate::finding_words::{looks_like, meaning, reliability, witness};
use crate::stress::reports;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    summary: Summary,
    findings: Vec<Finding>,
}

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    if args.compare {
        return reports::compare(args);
    }
    if args.trend {
        return reports::trend(&args.run, args.json);
    }
    let run = match args.run.as_slice() {
        [] => None,
        [run] => Some(run),
        runs => {
            return Err(Failure::usage(format_args!(
                "one run at a time; --compare takes two, --trend any number: {} are named",
                runs.len()
            )));
        }
    };
    if let Some(folder) = stress_run(run, args)? {
        return reports::report(&folder, args);
    }
    let folder = match run {
        Some(run) => RunFolder::open(run)?,
        None => RunFolder::latest(&args.runs)?,
    };
    if args.html || args.junit {
        return Err(Failure::usage(format_args!(
            "{} is no stress run: --html and --junit are for those; `walkfuzz explain` makes a page of a finding",
            folder.path().display()
        )));
    }
    if let Some(comparison) = compare::kept(&folder)? {
        return compared(args, &folder, &comparison);
    }
    if folder.facts()?.driver == "compare" {
        return Err(Failure::usage(format_args!(
            "{} is a comparison of two walkers that did not come to its end: run `walkfuzz compare` again",
            folder.path().display()
        )));
    }
    let summary = summarise(&folder)?;
    print(args, &folder, summary)
}

/// The stress run that is meant, if it is one: the one that is named, or the newest of all runs.
fn stress_run(run: Option<&PathBuf>, args: &ReportArgs) -> Result<Option<StressFolder>, Failure> {
    let Some(run) = run else {
        let stress = StressFolder::latest(&args.runs);
        let other = RunFolder::latest(&args.runs).ok();
        let name = |path: &Path| path.file_name().map(ToOwned::to_owned);
        return Ok(stress
            .filter(|stress| other.is_none_or(|other| name(other.path()) < name(stress.path()))));
    };
    if StressFolder::is_one(run) {
        return Ok(Some(StressFolder::open(run)?));
    }
    Ok(None)
}

/// A run of `compare`: what it printed at its end.
fn compared(args: &ReportArgs, folder: &RunFolder, comparison: &Comparison) -> Result<(), Failure> {
    if args.findings {
        return Err(Failure::usage(format_args!(
            "{} is a comparison of two walkers, which has no findings: leave --findings out",
            folder.path().display()
        )));
    }
    if args.json {
        crate::print_json(comparison)?;
    } else {
        let screen = compare::screen(comparison, &compare::subject(&folder.facts()?));
        crate::print(screen.as_bytes())?;
    }
    match args.fail_on {
        FailOn::Never => Ok(()),
        asked => compare::conclude(comparison, asked),
    }
}

fn print(args: &ReportArgs, folder: &RunFolder, summary: Summary) -> Result<(), Failure> {
    let ends = match args.fail_on {
        FailOn::Never => Ok(()),
        asked => judge(&summary, asked),
    };
    if !args.json && !args.findings {
        crate::print(end_screen(&summary).as_bytes())?;
        return ends;
    }
    let mut findings = folder.findings()?.findings;
    // The summary's order: what matters most comes first.
    findings.sort_by_key(|finding| summary.findings.iter().position(|row| row.id == finding.id));
    if args.json {
        crate::print_json(&Report { summary, findings })?;
        return ends;
    }
    let text: Vec<String> = findings.iter().map(in_full).collect();
    let text = if text.is_empty() {
        "no findings\n".to_owned()
    } else {
        text.join("\n")
    };
    crate::print(text.as_bytes())?;
    ends
}

/// One finding, for people.
fn in_full(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.title);
    let mut line = |label: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {label:<12} {value}");
    };
    line("id", &finding.id);
    line("verdict", finding.verdict.name());
    line(
        "tier",
        &format!("{}: {}", finding.tier, meaning(&finding.tier)),
    );
    line("witness", &witness(finding));
    let tainted = if finding.tainted {
        "; the process had recovered from a fault before"
    } else {
        ""
    };
    line(
        "seen",
        &format!(
            "{} times, first {}{tainted}",
            finding.count, finding.first_seen
        ),
    );
    line(
        "jvm",
        &format!(
            "{}, {} collector, build {}",
            // A jlinked JDK may name no vendor.
            format!("{} {}", finding.jvm.version, finding.jvm.vendor).trim_end(),
            finding.jvm.collector,
            finding.jvm.build_id
        ),
    );
    for known in &finding.known {
        line("known", &looks_like(known));
    }
    if let Some(detail) = &finding.outcome.detail {
        line("detail", detail);
    }
    if let Some(site) = &finding.site {
        let function = site.function.as_deref().unwrap_or("no symbol");
        let module = site.module.as_deref().unwrap_or("no module");
        line(
            "fault",
            &format!(
                "{} in {function} ({module} + {})",
                site.pc,
                site.offset.as_deref().unwrap_or("?")
            ),
        );
        line(
            "instruction",
            site.instruction.as_deref().unwrap_or("not readable"),
        );
        if let Some(address) = &finding.outcome.address {
            line("accessed", address);
        }
        for (index, frame) in site.backtrace.iter().enumerate() {
            line(if index == 0 { "backtrace" } else { "" }, frame);
        }
    }
    let blob = &finding.blob;
    let offset = blob
        .offset
        .map(|offset| format!(" + {offset:#x}"))
        .unwrap_or_default();
    line(
        "walked pc in",
        &format!(
            "{} {}{offset}",
            blob.kind,
            blob.name.as_deref().unwrap_or("")
        ),
    );
    line(
        "input",
        if finding.input.perturbation.is_empty() {
            "-"
        } else {
            &finding.input.perturbation
        },
    );
    line("reliability", &reliability(finding));
    line("registers", &format!("{:<20} walked from", "as delivered"));
    for (name, after) in &finding.registers.after {
        let before = finding
            .registers
            .before
            .get(name)
            .map_or("-", String::as_str);
        let edited = finding.registers.edited.contains(name);
        let after = if edited {
            format!("{after}  <- edited")
        } else {
            String::new()
        };
        line("", format!("{name:<8} {before:<20} {after}").trim_end());
    }
    for command in &finding.commands {
        line("again", command);
    }
    text
}
