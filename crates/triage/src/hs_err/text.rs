//! Taking apart lines that a dying process wrote: every function takes any text, and none panics.

use std::borrow::Cow;

/// Lines longer than this are cut: a class path may be long, a damaged file may be one line.
const LONGEST_LINE: usize = 16 << 10;

/// The lines of a log, without their ends; bytes that are no UTF-8 are replaced.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    bytes.split(|byte| *byte == b'\n').map(|line| {
        let line = &line[..line.len().min(LONGEST_LINE)];
        String::from_utf8_lossy(line.trim_ascii_end())
    })
}

/// `0x1f` as a number; nothing may follow.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The number that hexadecimal digits in front make; anything may follow.
pub(super) fn hexadecimal_prefix(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}

/// The hexadecimal number behind `key`, which ends with `0x`.
pub(super) fn hexadecimal_after(line: &str, key: &str) -> Option<u64> {
    hexadecimal_prefix(line.split_once(key)?.1)
}

/// The decimal number behind `key`.
pub(super) fn number_after(line: &str, key: &str) -> Option<u32> {
    let rest = line.split_once(key)?.1;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The decimal number, perhaps negative, behind `key` and blanks.
pub(super) fn signed_after(line: &str, key: &str) -> Option<i32> {
    let rest = line.split_once(key)?.1.trim_start();
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '-'))
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The first two hexadecimal numbers of the bracket behind `key`: `stack(0x1,0x2)`, `[0x1, 0x2)`.
pub(super) fn range_after(line: &str, key: &str) -> Option<(u64, u64)> {
    let rest = line.split_once(key)?.1;
    let (low, rest) = rest.split_once("0x")?.1.split_once([',', '-', ' '])?;
    let high = rest.split_once("0x")?.1;
    Some((hexadecimal_prefix(low)?, hexadecimal_prefix(high)?))
}

/// The first word, and what follows it.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Splits `name<separator>number`; the whole text if there is no number.
pub(super) fn split_number<'a>(
    text: &'a str,
    separator: &str,
    radix: u32,
) -> (&'a str, Option<u64>) {
    match text.rsplit_once(separator) {
        Some((name, number)) => match u64::from_str_radix(number, radix) {
            Ok(number) => (name, Some(number)),
            Err(_) => (text, None),
        },
        None => (text, None),
    }
}

/// Puts `item` into a list that a damaged log must not make grow without end.
pub(super) fn push_bounded<T>(list: &mut Vec<T>, most: usize, item: T) {
    if list.len() < most {
        list.push(item);
    }
}
