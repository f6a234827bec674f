//! The notes with binary content: layout, pages as they were at the entry, pages by reference, what a second opinion read.
//!
//! Everything is little-endian. Numbers of pages in the layout are LEB128, because there are many and most are small.

use std::collections::BTreeMap;

use crate::capsule::{Layout, PageBytes, Protection};
use crate::error::FormatError;
use crate::format::limits::{self, PAGE};
use crate::format::{ENTRY_PAGES, LAYOUT, OPINION, REFERENCES, lines, note_name};
use crate::opinion::{Opinion, OpinionFacts};

/// Bytes of a word.
const WORD: u64 = 8;

/// Reads a note from its begin; every step says whether there was enough.
struct Input<'a> {
    rest: &'a [u8],
    note: u32,
}

impl<'a> Input<'a> {
    fn bad(&self, what: &'static str) -> FormatError {
        FormatError::BadNote {
            note: note_name(self.note),
            what,
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.bad("it is cut off"))?;
        self.rest = rest;
        Ok(head)
    }

    fn word(&mut self) -> Result<u64, FormatError> {
        let bytes = self.take(8)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    fn byte(&mut self) -> Result<u8, FormatError> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    /// LEB128, of at most 52 bits: a number of pages.
    fn pages(&mut self) -> Result<u64, FormatError> {
        let mut number = 0;
        for shift in (0..56).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.bad("a number is too big"))
    }
}

fn put_pages(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Each range as free pages before it, its pages, its protection.
pub(crate) fn put_layout(layout: &Layout) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0;
    for (range, protection) in layout.ranges() {
        put_pages(&mut out, (range.start - end) / PAGE);
        put_pages(&mut out, (range.end - range.start) / PAGE);
        out.push(protection.0);
        end = range.end;
    }
    out
}

pub(crate) fn take_layout(bytes: &[u8]) -> Result<Layout, FormatError> {
    let mut input = Input {
        rest: bytes,
        note: LAYOUT,
    };
    let mut layout = Layout::default();
    let mut end = 0_u64;
    while !input.rest.is_empty() {
        let (free, pages, protection) = (input.pages()?, input.pages()?, input.byte()?);
        if protection > 7 {
            return Err(input.bad("a protection is no protection"));
        }
        let most = limits::USER_SPACE / PAGE;
        if pages == 0 || free > most || pages > most {
            return Err(input.bad("a range is empty or too big"));
        }
        let start = end + free * PAGE;
        end = start + pages * PAGE;
        if end > limits::USER_SPACE {
            return Err(input.bad("a range lies outside of user space"));
        }
        layout.push(start..end, Protection(protection));
        let found = layout.ranges().len() as u64;
        if found > limits::RANGES {
            return Err(FormatError::TooMany {
                what: "ranges of addresses",
                found,
                limit: limits::RANGES,
            });
        }
    }
    Ok(layout)
}

/// Each page as its address, which of its 64 lines are not zero, and these.
pub(crate) fn put_entry_pages<'a>(
    pages: impl Iterator<Item = (u64, Option<&'a PageBytes>)>,
) -> Vec<u8> {
    let mut out = Vec::new();
    for (address, bytes) in pages {
        out.extend(address.to_le_bytes());
        let lines: Vec<&[u8]> = bytes.map_or(Vec::new(), |bytes| lines::of(bytes).collect());
        let mut present = 0_u64;
        for (index, line) in lines.iter().enumerate() {
            present |= u64::from(line.iter().any(|byte| *byte != 0)) << index;
        }
        out.extend(present.to_le_bytes());
        let kept = lines.iter().enumerate();
        for (_, line) in kept.filter(|(index, _)| present >> index & 1 != 0) {
            out.extend(*line);
        }
    }
    out
}

