//! The JDKs of this machine, for the tests of our agents.

use std::path::Path;
use std::process::{Command, Output};

use walkfuzz_jvm::{Jdk, Places};

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

/// Compiles `source` for every release into the folder `to`; `None` where no JDK has a javac.
pub(crate) fn compile(source: &Path, to: &Path) -> Option<()> {
    let compilers = jdks().into_iter().map(|jdk| jdk.home.join("bin/javac"));
    let compiler = compilers.filter(|javac| javac.is_file()).min()?;
    let made = Command::new(compiler)
        .args(["--release", "11", "-d"])
        .arg(to)
        .arg(source)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    Some(())
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}
