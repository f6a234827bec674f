//! Who else meets it: other callers of the code, known issues, other JVMs; and on which JVM and machine it was found.

use walkfuzz_context::Tier;
use walkfuzz_record::{CellState, Finding, VariantCell, Variants};
use walkfuzz_triage::{JdkVersion, Kind, Signature, is_agct_alone, knows_release, shared_code};

use super::commands::Target;
use super::{is_capsule_alone, none};
use crate::explain::page::{Block, Line, Section};
use crate::finding_words::looks_like;

pub(super) fn same_code(finding: &Finding) -> Section {
    let title = "Who else runs this code";
    let signature = finding.signature.parse::<Signature>();
    let feature = finding
        .jvm
        .version
        .parse::<JdkVersion>()
        .ok()
        .and_then(|version| version.numbers().first().copied());
    let (Ok(signature), Some(feature)) = (signature, feature) else {
        return Section::new(
            title,
            none("Not known: the signature or the JVM's version cannot be read."),
        );
    };
    let function = &signature.function;
    let names_one = match signature.kind {
        Kind::Signal(_) | Kind::Guarantee | Kind::Write => {
            function != "unknown" && !function.contains("+0x")
        }
        _ => false,
    };
    if !names_one {
        return Section::new(title, none("Not known: the signature names no function."));
    }
    if is_agct_alone(function) {
        return Section::new(
            title,
            none(&format!(
                "{function} is AsyncGetCallTrace's own code: nobody else runs it."
            )),
        );
    }
    if !knows_release(feature) {
        return Section::new(
            title,
            none(&format!(
                "Not known for release {feature}: the list was made from 11, 17, 21 and 25."
            )),
        );
    }
    let mut blocks = match shared_code(function, feature) {
        None => none(&format!(
            "{function} is not known to be shared with JFR's sampler or JVMTI GetStackTrace."
        )),
        Some(sharings) if sharings.is_empty() => none(&format!(
            "In {feature} neither JFR's sampler nor JVMTI GetStackTrace calls {function}; in other releases one of them does."
        )),
        Some(sharings) => sharings
            .iter()
            .map(|sharing| {
                let (first, last) = sharing.versions;
                let versions = if first == last {
                    first.to_string()
                } else {
                    format!("{first} to {last}")
                };
                Block::Text(format!(
                    "{} ({versions}) shares {function}: it {}. Source: {}.",
                    sharing.walk.name(),
                    sharing.how,
                    sharing.source
                ))
            })
            .collect(),
    };
    let is_shared = shared_code(function, feature).is_some_and(|sharings| !sharings.is_empty());
    if is_shared && finding.tier == Tier::T4.name() {
        blocks.extend(none(
            "The tier is T4: nothing shows that a thread can be in this state, and so nothing shows that these walkers ever meet it. \
             What they share is the code, not the crash.",
        ));
    }
    Section::new(title, blocks)
}

pub(super) fn known(finding: &Finding) -> Section {
    let blocks = if finding.known.is_empty() {
        none("It looks like none of the known issues.")
    } else {
        let known = finding.known.iter();
        known.map(|known| Block::Text(looks_like(known))).collect()
    };
    Section::new("Known issues", blocks)
}

pub(super) fn variants(variants: Option<&Variants>, target: &Target) -> Section {
    let blocks = match variants {
        None => vec![
            Block::Text("Not tried on other JVMs yet.".to_owned()),
            Block::Commands(vec![target.command("variants")]),
        ],
        Some(variants) => {
            let rows = variants.cells.iter().map(|cell| {
                Line::new(
                    cell.again.k > 0,
                    [
                        cell.jdk.clone(),
                        cell.collector.clone(),
                        cell.mode.clone(),
                        happened(cell),
                    ],
                )
            });
            vec![Block::Table {
                head: vec!["JDK", "collector", "compiler mode", "happened"],
                rows: rows.collect(),
            }]
        }
    };
    Section::new("On other JVMs", blocks)
}

/// What a cell of the grid says.
fn happened(cell: &VariantCell) -> String {
    let reason = cell.reason.as_deref();
    match cell.state {
        CellState::Tried => format!("{} of {} moments", cell.again.k, cell.again.of),
        CellState::NotMet => "not met: no context of its class came up".to_owned(),
        CellState::CouldNotRun => format!("could not run: {}", reason.unwrap_or("unknown")),
        CellState::NotRun => format!("not tried: {}", reason.unwrap_or("unknown")),
    }
}

pub(super) fn place(finding: &Finding) -> Section {
    let (jvm, machine) = (&finding.jvm, &finding.machine);
    let emulated = if machine.emulated { ", emulated" } else { "" };
    let facts = vec![
        (
            "JVM",
            format!("{} {}", jvm.version, jvm.vendor)
                .trim_end()
                .to_owned(),
        ),
        ("build id", jvm.build_id.clone()),
        ("collector", jvm.collector.clone()),
        ("options", jvm.options.join(" ")),
        (
            "walker",
            format!(
                "{} ({})",
                finding.walker.name,
                finding.walker.generation.name()
            ),
        ),
        ("engine", finding.engine.clone()),
        (
            "machine",
            if is_capsule_alone(finding) {
                machine.arch.clone()
            } else {
                format!(
                    "{}, Linux {}, {} CPUs{emulated}",
                    machine.arch, machine.kernel, machine.cpus
                )
            },
        ),
    ];
    Section::new("JVM and machine", vec![Block::Facts(facts)])
}
