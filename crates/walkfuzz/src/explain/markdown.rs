//! The page for a bug tracker: GitHub's Markdown, which other trackers' importers read as well.

use std::fmt::Write as _;

use super::page::{Block, Line, Page, pieces};

pub(crate) fn render(page: &Page) -> String {
    let mut text = format!("# {}\n", escaped(&page.title));
    for section in &page.sections {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n## {}", section.title);
        for block in &section.blocks {
            text.push('\n');
            block_into(&mut text, block);
        }
    }
    text
}

fn block_into(text: &mut String, block: &Block) {
    match block {
        Block::Text(paragraph) => {
            for (code, piece) in pieces(paragraph) {
                // A span of blanks is no span.
                if code && !piece.trim().is_empty() {
                    let _ = write!(text, "`{}`", piece.replace(['\n', '\r'], " "));
                } else {
                    text.push_str(&escaped(piece));
                }
            }
            text.push('\n');
        }
        Block::Facts(facts) => {
            for (label, value) in facts {
                let _ = writeln!(text, "- **{label}**: {}", escaped(value));
            }
        }
        Block::Table { head, rows } => {
            let _ = writeln!(text, "| {} |", head.join(" | "));
            let _ = writeln!(text, "|{}", "---|".repeat(head.len()));
            for row in rows {
                let cells = row.cells.iter().map(|cell| cell_of(cell, row.marked));
                let cells: Vec<String> = cells.collect();
                let _ = writeln!(text, "| {} |", cells.join(" | "));
            }
        }
        Block::Code(lines) => fenced(text, "", lines),
        Block::Commands(commands) => {
            let lines: Vec<Line> = commands
                .iter()
                .map(|command| Line::new(false, [command.clone()]))
                .collect();
            fenced(text, "sh", &lines);
        }
    }
}

fn cell_of(cell: &str, marked: bool) -> String {
    let cell = escaped(cell);
    if marked && !cell.is_empty() {
        format!("**{cell}**")
    } else {
        cell
    }
}

/// Lines between fences that are longer than any run of backticks in them.
fn fenced(text: &mut String, language: &str, lines: &[Line]) {
    let has_mark = lines.iter().any(|line| line.marked);
    let body: Vec<String> = lines
        .iter()
        .map(|line| match (has_mark, line.marked) {
            (false, _) => line.text(),
            (true, true) => format!("> {}", line.text()),
            (true, false) => format!("  {}", line.text()),
        })
        .collect();
    let longest = body
        .iter()
        .flat_map(|line| line.split(|c| c != '`'))
        .map(str::len)
        .max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let _ = write!(text, "{fence}{language}\n{}\n{fence}\n", body.join("\n"));
}

/// Text in which nothing is markup. Line breaks would end a table's row.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_finding_is_markup() {
        assert_eq!(
            escaped("a.<init>(I)V | `x` [y](z) *b* &lt; c_d"),
            r"a.\<init\>(I)V \| \`x\` \[y\](z) \*b\* &amp;lt; c\_d"
        );
        assert_eq!(escaped("a\nb"), "a b");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let mut text = String::new();
        fenced(&mut text, "sh", &[Line::new(false, ["a ````b".to_owned()])]);
        assert_eq!(text, "`````sh\na ````b\n`````\n");
    }
}
