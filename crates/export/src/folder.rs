//! The four files, and the folder that they are written to.

use std::fs;
use std::io;
use std::path::Path;

use walkfuzz_context::{Batch, Tier};
use walkfuzz_record::{Finding, FindingVerdict, KOfN};

use crate::agent::{TURNS, agent};
use crate::doubts::doubts;
use crate::error::ExportError;
use crate::plan::Plan;
use crate::template::render;

/// The C file.
pub const AGENT: &str = "agent.c";
/// The Java file.
pub const WORKLOAD: &str = "Walked.java";
/// The script.
pub const SCRIPT: &str = "run.sh";
/// What a human reads first.
pub const README: &str = "README.md";
/// All files of an export.
pub const FILES: [&str; 4] = [AGENT, WORKLOAD, SCRIPT, README];

/// A stand-alone reproducer.
#[derive(Clone, Debug)]
pub struct Export {
    /// What it does.
    pub plan: Plan,
    /// Why it may not crash where the finding did; empty where nothing speaks against it.
    pub doubts: Vec<String>,
    /// Names and contents, in the order of [`FILES`].
    pub files: [(&'static str, String); 4],
}

impl Export {
    /// Of a finding; `batch` is its artifact, if it can be read: it alone knows how many frames were asked for.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn of(finding: &Finding, batch: Option<&Batch>) -> Result<Self, ExportError> {
        let plan = Plan::of(finding, batch)?;
        let title = one_line(&finding.title);
        let jvm = jvm(finding);
        let doubts = doubts(finding, &plan);
        let files = [
            (AGENT, agent(finding, &plan, &title, &jvm)),
            (
                WORKLOAD,
                include_str!("../templates/Walked.java").to_owned(),
            ),
            (SCRIPT, script(finding, &plan, &title)),
            (README, readme(finding, &plan, &doubts, &title, &jvm)),
        ];
        Ok(Self {
            plan,
            doubts,
            files,
        })
    }

    /// Writes the files into `folder`, which is made.
    ///
    /// # Errors
    /// The folder holds something already, or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ExportError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source: io::Error| ExportError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        if fs::read_dir(folder)
            .map_err(failed(folder))?
            .next()
            .is_some()
        {
            return Err(ExportError::NotEmpty {
                folder: folder.to_path_buf(),
            });
        }
        for (name, text) in &self.files {
            let path = folder.join(name);
            fs::write(&path, text).map_err(failed(&path))?;
        }
        Ok(())
    }
}

/// Text from a finding's file, safe in comments of C and of a shell.
fn one_line(text: &str) -> String {
    text.replace("*/", "* /")
        .replace("/*", "/ *")
        .replace(|c: char| c.is_control(), " ")
}

/// Text between single quotes of a shell.
fn unquoted(text: &str) -> String {
    one_line(text).replace('\'', "")
}

fn jvm(finding: &Finding) -> String {
    let jvm = &finding.jvm;
    let name = format!("{} {}", jvm.version, jvm.vendor);
    let collector = match jvm.collector.as_str() {
        "" | "default" => "default collector",
        other => other,
    };
    one_line(&format!(
        "JDK {}, {collector}, libjvm's build id {}",
        name.trim_end(),
        jvm.build_id
    ))
}

/// What the JVM is started with, beside the agent.
fn flags(collector: &str) -> &'static str {
    match collector {
        "serial" => "-XX:+UseSerialGC ",
        "parallel" => "-XX:+UseParallelGC ",
        "z" => "-XX:+UseZGC ",
        "shenandoah" => "-XX:+UseShenandoahGC ",
        "epsilon" => "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC ",
        "g1" => "-XX:+UseG1GC ",
        _ => "",
    }
}

fn script(finding: &Finding, plan: &Plan, title: &str) -> String {
    render(
        include_str!("../templates/run.sh"),
        |_| false,
        &[
            ("TITLE", title),
            ("HEADLINE", &unquoted(&plan.headline)),
            ("FUNCTION", &unquoted(&plan.function)),
            ("PLACE", &unquoted(&plan.place)),
            ("SITE", &shell_text(plan.site())),
            ("VERSION", &unquoted(&finding.jvm.version)),
            ("FLAGS", flags(&finding.jvm.collector)),
        ],
    )
}

