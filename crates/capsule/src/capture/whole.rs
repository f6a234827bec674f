//! Memory that is kept because other walks than the captured one will read it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::capsule::{Content, Layout, Page, Protection};
use crate::format::limits::{self, PAGE};
use crate::puppet::Source;

/// The debugger's page and the like count as pages, too.
const SPARE: u64 = 16;

/// Adds the pages in `ranges` that are not there yet, as the frozen process has them, up to what a file may hold.
pub(crate) fn add(
    source: &dyn Source,
    layout: &Layout,
    ranges: &[Range<u64>],
    pages: &mut BTreeMap<u64, Page>,
) {
    for wanted in ranges {
        for (mapped, protection) in layout.ranges() {
            if *protection == Protection::NONE {
                continue;
            }
            let start = (wanted.start & !(PAGE - 1)).max(mapped.start);
            for address in (start..wanted.end.min(mapped.end)).step_by(PAGE as usize) {
                if pages.len() as u64 >= limits::PAGES - SPARE || pages.contains_key(&address) {
                    continue;
                }
                // What cannot be read (a page behind the end of a file) is missing.
                let Ok(bytes) = source.page(address) else {
                    continue;
                };
                let entry = if bytes.iter().all(|byte| *byte == 0) {
                    Content::Zero
                } else {
                    Content::Bytes(bytes)
                };
                pages.insert(
                    address,
                    Page {
                        protection: *protection,
                        entry,
                        outcome: None,
                    },
                );
            }
        }
    }
}
