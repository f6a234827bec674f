//! What the documentation says must exist: files that it links to, variables, commands, targets, code.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use walkfuzz_harness::VARIABLES;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents for users: path from the root, and text.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            paths.push(format!("docs/{name}"));
        }
    }
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    paths
        .into_iter()
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

/// The fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside: Option<(bool, String)> = None;
    for line in text.lines() {
        match (line.trim().strip_prefix("```"), &mut inside) {
            (Some(_), Some(_)) => {
                let (wanted, block) = inside.take().unwrap();
                if wanted {
                    blocks.push(block);
                }
            }
            (Some(found), None) => inside = Some((found == language, String::new())),
            (None, Some((_, block))) => *block = format!("{block}{line}\n"),
            (None, None) => {}
        }
    }
    assert!(inside.is_none(), "a fence is not closed");
    blocks
}

/// Names of our variables in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_variable = |name: &str| !name.contains(|c: char| c.is_ascii_lowercase());
    text.match_indices("WALKFUZZ_")
        .map(|(at, _)| {
            let rest = &text[at..];
            rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].to_owned()
        })
        .filter(|name| name != "WALKFUZZ_" && is_variable(name) && !is_of_a_header(name))
        .collect()
}

/// Whether a header for other people's programs defines it: no variable of the environment.
fn is_of_a_header(name: &str) -> bool {
    const HEADERS: [&str; 2] = [
        include_str!("../../walkers/include/walkfuzz_walker.h"),
        include_str!("../../asgst/include/asgst_queue.h"),
    ];
    HEADERS.iter().any(|header| {
        let mut words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| word == name)
    })
}

/// Files below a folder, without what builds leave there.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[test]
fn links_resolve() {
    let mut checked = 0;
    for (path, text) in documents() {
        let folder = root().join(&path).parent().unwrap().to_owned();
        for (at, _) in text.match_indices("](") {
            let target = &text[at + 2..];
            let target = &target[..target.find(')').unwrap()];
            if target.contains("://") || target.starts_with('#') {
                continue;
            }
            let file = target.split('#').next().unwrap();
            assert!(folder.join(file).exists(), "{path} links to {target}");
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} links");
}

#[test]
fn every_document_can_be_reached_from_the_readme() {
    let readme = read("README.md");
    for (path, _) in documents() {
        assert!(
            path == "README.md" || readme.contains(&format!("]({path})")),
            "README.md does not mention {path}"
        );
    }
}

#[test]
fn settings_are_those_of_the_code() {
    let settings = read("docs/settings.md");
    for (name, default, meaning) in VARIABLES {
        let row = format!("| `{name}` | `{default}` | {meaning} |");
        assert!(
            settings.contains(&row),
            "docs/settings.md has no line {row}"
        );
    }
}

#[test]
fn variables_are_documented_and_exist() {
    let mut sources = Vec::new();
    for folder in [
        "crates",
        "stress",
        "agents",
        "scripts",
        ".ci",
        "ci",
        "fuzz/fuzz_targets",
        "fuzz/afl",
    ] {
        files(&root().join(folder), &mut sources);
    }
    let named = |of_tests: bool| -> BTreeSet<String> {
        let wanted = sources
            .iter()
            .filter(|path| path.components().any(|part| part.as_os_str() == "tests") == of_tests);
        let this = root().join("crates/walkfuzz/tests/docs.rs");
        wanted
            .filter(|path| **path != this)
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .flat_map(|text| variables(&text))
            .collect()
    };
    // Tests may tell processes of their own what is no business of users.
    let (used, used_in_tests) = (named(false), named(true));
    let documented = variables(&read("docs/settings.md"));
    for name in &used {
        assert!(documented.contains(name), "docs/settings.md lacks {name}");
    }
    for (path, text) in documents() {
        for name in variables(&text) {
            assert!(
                used.contains(&name) || used_in_tests.contains(&name),
                "{path} names {name}, which nothing reads"
            );
            assert!(
                documented.contains(&name),
                "{path} names {name}, docs/settings.md does not"
            );
        }
    }
}

/// The command of a line as words, without its comment and the variables before it; the pattern that follows `for` and `;`
/// is looked through as well.
fn commands(block: &str) -> Vec<Vec<String>> {
    let lines = block
        .lines()
        .map(|line| line.split(" #").next().unwrap_or_default());
    lines
        .flat_map(|line| line.split([';', '|', '&']))
        .map(|command| command.split_whitespace().map(str::to_owned))
        .map(|words| {
            words
                .skip_while(|word| word == "do" || word.contains('='))
                .collect::<Vec<_>>()
        })
        .filter(|words| !words.is_empty())
        .collect()
}

#[test]
fn commands_exist() {
    let mut checked = 0;
    for (path, text) in documents() {
        for words in blocks(&text, "sh").iter().flat_map(|block| commands(block)) {
            let said = words.join(" ");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let known = match words.as_slice() {
                ["cargo", "fuzz", rest @ ..] => is_cargo_fuzz(rest),
                ["cargo", "afl", sub, rest @ ..] => is_cargo_afl(sub, rest),
                ["cargo", "test", "-p", package, ..] => is_package(package),
                ["cargo", "install", "--path", folder, ..] => {
                    root().join(folder).join("Cargo.toml").is_file()
                }
                ["walkfuzz", rest @ ..] => is_walkfuzz(rest),
                [script, options @ ..] if script.starts_with("./") => is_script(script, options),
                _ => continue,
            };
            assert!(known, "{path}: nobody knows the command: {said}");
            checked += 1;
        }
    }
    assert!(checked > 25, "only {checked} commands");
}

/// Whether a sub-command of cargo-fuzz is given one of our targets.
fn is_cargo_fuzz(words: &[&str]) -> bool {
    let (Some(sub), rest) = (words.first(), words.get(1..).unwrap_or_default()) else {
        return false;
    };
    if !["run", "tmin", "cmin", "fmt", "list", "build"].contains(sub) {
        return false;
    }
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-s" => match rest.next() {
                Some(&("none" | "address")) => {}
                _ => return false,
            },
            target => {
                return root()
                    .join(format!("fuzz/fuzz_targets/{target}.rs"))
                    .is_file();
            }
        }
    }
    *sub == "list" || *sub == "build"
}