/// Text between double quotes of a shell.
fn shell_text(text: &str) -> String {
    one_line(text).replace(['"', '$', '`', '\\'], "")
}

fn readme(finding: &Finding, plan: &Plan, doubts: &[String], title: &str, jvm: &str) -> String {
    let doubts = match doubts {
        [] => String::new(),
        some => format!("\n## If it does not crash\n\n- {}\n", some.join("\n- ")),
    };
    let tier = Tier::ALL
        .into_iter()
        .find(|tier| tier.name() == finding.tier)
        .map_or("unknown", |tier| match tier {
            Tier::T0 => "untouched: the kernel delivered this context",
            Tier::T1 => "a state that the code at this pc really passes through",
            Tier::T2 => "an arbitrary fp where fp is no frame pointer",
            Tier::T3 => "pc, sp and fp from different moments of the thread",
            Tier::T4 => "not shown to be a state that a thread can be in",
        });
    let verdict = match finding.verdict {
        FindingVerdict::Bug => "bug: the walker must bear this context",
        FindingVerdict::Robustness => {
            "robustness: it shows how much the walker bears, and is no bug by itself"
        }
        FindingVerdict::Synthetic => {
            "synthetic: memory was edited before the walk, which no program here does"
        }
    };
    let blob = match finding.blob.name.as_deref() {
        Some(name) => format!(
            "The walked pc then is in code of kind {} (in the finding: {}).\n",
            finding.blob.kind,
            one_line(name)
        ),
        None => format!(
            "The walked pc then is in code of kind {}.\n",
            finding.blob.kind
        ),
    };
    let site = finding.site.as_ref();
    let instruction = site
        .and_then(|site| site.instruction.as_deref())
        .map(|instruction| format!(", at `{}`", one_line(instruction)))
        .unwrap_or_default();
    let tainted = if finding.tainted {
        "\n\nWhen it was found, the process had recovered from a fault before: it may have been a consequence of that."
    } else {
        ""
    };
    let perturbation = if plan.perturbation.is_untouched() {
        "untouched".to_owned()
    } else {
        plan.perturbation.display(plan.arch).to_string()
    };
    let frame = if plan.headline == "Internal Error" {
        String::new()
    } else {
        format!("    # V  [{}]  {}(...\n", plan.place, plan.function)
    };
    let machine = format!("{}, Linux {}", finding.machine.arch, finding.machine.kernel);
    render(
        include_str!("../templates/README.md"),
        |_| false,
        &[
            ("TITLE", title),
            ("JVM", jvm),
            ("MACHINE", &one_line(&machine)),
            ("TIER", &format!("{}: {tier}", one_line(&finding.tier))),
            ("VERDICT", verdict),
            ("ID", &one_line(&finding.id)),
            ("PERTURBATION", &perturbation),
            ("BLOB", &blob),
            ("SITE", plan.site()),
            ("INSTRUCTION", &instruction),
            ("TURNS", TURNS),
            ("TAINTED", tainted),
            ("RELIABILITY", &reliability(finding)),
            ("HEADLINE", &plan.headline),
            ("FRAME", &frame),
            ("DOUBTS", &doubts),
        ],
    )
}

/// What is known about how surely it happens.
fn reliability(finding: &Finding) -> String {
    let frozen = finding
        .reliability
        .frozen
        .map(|KOfN { k, of }| format!("{k} of {of} times at the same moment"));
    let elsewhere = finding.reliability.portability.map(|portability| {
        format!(
            "{} of {} times at other moments",
            portability.k, portability.of
        )
    });
    let parts: Vec<String> = [frozen, elsewhere].into_iter().flatten().collect();
    if parts.is_empty() {
        "How surely these edits crash a walk was not measured: an attempt may end without a crash, or with another one.".to_owned()
    } else {
        format!(
            "With the finding's own numbers alone it happened {}. Where that is seldom the agent needs more samples,\nand another crash can come first: then `run.sh` makes the next attempt.",
            parts.join(", ")
        )
    }
}
