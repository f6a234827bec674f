//! What stands in each section of the page.

use walkfuzz_context::{Arch, Tier};
use walkfuzz_record::finding::FindingMoment;
use walkfuzz_record::{CellState, Finding, FindingVerdict, VariantCell, Variants};
use walkfuzz_triage::{JdkVersion, Kind, Signature, is_agct_alone, knows_release, shared_code};

use super::cause::{code, in_short};
use super::page::{Block, Line, Page, Section};
use crate::finding_words::{looks_like, meaning, reliability, witness};

/// What the page is made of.
pub(crate) struct Material<'a> {
    pub(crate) finding: &'a Finding,
    /// The code around the fault, or why there is none.
    pub(crate) code: Result<Vec<Line>, String>,
    /// Where else the finding was tried.
    pub(crate) variants: Option<&'a Variants>,
    /// How the user named the finding.
    pub(crate) named: &'a str,
}

pub(crate) fn page(material: Material<'_>) -> Page {
    let finding = material.finding;
    let mut sections = vec![
        Section::new(
            "In short",
            in_short(finding).into_iter().map(Block::Text).collect(),
        ),
        verdict(finding),
        thread(finding),
        registers(finding),
    ];
    sections.extend(edited_memory(finding));
    sections.extend(fault(finding));
    sections.push(Section::new(
        "Code around the fault",
        match material.code {
            Ok(lines) => vec![Block::Code(lines)],
            Err(why) => vec![Block::Text(why)],
        },
    ));
    sections.push(backtrace(finding));
    sections.push(memory(finding));
    sections.push(same_code(finding));
    sections.push(known(finding));
    sections.push(how_sure(finding));
    sections.push(variants(material.variants, material.named));
    sections.push(place(finding));
    sections.push(Section::new(
        "Commands",
        if finding.commands.is_empty() {
            none("No input was kept: nothing runs it again.")
        } else {
            vec![Block::Commands(finding.commands.clone())]
        },
    ));
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

fn verdict(finding: &Finding) -> Section {
    let mut facts = vec![
        (
            "verdict",
            format!("{}: {}", finding.verdict.name(), reason(finding)),
        ),
        (
            "tier",
            format!("{}: {}", finding.tier, meaning(&finding.tier)),
        ),
        ("witness", witness(finding)),
        ("signature", finding.signature.clone()),
        ("id", finding.id.clone()),
        (
            "seen",
            format!("{} times, first {}", finding.count, finding.first_seen),
        ),
    ];
    if finding.tainted {
        facts.push((
            "tainted",
            "the process had recovered from a fault before; this may be a consequence of that"
                .to_owned(),
        ));
    }
    if let Some(detail) = &finding.outcome.detail {
        facts.push(("detail", detail.clone()));
    }
    Section::new("Verdict", vec![Block::Facts(facts)])
}

/// Why the verdict is what it is.
fn reason(finding: &Finding) -> String {
    let tier = Tier::ALL.iter().find(|tier| tier.name() == finding.tier);
    match (finding.verdict, tier) {
        (FindingVerdict::Bug, Some(Tier::T0)) => {
            "nobody touched the context, so that a profiler's sample ends the same way".to_owned()
        }
        (FindingVerdict::Bug, _) => format!(
            "a thread can be in this state, and contexts of its class were observed ({} of {} untouched samples)",
            finding.witness.observed, finding.witness.of
        ),
        (FindingVerdict::Robustness, Some(Tier::T4)) => {
            "it shows how much the walker bears, for nothing shows that a thread can be in this state; \
             hardening, not a crash that a profiler is known to meet"
                .to_owned()
        }
        (FindingVerdict::Synthetic, _) => {
            "the walk's memory was edited before it, so that it says nothing of what a thread can be in".to_owned()
        }
        (FindingVerdict::Robustness, _) => {
            "a thread could be in this state by what its code does, but none of its class was observed".to_owned()
        }
    }
}

fn thread(finding: &Finding) -> Section {
    let Some(moment) = &finding.moment else {
        return Section::new("What the thread was doing", not_examined("That is"));
    };
    let instruction =
        |text: &Option<String>| text.clone().unwrap_or_else(|| "not readable".to_owned());
    let facts = vec![
        ("held in", code(&moment.code)),
        ("held at", instruction(&moment.instruction)),
        ("walked in", code(&finding.blob)),
        ("walked at", instruction(&moment.walked_instruction)),
        ("control walk", control(moment)),
    ];
    let mut blocks = vec![Block::Facts(facts)];
    if !moment.frames.is_empty() {
        let frames = moment.frames.iter().enumerate().map(|(index, frame)| {
            let bci = match frame.bci {
                -3 => "native".to_owned(),
                bci => format!("bci {bci}"),
            };
            Line::new(false, [format!("{index:>3}  {} @ {bci}", frame.method)])
        });
        blocks.push(Block::Code(frames.collect()));
    }
    Section::new("What the thread was doing", blocks)
}

fn control(moment: &FindingMoment) -> String {
    match moment.frames_in_all {
        Some(all @ 1..) => {
            let shown = moment.frames.len();
            let all = usize::try_from(all).unwrap_or(0);
            let rest = if shown < all {
                format!(", the first {shown} below")
            } else {
                String::new()
            };
            let plural = if all == 1 { "" } else { "s" };
            format!("the untouched context gives {all} Java frame{plural}{rest}")
        }
        Some(code) => format!("the untouched context gives no frames, but code {code}"),
        None => "the untouched context does not give frames either".to_owned(),
    }
}

fn registers(finding: &Finding) -> Section {
    let registers = &finding.registers;
    if registers.after.is_empty() {
        return Section::new("Registers", none("No registers were kept."));
    }
    let arch = Arch::from_name(&finding.machine.arch).unwrap_or(Arch::NATIVE);
    // In the architecture's order; names that it does not have come last.
    let mut names: Vec<&String> = registers.after.keys().collect();
    names.sort_by_key(|name| {
        let order = arch.register_names().iter();
        order
            .clone()
            .position(|known| known == name)
            .unwrap_or(usize::MAX)
    });
    let rows = names.into_iter().map(|name| {
        let edited = registers.edited.contains(name);
        let word = |words: &std::collections::BTreeMap<String, String>| {
            words.get(name).cloned().unwrap_or_else(|| "-".to_owned())
        };
        let walked = if edited {
            word(&registers.after)
        } else {
            "same".to_owned()
        };
        let meaning = registers.meanings.get(name).cloned().unwrap_or_default();
        Line::new(
            edited,
            [name.clone(), word(&registers.before), walked, meaning],
        )
    });
    let table = Block::Table {
        head: vec!["register", "delivered", "walked", "what the walked one is"],
        rows: rows.collect(),
    };
    let perturbation = match finding.input.perturbation.as_str() {
        "" => "none".to_owned(),
        text => text.to_owned(),
    };
    let facts = Block::Facts(vec![("perturbation", perturbation)]);
    Section::new("Registers of the context", vec![facts, table])
}

fn fault(finding: &Finding) -> Option<Section> {
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

fn backtrace(finding: &Finding) -> Section {
    let frames = finding
        .site
        .as_ref()
        .map_or(&[][..], |site| &site.backtrace);
    let blocks = if frames.is_empty() {
        none("None: walks that fault or hang have one, once they were examined in a frozen copy.")
    } else {
        let lines = frames.iter().enumerate();
        let lines = lines.map(|(index, frame)| Line::new(false, [format!("{index:>3}  {frame}")]));
        vec![Block::Code(lines.collect())]
    };
    Section::new("Native backtrace", blocks)
}

fn memory(finding: &Finding) -> Section {
    let title = "Memory that the walk may read";
    let Some(moment) = &finding.moment else {
        return Section::new(title, not_examined("It is"));
    };
    let rows = moment.words.iter().map(|word| {
        let mut places = word.place.split(", ");
        let accessed = places.any(|place| place == "accessed" || place.starts_with("accessed ("));
        let marked = word.value.is_none() || accessed;
        let value = word.value.clone().unwrap_or_else(|| "-".to_owned());
        let meaning = word.meaning.clone().unwrap_or_default();
        Line::new(
            marked,
            [word.address.clone(), value, word.place.clone(), meaning],
        )
    });
    let table = Block::Table {
        head: vec!["address", "word", "place", "what it is"],
        rows: rows.collect(),
    };
    let about = "Around sp, fp and what was accessed. `frame 0` is the frame that the thread was held in, `frame 1` its caller, \
        followed from the untouched context by the code cache's frame sizes and not by the walker."
        .to_owned();
    Section::new(title, vec![Block::Text(about), table])
}

/// Of a synthetic finding: what was written before the walk.
fn edited_memory(finding: &Finding) -> Option<Section> {
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

fn same_code(finding: &Finding) -> Section {
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
    let blocks = match shared_code(function, feature) {
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
    Section::new(title, blocks)
}

fn known(finding: &Finding) -> Section {
    let blocks = if finding.known.is_empty() {
        none("It looks like none of the known issues.")
    } else {
        let known = finding.known.iter();
        known.map(|known| Block::Text(looks_like(known))).collect()
    };
    Section::new("Known issues", blocks)
}

fn how_sure(finding: &Finding) -> Section {
    Section::new(
        "How surely it happens again",
        none(&format!("{}.", reliability(finding))),
    )
}

fn variants(variants: Option<&Variants>, named: &str) -> Section {
    let blocks = match variants {
        None => vec![
            Block::Text("Not tried on other JVMs yet.".to_owned()),
            Block::Commands(vec![format!("walkfuzz variants {named}")]),
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

fn place(finding: &Finding) -> Section {
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
            format!(
                "{}, Linux {}, {} CPUs{emulated}",
                machine.arch, machine.kernel, machine.cpus
            ),
        ),
    ];
    Section::new("JVM and machine", vec![Block::Facts(facts)])
}
