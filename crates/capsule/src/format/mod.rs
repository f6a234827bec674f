//! The file: an ELF core of the walk, inside zstd. docs/capsules.md describes it.

pub(crate) mod debugger;
pub(crate) mod hexadecimal;
pub mod limits;
mod lines;
mod notes;
mod read;
mod segments;
mod write;

#[cfg(test)]
mod tests;

/// The owner of our notes.
pub(crate) const OWNER: &str = "WALKFUZZ";
/// The note types.
pub(crate) const FACTS: u32 = 1;
pub(crate) const LAYOUT: u32 = 2;
pub(crate) const ENTRY_PAGES: u32 = 3;
pub(crate) const REFERENCES: u32 = 4;
pub(crate) const OPINION: u32 = 5;

/// What messages call a note.
pub(crate) const fn note_name(kind: u32) -> &'static str {
    match kind {
        FACTS => "facts",
        LAYOUT => "layout",
        ENTRY_PAGES => "entry pages",
        OPINION => "second opinion",
        _ => "references",
    }
}
