//! The fault itself.

use walkfuzz_record::Finding;

use super::none;
use crate::explain::page::{Block, Line, Section};

pub(super) fn fault(finding: &Finding) -> Option<Section> {
    let site = finding.site.as_ref()?;
    let outcome = &finding.outcome;
    let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
    let mut facts = vec![(
        "where",
        format!(
            "{} = {} ({} + {})",
            site.pc,
            or(&site.function, "no symbol"),
            or(&site.module, "no module"),
            or(&site.offset, "?")
        ),
    )];
    if let Some(signal) = &outcome.signal {
        let code = outcome.code.map_or_else(String::new, |code| {
            let named = outcome.code_name.as_deref().or(code_in_words(signal, code));
            format!(
                ", code {code}{}",
                named.map_or_else(String::new, |name| format!(" ({name})"))
            )
        });
        facts.push(("signal", format!("{signal}{code}")));
    }
    facts.push(("instruction", or(&site.instruction, "not readable")));
    let address = or(&outcome.address, "not known");
    facts.push((
        "accessed",
        match &site.accessed {
            Some(what) => format!("{address}: {what}"),
            None => address,
        },
    ));
    let mut blocks = vec![Block::Facts(facts)];
    if !site.registers.is_empty() {
        let rows = site.registers.iter().map(|register| {
            let meaning = register.meaning.clone().unwrap_or_default();
            Line::new(
                false,
                [register.name.clone(), register.value.clone(), meaning],
            )
        });
        blocks.push(Block::Table {
            head: vec!["register", "at the fault", "what it is"],
            rows: rows.collect(),
        });
    }
    Some(Section::new("The fault", blocks))
}

/// What a signal's code means on Linux (siginfo.h).
fn code_in_words(signal: &str, code: i32) -> Option<&'static str> {
    match (signal, code) {
        ("SIGSEGV", 1) => Some("SEGV_MAPERR: nothing is mapped there"),
        ("SIGSEGV", 2) => Some("SEGV_ACCERR: mapped, but not for this access"),
        ("SIGBUS", 1) => Some("BUS_ADRALN: misaligned"),
        ("SIGBUS", 2) => Some("BUS_ADRERR: behind the end of a mapped file"),
        (_, 0x80) => Some("SI_KERNEL: no address is named"),
        _ => None,
    }
}

pub(super) fn backtrace(finding: &Finding) -> Section {
    let frames = finding
        .site
        .as_ref()
        .map_or(&[][..], |site| &site.backtrace);
    let blocks = if frames.is_empty() {
        if super::is_capsule_alone(finding) {
            let gdb = "Not kept: gdb shows it (`zstd -d FILE -o walk.core; gdb -c walk.core -ex sharedlibrary -ex bt`).";
            return Section::new("Native backtrace", none(gdb));
        }
        none("None: walks that fault or hang have one, once they were examined in a frozen copy.")
    } else {
        let lines = frames.iter().enumerate();
        let lines = lines.map(|(index, frame)| Line::new(false, [format!("{index:>3}  {frame}")]));
        vec![Block::Code(lines.collect())]
    };
    Section::new("Native backtrace", blocks)
}

/// Of a synthetic finding: what was written before the walk.
pub(super) fn edited_memory(finding: &Finding) -> Option<Section> {
    let memory = &finding.input.memory;
    if memory.is_empty() {
        return None;
    }
    let rows = memory.iter().map(|change| {
        let words = [&change.edit, &change.address, &change.before, &change.after];
        Line::new(true, words.map(String::clone))
    });
    let about = "Synthetic: these words of the snapshot were edited before the walk. No thread wrote them; without the edits the same \
        registers end otherwise."
        .to_owned();
    let table = Block::Table {
        head: vec!["edit", "address", "was", "became"],
        rows: rows.collect(),
    };
    Some(Section::new(
        "Edited memory",
        vec![Block::Text(about), table],
    ))
}