pub(crate) fn take_entry_pages(bytes: &[u8]) -> Result<BTreeMap<u64, Box<PageBytes>>, FormatError> {
    let mut input = Input {
        rest: bytes,
        note: ENTRY_PAGES,
    };
    let mut pages = BTreeMap::new();
    while !input.rest.is_empty() {
        let (address, present) = (input.word()?, input.word()?);
        let mut page = Box::new([0; PAGE as usize]);
        for (index, line) in lines::of_mut(&mut page).enumerate() {
            if present >> index & 1 != 0 {
                line.copy_from_slice(input.take(line.len())?);
            }
        }
        if pages.insert(address, page).is_some() {
            return Err(input.bad("a page is there twice"));
        }
        if pages.len() as u64 > limits::PAGES {
            return Err(input.bad("it has too many pages"));
        }
    }
    Ok(pages)
}

/// Pages that are in a file elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) address: u64,
    pub(crate) pages: u64,
    pub(crate) file: u16,
    pub(crate) offset: u64,
}

pub(crate) fn put_references(references: &[Reference]) -> Vec<u8> {
    let mut out = Vec::new();
    for reference in references {
        for word in [
            reference.address,
            reference.pages,
            u64::from(reference.file),
            reference.offset,
        ] {
            out.extend(word.to_le_bytes());
        }
    }
    out
}

pub(crate) fn take_references(bytes: &[u8]) -> Result<Vec<Reference>, FormatError> {
    let mut input = Input {
        rest: bytes,
        note: REFERENCES,
    };
    let mut references = Vec::new();
    while !input.rest.is_empty() {
        let (address, pages) = (input.word()?, input.word()?);
        let (file, offset) = (input.word()?, input.word()?);
        let file = u16::try_from(file).map_err(|_| input.bad("a file's number is too big"))?;
        let inside = |at: u64| at.is_multiple_of(PAGE) && at < limits::USER_SPACE;
        if !inside(address) || !inside(offset) || pages == 0 || pages > limits::PAGES {
            return Err(input.bad("a reference is not made of whole pages"));
        }
        references.push(Reference {
            address,
            pages,
            file,
            offset,
        });
        if references.len() as u64 > limits::PAGES {
            return Err(input.bad("it has too many references"));
        }
    }
    Ok(references)
}

/// How long the facts are, the facts as JSON, then each run of words that follow one another as its address, how many there are, and these.
pub(crate) fn put_opinion(opinion: &Opinion) -> Vec<u8> {
    // Strings, numbers and lists of them: always possible.
    let facts = serde_json::to_vec(&opinion.facts).unwrap_or_default();
    let mut out = (facts.len() as u64).to_le_bytes().to_vec();
    out.extend(facts);
    let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
    for (&address, &word) in &opinion.words {
        match runs.last_mut() {
            Some((start, words)) if *start + words.len() as u64 * WORD == address => {
                words.push(word);
            }
            _ => runs.push((address, vec![word])),
        }
    }
    for (start, words) in runs {
        for word in [start, words.len() as u64].into_iter().chain(words) {
            out.extend(word.to_le_bytes());
        }
    }
    out
}

pub(crate) fn take_opinion(bytes: &[u8]) -> Result<Opinion, FormatError> {
    let mut input = Input {
        rest: bytes,
        note: OPINION,
    };
    let length = input.word()?;
    if length > limits::FACTS {
        return Err(FormatError::TooMany {
            what: "bytes of a second opinion's facts",
            found: length,
            limit: limits::FACTS,
        });
    }
    let length = length as usize;
    let facts: OpinionFacts =
        serde_json::from_slice(input.take(length)?).map_err(FormatError::Facts)?;
    let moves_cursors = |text: &String| text.chars().any(char::is_control);
    let mut names = facts.symbols.iter().map(|symbol| &symbol.name);
    if moves_cursors(&facts.walker) || names.any(moves_cursors) {
        return Err(input.bad("a text has control characters"));
    }
    let mut words = BTreeMap::new();
    while !input.rest.is_empty() {
        let (start, length) = (input.word()?, input.word()?);
        let left = limits::OPINION_WORDS - words.len() as u64;
        if length > left {
            return Err(input.bad("it has too many words"));
        }
        if !start.is_multiple_of(WORD) || start > limits::USER_SPACE - length * WORD {
            return Err(input.bad("a word is no word of user space"));
        }
        for index in 0..length {
            if words.insert(start + index * WORD, input.word()?).is_some() {
                return Err(input.bad("a word is there twice"));
            }
        }
    }
    Ok(Opinion { facts, words })
}
