//! The committed list of known issues, and matching.

use std::path::PathBuf;

use walkfuzz_context::Arch;
use walkfuzz_triage::known_issues::VersionMatch;
use walkfuzz_triage::{KnownIssues, Query, Signature};

fn committed() -> KnownIssues {
    KnownIssues::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ci/known-issues.toml"))
        .unwrap()
}

fn matches(
    signature: &str,
    stack: &[&str],
    jdk: Option<&str>,
    arch: Option<Arch>,
) -> Vec<(String, VersionMatch)> {
    let known = committed();
    let signature: Signature = signature.parse().unwrap();
    let stack: Vec<String> = stack.iter().map(|&s| s.to_owned()).collect();
    let jdk = jdk.map(|jdk| jdk.parse().unwrap());
    let query = Query {
        signature: &signature,
        stack: &stack,
        jdk: jdk.as_ref(),
        arch,
    };
    known
        .matching(&query)
        .iter()
        .map(|m| (m.issue.id.clone(), m.version))
        .collect()
}

fn has(found: &[(String, VersionMatch)], id: &str) -> Option<VersionMatch> {
    found
        .iter()
        .find(|(name, _)| name == id)
        .map(|(_, version)| *version)
}

#[test]
fn the_committed_list_is_sound() {
    let known = committed();
    println!(
        "{} issues, {} with a signature",
        known.issues().len(),
        known
            .issues()
            .iter()
            .filter(|i| i.signature.is_some())
            .count()
    );
    assert!(known.issues().len() > 40);
    for issue in known.issues() {
        assert!(
            !issue.title.is_empty() && issue.title.len() < 140,
            "{}",
            issue.id
        );
        if let Some(pattern) = &issue.signature {
            assert!(!pattern.is_match(""), "{} matches everything", issue.id);
            assert!(pattern.as_str().starts_with('^'), "{}", issue.id);
        }
    }
}

#[test]
fn a_bug_is_affected_before_its_fix_and_not_after() {
    let in_jdk = |jdk: &str| {
        let found = matches(
            "SIGSEGV|frame::safe_interpreter_frame_method|agct",
            &[],
            Some(jdk),
            Some(Arch::X86_64),
        );
        has(&found, "JDK-8313796")
    };
    for affected in [
        "11.0.13",
        "11.0.20.1",
        "17.0.7+7",
        "17.0.8",
        "21+35",
        "8u392",
    ] {
        assert_eq!(in_jdk(affected), Some(VersionMatch::Affected), "{affected}");
    }
    for fixed in [
        "11.0.21",
        "11.0.27",
        "17.0.9",
        "17.0.15+6",
        "21.0.1",
        "21.0.8+9-LTS",
        "22",
        "25.0.2",
    ] {
        assert_eq!(in_jdk(fixed), Some(VersionMatch::NotAffected), "{fixed}");
    }
}

#[test]
fn architecture_walker_and_signature_have_to_fit() {
    let signature = "SIGSEGV|frame::safe_for_sender|agct";
    let on = |arch| {
        has(
            &matches(signature, &[], Some("11.0.13"), arch),
            "JDK-8315380",
        )
    };
    assert_eq!(on(Some(Arch::Aarch64)), Some(VersionMatch::Affected));
    assert_eq!(on(Some(Arch::X86_64)), None);
    assert_eq!(on(None), Some(VersionMatch::Affected));

    let issue = "async-profiler#461";
    let found = |text: &str| has(&matches(text, &[], Some("17.0.7"), None), issue);
    assert_eq!(
        found("SIGSEGV|forte_fill_call_trace_given_top|agct"),
        Some(VersionMatch::Affected)
    );
    assert_eq!(found("SIGSEGV|forte_fill_call_trace_given_top|jfr"), None);
    assert_eq!(found("SIGBUS|forte_fill_call_trace_given_top|agct"), None);
    assert!(matches("SIGSEGV|nothing_known|agct", &[], None, None).is_empty());
    let unknown = matches(
        "SIGSEGV|forte_fill_call_trace_given_top|agct",
        &[],
        None,
        None,
    );
    assert_eq!(has(&unknown, issue), Some(VersionMatch::Unknown));
}

