//! Templates: files as they will be, with lines between `//@if NAME,NAME...` and `//@end` that are kept only if one of the names is asked
//! for, and `{{NAME}}` for texts.
//!
//! The directives are this crate's own, so mistakes in them are for its tests to find: what is unknown stays as it is.

/// Renders `template`. `wanted` says which conditional parts stay, `texts` what replaces `{{NAME}}`.
pub(crate) fn render(
    template: &str,
    wanted: impl Fn(&str) -> bool,
    texts: &[(&str, &str)],
) -> String {
    let mut kept = Vec::new();
    let mut open: Vec<bool> = Vec::new();
    for line in template.lines() {
        if let Some(names) = line.strip_prefix("//@if ") {
            open.push(names.split(',').any(&wanted));
        } else if line == "//@end" {
            open.pop();
        } else if open.iter().all(|stays| *stays) {
            kept.push(line);
        }
    }
    let mut text = kept.join("\n");
    text.push('\n');
    for (name, value) in texts {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_if_one_of_their_names_is_wanted_and_all_around_them_stay() {
        let template = "a\n//@if x,y\nb {{T}}\n//@if z\nc\n//@end\n//@end\n//@if z\n//@if x\nd\n//@end\n//@end\ne";
        let with = |names: &[&str]| render(template, |name| names.contains(&name), &[("T", "t")]);
        assert_eq!(with(&[]), "a\ne\n");
        assert_eq!(with(&["y"]), "a\nb t\ne\n");
        assert_eq!(with(&["x", "z"]), "a\nb t\nc\nd\ne\n");
        assert_eq!(with(&["z"]), "a\ne\n");
    }
}
