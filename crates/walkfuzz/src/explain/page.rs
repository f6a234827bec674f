//! A page about a finding: typed sections, which each format renders in its own way.
//!
//! Plain text only: escaping and layout are the formats' business.

use serde::Serialize;

/// The page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

/// One section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// What a section consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Block {
    /// A paragraph; what stands between backticks is code.
    Text(String),
    /// Labels and what belongs to them.
    Facts(Vec<(&'static str, String)>),
    /// Rows below a head.
    Table {
        head: Vec<&'static str>,
        rows: Vec<Line>,
    },
    /// Lines as they stand.
    Code(Vec<Line>),
    /// Commands to paste.
    Commands(Vec<String>),
}

/// A row or a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// Whether this is what the reader looks for.
    pub(crate) marked: bool,
    /// One for a line of code.
    pub(crate) cells: Vec<String>,
}

impl Line {
    pub(crate) fn new(marked: bool, cells: impl IntoIterator<Item = String>) -> Self {
        Self {
            marked,
            cells: cells.into_iter().collect(),
        }
    }

    /// The only cell, or the cells beside each other.
    pub(crate) fn text(&self) -> String {
        self.cells.join("  ")
    }
}

/// The pieces of a paragraph: whether each is code, and its text. Backticks that have no partner are text.
pub(crate) fn pieces(paragraph: &str) -> Vec<(bool, &str)> {
    let pieces: Vec<&str> = paragraph.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return vec![(false, paragraph)];
    }
    let numbered = pieces.into_iter().enumerate();
    numbered
        .map(|(index, piece)| (index % 2 == 1, piece))
        .filter(|(_, piece)| !piece.is_empty())
        .collect()
}

impl Section {
    pub(crate) fn new(title: &'static str, blocks: Vec<Block>) -> Self {
        Self { title, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        assert_eq!(
            pieces("at `mov`, then"),
            [(false, "at "), (true, "mov"), (false, ", then")]
        );
        assert_eq!(pieces("a ` b"), [(false, "a ` b")]);
        assert_eq!(pieces("``"), []);
    }
}
