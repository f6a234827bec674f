//! The context that was walked: what the thread was doing, and its registers.

use walkfuzz_context::Arch;
use walkfuzz_record::Finding;
use walkfuzz_record::finding::FindingMoment;

use super::{is_capsule_alone, none, not_examined, not_in_a_capsule};
use crate::explain::cause::code;
use crate::explain::page::{Block, Line, Section};

pub(super) fn thread(finding: &Finding) -> Section {
    let Some(moment) = &finding.moment else {
        return Section::new("What the thread was doing", not_examined("That is"));
    };
    if is_capsule_alone(finding) {
        return Section::new("What the thread was doing", not_in_a_capsule("That is"));
    }
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

pub(super) fn registers(finding: &Finding) -> Section {
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
