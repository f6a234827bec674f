//! Folding `findings.jsonl`: many lines, several writers, one finding per signature.
//!
//! Counts of all lines add up, times widen. The content is that of the line with the lowest tier; between equals an untainted one, then one
//! that was examined, then the later one, so that what was confirmed or minimised later replaces what was first seen (such a line has `count` 0),
//! and a second process that meets the same does not take that away again.
//!
//! Contract: pure and total over any bytes.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::finding::{Finding, FindingVerdict, SCHEMA, Sighting};

/// Findings, one per signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// Bugs first, then by tier, untainted ones before tainted ones, then the most frequent first.
    pub findings: Vec<Finding>,
    /// Lines that could not be read: cut off, or of another schema.
    pub damaged_lines: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Finding(Box<Finding>),
    Sighting(Sighting),
}

/// Folds the content of a `findings.jsonl`.
#[must_use]
pub fn fold_lines(text: &[u8]) -> Folded {
    let mut folded = Folded::default();
    let mut by_id: BTreeMap<String, Finding> = BTreeMap::new();
    let mut sightings = Vec::new();
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    for line in lines.filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Line::Finding(finding)) if finding.schema == SCHEMA && is_id(&finding.id) => {
                add_finding(&mut by_id, *finding);
            }
            Ok(Line::Sighting(sighting)) if sighting.schema == SCHEMA => sightings.push(sighting),
            _ => folded.damaged_lines += 1,
        }
    }
    // After all findings, because another process's sighting can come before this file's finding.
    for sighting in sightings {
        match by_id.get_mut(&sighting.again) {
            Some(finding) => {
                finding.count = finding.count.saturating_add(sighting.count);
                finding.last_seen = finding.last_seen.max(sighting.last_seen);
            }
            None => folded.damaged_lines += 1,
        }
    }
    folded.findings = by_id.into_values().collect();
    folded.findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.verdict, f.tier.clone(), f.tainted);
        key(a)
            .cmp(&key(b))
            .then(b.count.cmp(&a.count))
            .then_with(|| a.id.cmp(&b.id))
    });
    folded
}

/// Whether it is the hexadecimal word that ids are: files are named after them.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn add_finding(by_id: &mut BTreeMap<String, Finding>, mut new: Finding) {
    let Some(old) = by_id.get_mut(&new.id) else {
        by_id.insert(new.id.clone(), new);
        return;
    };
    let count = old.count.saturating_add(new.count);
    let first_seen = old.first_seen.min(new.first_seen);
    let last_seen = old.last_seen.max(new.last_seen);
    let rank = |f: &Finding| (f.tier.clone(), f.tainted, f.reliability.frozen.is_none());
    if rank(&new) > rank(old) {
        std::mem::swap(&mut new, old);
        // `new` now is the line that stays.
    }
    *old = Finding {
        count,
        first_seen,
        last_seen,
        ..new
    };
}

impl Folded {
    /// Findings of a verdict.
    pub fn of(&self, verdict: FindingVerdict) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.verdict == verdict)
    }
}
