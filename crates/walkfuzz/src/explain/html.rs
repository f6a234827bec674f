//! The page as one file of HTML: no script, nothing from elsewhere, readable in light and dark.

use std::fmt::Write as _;

use super::page::{Block, Page, pieces};

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1a1a1a; --ground: #ffffff; --faint: #6a6a6a; --line: #dddddd; --panel: #f5f5f5; --mark: #fff1c2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --ground: #17181a; --faint: #9a9a9a; --line: #3a3b3e; --panel: #212327; --mark: #4d4012; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 70rem; color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { margin-top: 2rem; border-bottom: 1px solid var(--line); font-size: 1.1rem; }
pre, code, td, .value { font: 13px/1.5 ui-monospace, monospace; }
pre { padding: .7rem; overflow-x: auto; background: var(--panel); border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th { color: var(--faint); font-weight: normal; text-align: left; }
th, td { padding: .1rem 1.2rem .1rem 0; vertical-align: top; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.marked { background: var(--mark); }
pre .marked { display: inline-block; min-width: 100%; }
";

pub(crate) fn render(page: &Page) -> String {
    let title = escaped(&page.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for section in &page.sections {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "<h2>{}</h2>", escaped(section.title));
        for block in &section.blocks {
            block_into(&mut text, block);
        }
    }
    text.push_str("</body>\n</html>\n");
    text
}

fn block_into(text: &mut String, block: &Block) {
    match block {
        Block::Text(paragraph) => {
            text.push_str("<p>");
            for (code, piece) in pieces(paragraph) {
                let piece = escaped(piece);
                let _ = if code {
                    write!(text, "<code>{piece}</code>")
                } else {
                    write!(text, "{piece}")
                };
            }
            text.push_str("</p>\n");
        }
        Block::Facts(facts) => {
            text.push_str("<dl>\n");
            for (label, value) in facts {
                let (label, value) = (escaped(label), escaped(value));
                let _ = writeln!(text, "<dt>{label}</dt><dd class=\"value\">{value}</dd>");
            }
            text.push_str("</dl>\n");
        }
        Block::Table { head, rows } => {
            text.push_str("<div class=\"wide\"><table>\n<tr>");
            for cell in head {
                let _ = write!(text, "<th>{}</th>", escaped(cell));
            }
            text.push_str("</tr>\n");
            for row in rows {
                text.push_str(if row.marked {
                    "<tr class=\"marked\">"
                } else {
                    "<tr>"
                });
                for cell in &row.cells {
                    let _ = write!(text, "<td>{}</td>", escaped(cell));
                }
                text.push_str("</tr>\n");
            }
            text.push_str("</table></div>\n");
        }
        Block::Code(lines) => {
            text.push_str("<pre>");
            for line in lines {
                let body = escaped(&line.text());
                if line.marked {
                    let _ = writeln!(text, "<span class=\"marked\">{body}</span>");
                } else {
                    let _ = writeln!(text, "{body}");
                }
            }
            text.push_str("</pre>\n");
        }
        Block::Commands(commands) => {
            let lines: Vec<String> = commands.iter().map(|command| escaped(command)).collect();
            let _ = writeln!(text, "<pre>{}</pre>", lines.join("\n"));
        }
    }
}

/// Text in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
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
        let page = Page {
            title: "<script>alert('&')</script>".to_owned(),
            sections: Vec::new(),
        };
        let text = render(&page);
        assert!(!text.contains("<script"));
        assert!(text.contains("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"));
    }
}
