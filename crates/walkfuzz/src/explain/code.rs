//! The machine code around a fault, from the finding's own libjvm if that is on this machine.

use std::path::{Path, PathBuf};

use walkfuzz_context::Pc;
use walkfuzz_jvm::{Jdk, Places, Source};
use walkfuzz_record::Finding;
use walkfuzz_record::finding::FaultSite;
use walkfuzz_symbols::{SymbolTable, around, demangle};

use super::page::Line;

/// Instructions before and after the faulting one.
const BEFORE_AND_AFTER: usize = 7;
/// How much is read where the file does not say how long the function is.
const UNKNOWN_SIZE: u64 = 96;

/// The code around the fault, or a sentence that says why it cannot be shown.
pub(crate) fn disassembly(finding: &Finding, named: Option<&Path>) -> Result<Vec<Line>, String> {
    let Some(site) = &finding.site else {
        return Err("There is no fault, hence no faulting code.".to_owned());
    };
    let module = site.module.as_deref().unwrap_or("no module");
    if module != "libjvm.so" {
        return Err(format!(
            "The fault is in {module}, and only libjvm.so is looked for."
        ));
    }
    let offset = site
        .offset
        .as_deref()
        .and_then(number)
        .ok_or("The finding does not say where in libjvm.so the fault was.")?;
    let table = library(finding, site, named).ok_or_else(|| {
        format!(
            "The libjvm.so with build id {} (JDK {}) is not on this machine: nothing to disassemble. \
             Install that JDK and explain the finding again; --jdk names its folder where walkfuzz does not look.",
            site.build_id.as_deref().unwrap_or(&finding.jvm.build_id),
            finding.jvm.version
        )
    })?;
    lines(&table, offset.wrapping_add(table.link_base()))
        .ok_or_else(|| format!("The code at libjvm.so+{offset:#x} cannot be read."))
}

/// The instruction among them that faulted.
pub(crate) fn faulting(lines: &[Line]) -> Option<String> {
    let line = lines.iter().find(|line| line.marked)?;
    let text = line.cells.get(1)?;
    // What it calls stands behind it.
    Some(text.split("  <").next().unwrap_or(text).to_owned())
}

/// The finding's libjvm: named by the user, where its run had it, or found.
fn library(finding: &Finding, site: &FaultSite, named: Option<&Path>) -> Option<SymbolTable> {
    let at = |home: PathBuf| Jdk::at(&home, Source::Named).ok();
    let found = Places::from_env().discover().into_iter();
    named
        .map(Path::to_owned)
        .into_iter()
        .chain(home_in_commands(finding))
        .filter_map(at)
        .chain(found.filter_map(|candidate| candidate.jdk.ok()))
        .find(|jdk| {
            let same = |id: &str| id == jdk.identity || Some(id) == jdk.build_id.as_deref();
            same(&finding.jvm.build_id) || site.build_id.as_deref().is_some_and(same)
        })
        .and_then(|jdk| SymbolTable::load(jdk.libjvm).ok())
}

/// The JDK's folder in the finding's first command, where it was given as a folder.
fn home_in_commands(finding: &Finding) -> Option<PathBuf> {
    let rest = finding.commands.first()?.strip_prefix("WALKFUZZ_JDK=")?;
    let word = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next()?,
        None => rest.split(' ').next()?,
    };
    word.contains('/').then(|| PathBuf::from(word))
}

fn lines(table: &SymbolTable, at: u64) -> Option<Vec<Line>> {
    let symbol = table.lookup(at)?;
    let size = match symbol.size {
        0 => at - symbol.offset + UNKNOWN_SIZE,
        size => size,
    };
    let code = table.read(symbol.offset, size).ok()?;
    let decoded = around(
        table.arch(),
        &code,
        Pc(symbol.offset),
        Pc(at),
        BEFORE_AND_AFTER,
    );
    let shown = decoded.into_iter().map(|line| {
        let place = format!("+{:#06x}", line.address.0 - symbol.offset);
        let text = match target(table, &line.text, symbol.offset) {
            Some(target) => format!("{}  <{target}>", line.text),
            None => line.text,
        };
        Line::new(line.address.0 == at, [place, text])
    });
    let shown: Vec<Line> = shown.collect();
    (!shown.is_empty()).then_some(shown)
}

/// What a call or a jump goes to, if that is another function.
fn target(table: &SymbolTable, text: &str, function: u64) -> Option<String> {
    let mut words = text.split_whitespace();
    let name = words.next()?;
    let goes = name.starts_with("call") || name.starts_with('j') || name.starts_with('b');
    let to = number(words.next_back()?).filter(|_| goes)?;
    let symbol = table.lookup(to)?;
    if symbol.offset == function {
        return None;
    }
    let by = to - symbol.offset;
    let name = demangle(symbol.mangled);
    Some(if by == 0 {
        name
    } else {
        format!("{name}+{by:#x}")
    })
}

/// A hex word.
pub(crate) fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