#[test]
fn the_best_match_comes_first() {
    let found = matches(
        "SIGSEGV|forte_fill_call_trace_given_top|agct",
        &[],
        Some("17.0.9"),
        None,
    );
    assert_eq!(
        found[0],
        ("async-profiler#461".to_owned(), VersionMatch::Affected)
    );
    assert_eq!(has(&found, "JDK-8313796"), Some(VersionMatch::NotAffected));
}

#[test]
fn a_stack_pattern_has_to_match_too() {
    let list =
        "[[issue]]\nid = 'x'\ntitle = 'y'\nsignature = '^SIGSEGV'\nstack = '^clock_gettime$'\n";
    let known = KnownIssues::parse(list).unwrap();
    let signature: Signature = "SIGSEGV|f|agct".parse().unwrap();
    let count = |stack: &[String]| {
        let query = Query {
            signature: &signature,
            stack,
            jdk: None,
            arch: None,
        };
        known.matching(&query).len()
    };
    assert_eq!(count(&[]), 0);
    assert_eq!(count(&["main".to_owned(), "clock_gettime".to_owned()]), 1);
}

#[test]
fn wrong_lists_are_refused() {
    for (list, part) in [
        ("[[issue]]\nid = 'x'\n", "missing field `title`"),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\nextra = 1\n",
            "unknown field `extra`",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\nsignature = '('\n",
            "unclosed group",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\nversions = ['17']\n",
            "`17` is not a range such as 17..17.0.9",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\nversions = ['18..17']\n",
            "`18..17` is an empty range",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\nversions = ['a..17']\n",
            "`a` is not a JDK version",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\narch = ['mips']\n",
            "`mips` is neither x86_64 nor aarch64",
        ),
        (
            "[[issue]]\nid = 'x'\ntitle = 'y'\n[[issue]]\nid = 'x'\ntitle = 'z'\n",
            "x is listed twice",
        ),
    ] {
        let error = KnownIssues::parse(list).unwrap_err();
        let text = format!(
            "{error} {:?}",
            std::error::Error::source(&error).map(ToString::to_string)
        );
        assert!(text.contains(part), "{list}: {text}");
    }
    let missing = KnownIssues::load("/nonexistent/known.toml").unwrap_err();
    assert_eq!(missing.to_string(), "cannot read /nonexistent/known.toml");
}

#[test]
fn the_list_that_is_built_in_is_the_files() {
    let file = KnownIssues::load(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../ci/known-issues.toml"
    ))
    .unwrap();
    let ids = |list: &KnownIssues| -> Vec<String> {
        list.issues().iter().map(|issue| issue.id.clone()).collect()
    };
    assert!(ids(&file).len() > 20);
    assert_eq!(ids(KnownIssues::built_in()), ids(&file));
}

/// What docs/known-bugs.md says was found again is recognised by the list, by the signatures that stand there.
#[test]
fn what_was_found_again_is_recognised() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/known-bugs.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("## Found again").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut looked = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let row = row.replace(r"\|", "\u{1f}");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let issue = cells[1].split([',', ' ']).next().unwrap();
        for quoted in cells[4].split('`').filter(|text| text.starts_with("SIG")) {
            let found = matches(&quoted.replace('\u{1f}', "|"), &[], None, None);
            assert!(has(&found, issue).is_some(), "{issue}: {quoted}");
            looked.push(issue.to_owned());
        }
    }
    assert!(looked.len() >= 4, "{looked:?}");
    assert!(looked.iter().any(|issue| issue == "async-profiler#73"));
    let other = "SIGSEGV|JavaThread::pd_get_top_frame_for_signal_handler|agct";
    let found = matches(other, &[], Some("25.0.3"), None);
    assert_eq!(
        has(&found, "async-profiler#73"),
        Some(VersionMatch::Affected)
    );
}
