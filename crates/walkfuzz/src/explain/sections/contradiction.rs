//! Of wrong frames: what both walkers say, side by side.

use walkfuzz_record::Finding;
use walkfuzz_record::finding::JavaFrame;

use crate::explain::page::{Block, Line, Section};

/// Nothing but for wrong frames.
pub(super) fn both_walks(finding: &Finding) -> Option<Section> {
    let said = finding.outcome.contradiction.as_ref()?;
    let name = |frame: Option<&JavaFrame>| {
        frame.map_or_else(String::new, |frame| {
            format!("{} @ {}", frame.method, frame.bci)
        })
    };
    let rows = (0..said.given.len().max(said.expected.len())).map(|index| {
        let (given, expected) = (said.given.get(index), said.expected.get(index));
        Line::new(
            given != expected,
            [
                (said.frame as usize + index).to_string(),
                name(given),
                name(expected),
            ],
        )
    });
    let about = format!(
        "Both walked the same context in the same frozen moment. {} frames before these are the same. {}",
        said.frame,
        match said.known {
            Some(known) => format!(
                "The difference is a known one: {} (docs/reference-walker.md).",
                known.words()
            ),
            None => "The difference is none of those that are known.".to_owned(),
        }
    );
    let table = Block::Table {
        head: vec!["frame", "the walker", "the oracle"],
        rows: rows.collect(),
    };
    Some(Section::new(
        "Frames of both walkers",
        vec![Block::Text(about), table],
    ))
}
