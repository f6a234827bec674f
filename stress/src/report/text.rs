//! Text for a terminal: what fits, what may be pasted, what must not reach it.

use walkfuzz_record::KOfN;
use walkfuzz_record::render::numbers::significant;

/// Columns of a terminal.
pub(super) const COLUMNS: usize = 80;

/// A rate in as few characters as a table has.
pub(super) fn per_million(count: KOfN) -> String {
    let interval = count.interval();
    match (count.share(), count.k) {
        (None, _) => "-".to_owned(),
        (_, 0) => format!("under {}", significant(interval.high * 1e6)),
        (Some(share), _) => format!(
            "{} ({}-{})",
            significant(share * 1e6),
            significant(interval.low * 1e6),
            significant(interval.high * 1e6)
        ),
    }
}

pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Without control characters: what a program printed must not drive the terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// As much of it as there is room for.
pub(super) fn fit(text: &str, room: usize) -> String {
    let text = clean(text);
    if width(&text) <= room {
        return text;
    }
    let kept: String = text.chars().take(room.saturating_sub(3)).collect();
    kept + &"..."[..room.min(3)]
}

/// A command behind its label; one that does not fit has lines of its own, which can be pasted as they are.
pub(super) fn folded(label: &str, command: &str) -> Vec<String> {
    let command = clean(command);
    if width(label) + width(&command) <= COLUMNS {
        return vec![format!("{label}{command}")];
    }
    let mut lines = vec![label.to_owned()];
    let mut line = String::new();
    for word in words(&command) {
        if !line.is_empty() && width(&line) + width(word) + 3 > COLUMNS {
            lines.push(line + " \\");
            line = String::new();
        }
        line += if line.is_empty() { "  " } else { " " };
        line += word;
    }
    lines.push(line);
    lines
}

/// Words at blanks that are not quoted.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut begin, mut quote) = (0, None);
    for (at, c) in command.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => {
                words.push(&command[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.push(&command[begin..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Rows that lines take, those included that are longer than a row.
pub(super) fn rows(lines: &[String]) -> usize {
    lines
        .iter()
        .map(|line| width(line).div_ceil(COLUMNS).max(1))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stay_pasteable() {
        let filter = "'jdk=17 & workload=a b'";
        let long = format!("walkfuzz stress --filter {filter} {}", "--word ".repeat(20));
        let lines = folded("again     ", long.trim_end());
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert_eq!(rows(&lines), 4, "{lines:#?}");
        assert!(lines[1].contains(filter));
        let pasted = lines[1..].join("\n").replace("\\\n", "");
        let words: Vec<&str> = pasted.split_whitespace().collect();
        assert_eq!(words, long.split_whitespace().collect::<Vec<_>>());
        assert_eq!(folded("again     ", "walkfuzz x"), ["again     walkfuzz x"]);
    }

    #[test]
    fn a_word_longer_than_a_row_takes_its_rows() {
        let lines = folded("again     ", &format!("walkfuzz {}", "x".repeat(200)));
        assert_eq!(rows(&lines), 5, "{lines:#?}");
    }

    #[test]
    fn programs_cannot_drive_the_terminal() {
        assert_eq!(fit("\x1b[2Jgone\n", 80), " [2Jgone ");
        assert_eq!(fit("abcdefgh", 6), "abc...");
    }
}
