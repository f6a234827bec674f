//! Names for people: demangled, and cut down to what tells two functions apart in a signature.
//!
//! A signature must be the same for every JDK, compiler and inlining decision, so that [`short_name`] drops parameters,
//! return types, template arguments, anonymous namespaces and the suffixes of compiler-made clones. Overloads therefore
//! share a short name.

use cpp_demangle::{DemangleOptions, Symbol};

/// The name as its programmer wrote it; unchanged if it is not mangled. A clone (`.part.0`, `.cold`) is named as the
/// function it comes from.
#[must_use]
pub fn demangle(mangled: &str) -> String {
    let name = without_suffixes(mangled);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if let Some(target) = behind_thunk(name) {
        return demangle(&format!("_Z{target}"));
    }
    if name.starts_with("_Z") {
        // Names of hostile depth make the demangler give up by itself; what it cannot read stays as it is.
        if let Ok(symbol) = Symbol::new(name.as_bytes())
            && let Ok(text) = symbol.demangle_with_options(&DemangleOptions::default())
        {
            return match text
                .strip_prefix("{vtable(")
                .and_then(|t| t.strip_suffix(")}"))
            {
                Some(class) => format!("vtable for {class}"),
                None => text,
            };
        }
    }
    name.to_owned()
}

/// The qualified name alone, from a demangled name as [`demangle`], c++filt or a crash log print it.
///
/// `frame::sender_for_compiled_frame(RegisterMap*) const` becomes `frame::sender_for_compiled_frame`.
#[must_use]
pub fn short_name(demangled: &str) -> String {
    let mut name = demangled.trim();
    for prefix in ["non-virtual thunk to ", "virtual thunk to "] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    for special in [
        "vtable for ",
        "VTT for ",
        "typeinfo for ",
        "typeinfo name for ",
        "guard variable for ",
    ] {
        if let Some(rest) = name.strip_prefix(special) {
            return format!("{special}{}", short_name(rest));
        }
    }
    Scanner {
        text: name,
        at: 0,
        out: String::with_capacity(name.len()),
    }
    .run()
}

/// What a thunk (`_ZThn40_`, `_ZTv0_n24_`), which adjusts `this` and jumps, jumps to.
fn behind_thunk(mangled: &str) -> Option<&str> {
    let (rest, offsets) = if let Some(rest) = mangled.strip_prefix("_ZTh") {
        (rest, 1)
    } else {
        (mangled.strip_prefix("_ZTv")?, 2)
    };
    (0..offsets).try_fold(rest, |rest, _| {
        let rest = rest.strip_prefix('n').unwrap_or(rest);
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix('_')
    })
}

/// Removes symbol versions (`@@GLIBC_2.34`) and compiler-made suffixes (`.part.0`, `.llvm.123`).
fn without_suffixes(mangled: &str) -> &str {
    let name = mangled.split('@').next().unwrap_or(mangled);
    match name.find('.') {
        // A leading dot is part of a name such as `.annobin`.
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

const OPERATORS: [&str; 41] = [
    "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++",
    "--", "->", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<", ">", "+", "-", "*", "/", "%",
    "^", "&", "|", "~", "!", "=", ",", "\"\"", "co_await",
];

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    out: String,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn run(mut self) -> String {
        // Rust writes `<Type as Trait>::method`; the type is the name.
        if self.text.starts_with('<') {
            let end = group_end(self.text);
            let inside = self.text[1..end].trim_end_matches('>');
            let of = inside.split(" as ").next().unwrap_or(inside);
            self.out = short_name(of.trim_start_matches(['&', ' ']).trim_start_matches("mut "));
            self.at = end;
        }
        while let Some(c) = self.rest().chars().next() {
            if self.rest().starts_with("operator") && self.operator() {
                continue;
            }
            match c {
                '<' => {
                    self.at += group_end(self.rest());
                    // Rust's turbofish: `Vec::<u8>::push`.
                    if self.out.ends_with("::") {
                        self.out.truncate(self.out.len() - 2);
                    }
                }
                '(' if self.rest().starts_with("(anonymous namespace)::") => {
                    self.at += "(anonymous namespace)::".len()
                }
                '(' if self.rest().starts_with("(anonymous namespace)") => {
                    self.at += "(anonymous namespace)".len()
                }
                '(' => {
                    self.at += group_end(self.rest());
                    let after = self.rest().strip_prefix(" const").unwrap_or(self.rest());
                    if !after.starts_with("::") {
                        break;
                    }
                    self.at = self.text.len() - after.len();
                }
                '[' => break,
                '{' => self.brace(),
                ' ' => {
                    if self.rest().trim_start().starts_with('[') {
                        break;
                    }
                    // All before was a return type.
                    self.out.clear();
                    self.at += 1;
                }
                '+' if self.rest().starts_with("+0x") => break,
                '*' | '&' if self.out.is_empty() => self.at += 1,
                '.' if is_clone_suffix(self.rest()) => break,
                _ => {
                    self.out.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        if self.out.is_empty() {
            return self.text.to_owned();
        }
        self.out
    }

    /// `{lambda(int)#1}` keeps its number and loses its parameters.
    fn brace(&mut self) {
        let end = group_end(self.rest());
        let inside = self.rest()[..end].to_owned();
        match (inside.find('('), inside.rfind(')')) {
            (Some(open), Some(close)) if open < close => {
                self.out.push_str(&inside[..open]);
                self.out.push_str(&inside[close + 1..]);
            }
            _ => self.out.push_str(&inside),
        }
        self.at += end;
    }

    /// Copies an operator's name, whose characters otherwise mean brackets and spaces. `false`: it is no operator.
    fn operator(&mut self) -> bool {
        let word = "operator".len();
        let boundary = self.out.is_empty() || self.out.ends_with("::");
        let rest = self.rest();
        let after = &rest[word..];
        let taken = if !boundary {
            None
        } else if let Some(symbol) = OPERATORS.iter().find(|symbol| after.starts_with(**symbol)) {
            Some(word + symbol.len())
        } else if after.starts_with(' ') {
            // `operator new[]`, or a conversion: everything up to the parameters.
            Some(rest.find('(').unwrap_or(rest.len()))
        } else {
            None
        };
        let Some(taken) = taken else { return false };
        let text = rest[..taken].to_owned();
        self.out.push_str(&text);
        self.at += taken;
        true
    }
}

fn is_clone_suffix(rest: &str) -> bool {
    [
        ".part.",
        ".constprop.",
        ".isra.",
        ".cold",
        ".lto_priv.",
        ".llvm.",
    ]
    .iter()
    .any(|suffix| rest.starts_with(suffix))
}

/// Where the bracket that `text` begins with is closed (the index behind it), or the end of `text`.
fn group_end(text: &str) -> usize {
    let mut open = Vec::new();
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => open.push(c),
            // `->` and, inside parentheses, a comparison or shift close nothing.
            '>' if previous == '-' || open.last() != Some(&'<') => {}
            '>' | ')' | '}' | ']' => {
                let partner = match c {
                    '>' => '<',
                    ')' => '(',
                    '}' => '{',
                    _ => '[',
                };
                while let Some(top) = open.pop() {
                    if top == partner {
                        break;
                    }
                }
                if open.is_empty() {
                    return at + 1;
                }
            }
            _ => {}
        }
        previous = c;
    }
    text.len()
}
