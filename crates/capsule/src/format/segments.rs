//! Neighbouring pages that look the same to an ELF reader, as one segment.

use crate::capsule::{Capsule, Content, Page};
use crate::format::limits::PAGE;
use crate::format::notes::Reference;

/// One program header of type LOAD.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) address: u64,
    pub(crate) pages: Vec<&'a Page>,
    /// Whether its bytes are in the file.
    pub(crate) stored: bool,
}

/// What a debugger is to see of the page: what it held in the end.
pub(crate) fn shown(page: &Page) -> Option<&[u8]> {
    match (&page.outcome, &page.entry) {
        (Some(bytes), _) | (None, Content::Bytes(bytes)) => Some(&bytes[..]),
        (None, Content::Zero | Content::File { .. }) => None,
    }
}

/// The segments of a capsule, by address.
pub(crate) fn segments(capsule: &Capsule) -> Vec<Segment<'_>> {
    let mut segments: Vec<Segment<'_>> = Vec::new();
    for (&address, page) in &capsule.pages {
        let stored = shown(page).is_some();
        let continues = segments.last_mut().filter(|last| {
            last.stored == stored
                && last.address + last.pages.len() as u64 * PAGE == address
                && last
                    .pages
                    .first()
                    .is_some_and(|first| first.protection == page.protection)
        });
        match continues {
            Some(last) => last.pages.push(page),
            None => segments.push(Segment {
                address,
                pages: vec![page],
                stored,
            }),
        }
    }
    segments
}

/// The pages that are in files elsewhere, neighbours together.
pub(crate) fn references(capsule: &Capsule) -> Vec<Reference> {
    let mut all: Vec<Reference> = Vec::new();
    for (&address, page) in &capsule.pages {
        let Content::File { file, offset } = page.entry else {
            continue;
        };
        let continues = all.last_mut().filter(|last| {
            last.file == file
                && last.address + last.pages * PAGE == address
                && last.offset + last.pages * PAGE == offset
        });
        match continues {
            Some(last) => last.pages += 1,
            None => all.push(Reference {
                address,
                pages: 1,
                file,
                offset,
            }),
        }
    }
    all
}
