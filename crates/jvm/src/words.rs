//! Splitting a line of options into words, as a shell would, without expanding anything.

/// Splits at white space; single and double quotes keep it, a backslash outside single quotes keeps the next character.
pub(crate) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                let next = chars
                    .next()
                    .ok_or("options that do not end with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, Some(open)) if c == open => quote = None,
            (_, None) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("options whose quotes are closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_split_like_a_shells() {
        assert_eq!(split("").unwrap(), [""; 0]);
        assert_eq!(split("  -Xint\t-Xss1m\n").unwrap(), ["-Xint", "-Xss1m"]);
        assert_eq!(
            split("-Da='b c' \"-De=f \\\"g\\\"\" h\\ i ''").unwrap(),
            ["-Da=b c", "-De=f \"g\"", "h i", ""]
        );
        assert_eq!(split("'a\\b'").unwrap(), ["a\\b"]);
        assert!(split("-Da='b").is_err());
        assert!(split("a\\").is_err());
    }
}
