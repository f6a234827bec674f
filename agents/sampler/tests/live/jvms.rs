//! JVMs and a program for them, for the tests of our agents.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_record::{Counter, Record, Tally, Totals};

/// Every usable JDK of this machine.
pub(crate) fn jdks() -> Vec<Jdk> {
    let found: Vec<Jdk> = Places::from_env()
        .discover()
        .into_iter()
        .filter_map(|candidate| match candidate.jdk {
            Ok(jdk) => Some(jdk),
            Err(error) => {
                println!("skip: {error}");
                None
            }
        })
        .collect();
    if found.is_empty() {
        println!("skip: no JDK");
    }
    found
}

/// The newest JDK of each feature release.
pub(crate) fn releases() -> Vec<Jdk> {
    let mut jdks = jdks();
    jdks.sort_by(|a, b| b.version.cmp(&a.version));
    jdks.dedup_by_key(|jdk| jdk.version.feature());
    jdks
}

/// The folder of Busy.class, compiled once; `None`, with a word, where nothing compiles.
pub(crate) fn busy() -> Option<&'static Path> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLASSES
        .get_or_init(|| {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../sampler/tests/java/Busy.java");
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("busy");
            let jdks = jdks();
            let compilers = jdks.iter().map(|jdk| jdk.home.join("bin/javac"));
            let compiler = compilers.filter(|javac| javac.is_file()).min()?;
            let made = Command::new(compiler)
                .args(["--release", "11", "-d"])
                .arg(&folder)
                .arg(source)
                .output()
                .unwrap();
            assert!(made.status.success(), "{}", text(&made));
            Some(folder)
        })
        .as_deref()
        .or_else(|| {
            println!("skip: no JDK here has a javac");
            None
        })
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

pub(crate) fn tally(record: &Record, perturbed: bool) -> Tally {
    Totals::of([record]).outcomes(Some(perturbed))
}

pub(crate) fn counter(record: &Record, counter: Counter) -> u64 {
    Totals::of([record]).counter(counter)
}