fn is_cargo_afl(sub: &str, words: &[&str]) -> bool {
    let manifest = read("fuzz/afl/Cargo.toml");
    match sub {
        "build" => words
            .iter()
            .any(|word| word.ends_with("Cargo.toml") && root().join(word).is_file()),
        "fuzz" => words.last().is_some_and(|program| {
            let name = program.rsplit('/').next().unwrap_or_default();
            manifest.contains(&format!("name = \"{name}\""))
        }),
        _ => false,
    }
}

fn is_package(name: &str) -> bool {
    name.strip_prefix("walkfuzz-")
        .is_some_and(|folder| root().join("crates").join(folder).is_dir())
}

/// Whether a script exists, and its help knows the options.
fn is_script(script: &str, options: &[&str]) -> bool {
    let text = read(script);
    let options = options.iter().filter(|word| word.starts_with("--"));
    options
        .map(|option| option.split('=').next().unwrap_or_default())
        .all(|option| text.contains(option))
}

/// Whether the program's help knows the sub-command and the options.
fn is_walkfuzz(words: &[&str]) -> bool {
    let is_sub = |word: &&&str| {
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c == '-' && !word.starts_with('-'))
    };
    // These have sub-commands of their own.
    let nested = [Some(&"jdk"), Some(&"corpus")];
    let depth = if nested.contains(&words.first()) {
        2
    } else {
        1
    };
    let subs: Vec<&str> = words
        .iter()
        .take(depth)
        .take_while(is_sub)
        .copied()
        .collect();
    let help = Command::new(env!("CARGO_BIN_EXE_walkfuzz"))
        .args(&subs)
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let mut options = words
        .iter()
        .take_while(|word| **word != "--")
        .filter(|word| word.starts_with("--"));
    help.status.success() && subs.len() == depth && options.all(|option| text.contains(*option))
}

#[test]
fn code_of_the_walker_guide_is_code_that_is_tested() {
    let source = read("crates/walkers/src/example.rs");
    let blocks = blocks(&read("docs/add-a-walker.md"), "rust");
    assert!(blocks.len() >= 2);
    for block in blocks {
        assert!(
            source.contains(&block),
            "crates/walkers/src/example.rs does not hold:\n{block}"
        );
    }
}

#[test]
fn screens_fit_a_terminal() {
    for path in ["README.md", "docs/findings.md"] {
        let screens: Vec<String> = blocks(&read(path), "text")
            .into_iter()
            .filter(|block| block.starts_with("walkfuzz fuzz "))
            .collect();
        assert!(!screens.is_empty(), "{path} shows no end screen");
        for screen in screens {
            assert!(screen.lines().count() <= 24, "{path}");
            assert!(
                screen.lines().all(|line| line.chars().count() <= 80),
                "{path}"
            );
        }
    }
}

#[test]
fn documents_speak_of_words_that_the_glossary_has() {
    let glossary = read("docs/glossary.md");
    for word in [
        "walker",
        "context",
        "tier",
        "witness",
        "guard",
        "fault",
        "near miss",
        "recovery",
        "tainted",
        "site",
        "engine",
        "frozen copy",
        "finding",
        "signature",
        "title",
        "bug",
        "robustness",
        "reliability",
        "control walk",
        "vacuous",
        "survey",
        "strict",
        "landscape",
        "value class",
        "perturbation",
        "batch",
        "moment",
        "park",
    ] {
        assert!(
            glossary.contains(&format!("**{word}**")),
            "docs/glossary.md does not define {word}"
        );
    }
}
