//! The first thing on the page: what went wrong, in a few sentences.

use walkfuzz_record::finding::{FaultRegister, FindingBlob, MemoryWord};
use walkfuzz_record::{Finding, OutcomeKind};

/// What the kernel says of a fault without an address (siginfo.h).
const SI_KERNEL: i32 = 0x80;

/// A maintainer's thirty seconds.
pub(crate) fn in_short(finding: &Finding) -> Vec<String> {
    let mut said = vec![held(finding)];
    said.extend(walked(finding));
    said.push(happened(finding));
    said.extend(operands(finding));
    said
}

fn held(finding: &Finding) -> String {
    let walker = match finding.walker.name.as_str() {
        "agct" => "AsyncGetCallTrace",
        name => name,
    };
    match &finding.moment {
        Some(moment) => {
            let at = moment
                .instruction
                .as_ref()
                .map_or_else(String::new, |text| format!(", at `{text}`"));
            format!(
                "{walker} was asked to walk a thread that was held in {}{at}.",
                code(&moment.code)
            )
        }
        None => format!(
            "{walker} was asked to walk a thread from a context in {}.",
            code(&finding.blob)
        ),
    }
}

/// What was done to the context.
fn walked(finding: &Finding) -> Option<String> {
    let registers = &finding.registers;
    if registers.edited.is_empty() {
        let memory = match finding.input.memory.len() {
            0 => String::new(),
            words => format!(" Before the walk, {words} words of memory were edited."),
        };
        return Some(format!(
            "The context was untouched: the kernel delivered it so.{memory}"
        ));
    }
    let edits: Vec<String> = registers
        .edited
        .iter()
        .map(|name| {
            let word = registers.after.get(name).map_or("?", String::as_str);
            match registers.meanings.get(name) {
                Some(meaning) => format!("{name} to {word}, {meaning}"),
                None => format!("{name} to {word}"),
            }
        })
        .collect();
    Some(format!(
        "The perturbation `{}` had set {}.",
        finding.input.perturbation,
        edits.join("; and ")
    ))
}

fn happened(finding: &Finding) -> String {
    let outcome = &finding.outcome;
    let site = finding.site.as_ref();
    let function = site
        .and_then(|site| site.function.as_deref())
        .unwrap_or("code without a symbol");
    let instruction = site
        .and_then(|site| site.instruction.as_deref())
        .map_or_else(String::new, |text| format!(" `{text}`"));
    let accessed = site
        .and_then(|site| site.accessed.as_deref())
        .map_or_else(String::new, |what| format!(": {what}"));
    let nameless = outcome.code == Some(SI_KERNEL) && outcome.address.as_deref() == Some("0x0");
    let (address, accessed) = if nameless {
        let address = "an address that the processor does not name, as where it is not canonical";
        (address, String::new())
    } else {
        let address = outcome.address.as_deref();
        (address.unwrap_or("an unknown address"), accessed)
    };
    match outcome.kind {
        OutcomeKind::Fault => format!(
            "{}: in {function}, the instruction{instruction} accessed {address}{accessed}.",
            outcome.signal.as_deref().unwrap_or("A signal")
        ),
        OutcomeKind::Wrote => format!(
            "The walk wrote to the stack that it walks: in {function}, the instruction{instruction} stored to {address}{accessed}. \
             Nothing faulted; a thread that goes on with such a word crashes later and elsewhere."
        ),
        OutcomeKind::Hang => "The walk did not come back; an alarm ended it.".to_owned(),
        OutcomeKind::WrongFrames => {
            let said = outcome.detail.as_deref();
            format!(
                "The walk gave frames that are wrong: {}.",
                said.unwrap_or("another walker contradicts them")
            )
        }
        OutcomeKind::Breach => format!(
            "The walk broke its contract: {}.",
            outcome.detail.as_deref().unwrap_or("how is not known")
        ),
        OutcomeKind::ProcessDeath => format!(
            "The process died: {}.",
            outcome.detail.as_deref().unwrap_or("how is not known")
        ),
        OutcomeKind::Frames | OutcomeKind::Error => "The walk ended as walks do.".to_owned(),
    }
}

/// The registers that the faulting instruction's address was made of, and where their words come from.
fn operands(finding: &Finding) -> Vec<String> {
    let Some(site) = &finding.site else {
        return Vec::new();
    };
    let instruction = site.instruction.as_deref().unwrap_or_default();
    let used =
        |register: &&FaultRegister| names_in_address(instruction).any(|name| name == register.name);
    let words = finding
        .moment
        .as_ref()
        .map_or(&[][..], |moment| &moment.words);
    site.registers
        .iter()
        .filter(used)
        .map(|register| {
            let meaning = register
                .meaning
                .as_ref()
                .map_or_else(String::new, |meaning| format!(": {meaning}"));
            let source = source(finding, words, &register.value);
            format!(
                "There, {} was {}{meaning}{source}.",
                register.name, register.value
            )
        })
        .collect()
}

/// Where else a word stands: in an edited register, or in memory around the context.
fn source(finding: &Finding, words: &[MemoryWord], value: &str) -> String {
    let registers = &finding.registers;
    let edited = registers
        .edited
        .iter()
        .find(|name| registers.after.get(*name).is_some_and(|word| word == value));
    if let Some(name) = edited {
        return format!("; it is the walk's {name}, which was edited");
    }
    if let Some(word) = words.iter().find(|word| word.address == value) {
        return format!("; it is {}", word.place);
    }
    // Small numbers stand everywhere.
    let is_small = value.len() <= "0xffff".len();
    match words
        .iter()
        .find(|word| word.value.as_deref() == Some(value))
    {
        Some(word) if !is_small => format!("; the same word stands at {}", word.place),
        _ => String::new(),
    }
}

/// Names of registers inside the brackets of an instruction's memory operand: `0x8(%rax,%rcx,4)`, `[x0, #8]`.
fn names_in_address(instruction: &str) -> impl Iterator<Item = &str> {
    let inside = instruction
        .split(['(', '['])
        .nth(1)
        .and_then(|rest| rest.split([')', ']']).next())
        .unwrap_or_default();
    inside
        .split([',', ' '])
        .map(|name| name.trim_start_matches('%'))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// A piece of code, as people name it.
pub(crate) fn code(blob: &FindingBlob) -> String {
    let name = blob.name.as_deref().unwrap_or("code without a name");
    let offset = blob
        .offset
        .map_or_else(String::new, |offset| format!(" + {offset:#x}"));
    match blob.kind.as_str() {
        "outside" => "no code that is known".to_owned(),
        "libjvm" => "libjvm".to_owned(),
        "free-code" => "a part of the code cache where no code is".to_owned(),
        "unknown" => "unknown code".to_owned(),
        // The offset is told from the interpreter's begin, not from the codelet's.
        "interpreter" => format!("the interpreter's {name} (interpreter{offset})"),
        kind => format!("{kind} {name}{offset}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_an_address_are_found() {
        let names = |text| names_in_address(text).collect::<Vec<_>>();
        assert_eq!(names("mov 0x8(%rax,%rcx,4),%r14"), ["rax", "rcx"]);
        assert_eq!(names("ldr x1, [x0, #8]"), ["x0"]);
        assert_eq!(names("cmpb $0x0,(%r12)"), ["r12"]);
        assert_eq!(names("ret"), [""; 0]);
    }
}
