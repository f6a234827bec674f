//! Text from findings, capsules and crash logs, on its way to a terminal or a page: what would command the terminal is shown instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with control characters and marks of writing direction as escapes, `\x1b`, `\u{202e}`; line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match c {
            c if !is_hidden(c) => shown.write_char(c),
            c if (c as u32) < 0x100 => write!(shown, "\\x{:02x}", c as u32),
            c => write!(shown, "\\u{{{:x}}}", c as u32),
        };
    }
    Cow::Owned(shown)
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_commands_the_terminal() {
        let hostile = "a\x1b[31m\u{9b}1m\x07\r\x7f\u{202e}b\tc\nd é";
        assert_eq!(
            visible(hostile),
            "a\\x1b[31m\\x9b1m\\x07\\x0d\\x7f\\u{202e}b\tc\nd é"
        );
    }
}
