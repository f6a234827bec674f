//! The page for a terminal.

use std::fmt::Write as _;

use super::page::{Block, Line, Page};
use crate::table::table;

/// Paragraphs are broken before this column; tables and code are as wide as they are.
const WIDTH: usize = 100;

pub(crate) fn render(page: &Page) -> String {
    let mut text = format!(
        "{}\n{}\n",
        page.title,
        "=".repeat(page.title.chars().count())
    );
    for section in &page.sections {
        let line = "-".repeat(section.title.chars().count());
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}\n{line}\n", section.title);
        for block in &section.blocks {
            block_into(&mut text, block);
        }
    }
    text
}

fn block_into(text: &mut String, block: &Block) {
    match block {
        Block::Text(paragraph) => text.push_str(&wrapped(paragraph, 0)),
        Block::Facts(facts) => {
            let width = facts
                .iter()
                .map(|(label, _)| label.len())
                .max()
                .unwrap_or(0);
            for (label, value) in facts {
                let indent = width + 2;
                let lines = wrapped(value, indent);
                let first = lines.trim_start_matches(' ');
                let _ = write!(text, "{label:<width$}  {first}");
            }
        }
        Block::Table { head, rows } => {
            let head = head.iter().map(|cell| (*cell).to_owned());
            let mut all = vec![Line::new(false, head)];
            all.extend(rows.iter().cloned());
            let marked: Vec<Vec<String>> = all
                .into_iter()
                .map(|row| {
                    let mark = if row.marked { ">" } else { " " };
                    std::iter::once(mark.to_owned()).chain(row.cells).collect()
                })
                .collect();
            text.push_str(&table(&marked));
        }
        Block::Code(lines) => {
            for line in lines {
                let mark = if line.marked { ">" } else { " " };
                let _ = writeln!(text, "{mark}  {}", line.text());
            }
        }
        Block::Commands(commands) => {
            for command in commands {
                let _ = writeln!(text, "   {command}");
            }
        }
    }
}

/// Broken at spaces, each line indented. A word that is too long stays whole.
fn wrapped(paragraph: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && indent + column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column == 0 {
            text.push_str(&" ".repeat(indent));
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_at_spaces() {
        let text = wrapped(&"word ".repeat(60), 4);
        assert!(
            text.lines()
                .all(|line| line.len() <= WIDTH && line.starts_with("    word"))
        );
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(wrapped("", 4), "\n");
    }
}
