//! Memory: what the outcome needs, and what lies around the context.

use walkfuzz_record::Finding;
use walkfuzz_record::finding::MemoryWord;

use super::{is_capsule_alone, not_examined, not_in_a_capsule};
use crate::explain::page::{Block, Line, Section};

/// Words that decide. None for a finding without a capsule, or from an older run.
pub(super) fn needed(finding: &Finding) -> Option<Section> {
    let moment = finding.moment.as_ref()?;
    if moment.needed.is_empty() {
        return None;
    }
    let (shown, all) = (moment.needed.len() as u64, moment.needed_in_all);
    let rest = match all.saturating_sub(shown) {
        0 => String::new(),
        _ => format!(" The {shown} that tell most of {all}."),
    };
    let about = format!(
        "Each word of data that the capsule holds when the walk begins: were it zero, the walk would end otherwise.{rest} `*X+0x8` is 8 bytes \
         behind what X points to."
    );
    let rows = moment.needed.iter().map(|word| row(word, false));
    let table = Block::Table {
        head: vec!["address", "word", "place", "what it is"],
        rows: rows.collect(),
    };
    Some(Section::new(
        "Memory that the outcome needs",
        vec![Block::Text(about), table],
    ))
}

fn row(word: &MemoryWord, marked: bool) -> Line {
    let value = word.value.clone().unwrap_or_else(|| "-".to_owned());
    let meaning = word.meaning.clone().unwrap_or_default();
    Line::new(
        marked,
        [word.address.clone(), value, word.place.clone(), meaning],
    )
}

pub(super) fn memory(finding: &Finding) -> Section {
    let title = "Memory that the walk may read";
    let Some(moment) = &finding.moment else {
        return Section::new(title, not_examined("It is"));
    };
    if is_capsule_alone(finding) {
        return Section::new(title, not_in_a_capsule("More than that is"));
    }
    let rows = moment.words.iter().map(|word| {
        let mut places = word.place.split(", ");
        let accessed = places.any(|place| place == "accessed" || place.starts_with("accessed ("));
        let marked = word.value.is_none() || accessed;
        row(word, marked)
    });
    let table = Block::Table {
        head: vec!["address", "word", "place", "what it is"],
        rows: rows.collect(),
    };
    let about = "Around sp, fp and what was accessed. `frame 0` is the frame that the thread was held in, `frame 1` its caller, \
        found by the reference walker from the untouched context."
        .to_owned();
    Section::new(title, vec![Block::Text(about), table])
}
