//! Values in the options of our agents, where commas and equals signs have a meaning.

/// What a value says: `%2C`, `%3D` and `%25` stand for `,`, `=` and `%`, and `%p` for the process id. `None` for another `%`.
#[must_use]
pub fn unescaped(text: &str, pid: u32) -> Option<String> {
    let mut clear = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        clear.push_str(before);
        let escapes = [("%2C", ","), ("%3D", "="), ("%25", "%")];
        if let Some(after) = escape.strip_prefix("%p") {
            clear.push_str(&pid.to_string());
            rest = after;
            continue;
        }
        let (_, meaning) = escapes.iter().find(|(code, _)| {
            escape
                .get(..3)
                .is_some_and(|head| head.eq_ignore_ascii_case(code))
        })?;
        clear.push_str(meaning);
        rest = escape.get(3..).unwrap_or("");
    }
    clear.push_str(rest);
    Some(clear)
}

/// A value as options need it: what [`unescaped`] reads back.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace(',', "%2C")
        .replace('=', "%3D")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_read_back() {
        let text = "/a,b=c/100%/%p";
        assert_eq!(unescaped(&escaped(text), 7).as_deref(), Some(text));
        assert_eq!(unescaped("r-%p.map", 7).as_deref(), Some("r-7.map"));
        assert_eq!(unescaped("50%", 7), None);
    }
}
