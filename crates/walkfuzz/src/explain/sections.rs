//! What stands on the page, section by section.

mod commands;
mod context;
mod contradiction;
mod elsewhere;
mod fault;
mod memory;
mod verdict;

use std::path::Path;

use walkfuzz_record::{Finding, RunFolder, Variants};

use self::commands::Target;
use super::cause::in_short;
use super::page::{Block, Line, Page, Section};

/// What the page is made of.
pub(crate) struct Material<'a> {
    pub(crate) finding: &'a Finding,
    /// The code around the fault, or why there is none.
    pub(crate) code: Result<Vec<Line>, String>,
    /// Where else the finding was tried.
    pub(crate) variants: Option<&'a Variants>,
    /// How the user named the finding.
    pub(crate) named: &'a str,
    /// Where runs are looked for.
    pub(crate) runs: &'a Path,
    /// The finding's run; none for what a capsule alone tells.
    pub(crate) run: Option<&'a RunFolder>,
}

pub(crate) fn page(material: Material<'_>) -> Page {
    let finding = material.finding;
    let mut sections = vec![
        Section::new(
            "In short",
            in_short(finding).into_iter().map(Block::Text).collect(),
        ),
        verdict::verdict(finding),
        context::thread(finding),
        context::registers(finding),
    ];
    sections.extend(fault::edited_memory(finding));
    sections.extend(fault::fault(finding));
    sections.extend(contradiction::both_walks(finding));
    sections.push(Section::new(
        "Code around the fault",
        match material.code {
            Ok(lines) => vec![Block::Code(lines)],
            Err(why) => vec![Block::Text(why)],
        },
    ));
    sections.push(fault::backtrace(finding));
    sections.extend(memory::needed(finding));
    sections.push(memory::memory(finding));
    sections.push(elsewhere::same_code(finding));
    sections.push(elsewhere::known(finding));
    sections.push(verdict::how_sure(finding));
    let target = Target::of(finding, material.run, material.named, material.runs);
    sections.push(elsewhere::variants(material.variants, &target));
    sections.push(elsewhere::place(finding));
    sections.push(commands::commands(finding, material.run, &target));
    Page {
        title: finding.title.clone(),
        sections,
    }
}

fn none(why: &str) -> Vec<Block> {
    vec![Block::Text(why.to_owned())]
}

/// What is not known before a frozen copy has looked.
fn not_examined(what: &str) -> Vec<Block> {
    none(&format!(
        "{what} not known: the finding was not examined in a frozen copy, or comes from an older run."
    ))
}

/// Whether the page is made of a capsule, which nobody has counted.
fn is_capsule_alone(finding: &Finding) -> bool {
    finding.count == 0
}

/// What only the finding in a run folder knows.
fn not_in_a_capsule(what: &str) -> Vec<Block> {
    none(&format!(
        "{what} not known: a capsule tells its walk, and no more. The finding in a run folder does; `walkfuzz repro` makes one."
    ))
}
