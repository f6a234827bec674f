//! JFR's queue in real JVMs: what edited elements do to them.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;

use walkfuzz_context::element::parse;
use walkfuzz_context::{Arch, Batch};
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_queues::jfr::{Outcome, Target};

/// The library that this build made: cargo puts it beside the test.
fn interposer() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let library = here.with_file_name("libwalkfuzz_interposer.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

fn jdk(wanted: impl Fn(u32) -> bool) -> Option<Jdk> {
    let found = Places::from_env().discover().into_iter();
    let mut found = found.filter_map(|candidate| candidate.jdk.ok());
    let jdk = found.find(|jdk| wanted(jdk.version.feature()));
    if jdk.is_none() {
        eprintln!("skip: there is no such JDK here");
    }
    jdk
}

fn input(text: &str) -> Vec<u8> {
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.set_walks(&[parse(Arch::NATIVE, text).unwrap()]);
    batch.to_bytes()
}

#[test]
fn a_foreign_stack_pointer_kills_and_another_period_does_not() {
    let Some(jdk) = jdk(|feature| feature >= 25) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let mut target = Target::new(runs.path(), jdk, interposer()).unwrap();
    assert_eq!(target.strict(&input("period+=8")).unwrap(), Outcome::Lives);
    assert_eq!(
        target.strict(&input("sp=foreign-stack[3]")).unwrap(),
        Outcome::Died
    );
    assert_eq!(target.strict(&input("untouched")).unwrap(), Outcome::Empty);
    let finding = target.findings().next().unwrap().clone();
    println!("{}", finding.lines());
    assert!(
        finding.title.ends_with("via jfr-cpu-time queue [T4]"),
        "{finding:?}"
    );
    assert!(finding.title.contains("Jfr"), "{finding:?}");
    assert_eq!(finding.last, ["sp=foreign-stack[3]"]);
    println!("{}", target.finish().unwrap());
}

#[test]
fn a_jdk_without_such_a_queue_is_refused() {
    let Some(jdk) = jdk(|feature| feature < 25) else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let refused = Target::new(runs.path(), jdk, interposer()).unwrap_err();
    assert_eq!(refused.exit_code(), 3);
    assert!(refused.to_string().contains("from JDK 25 on"), "{refused}");
}
