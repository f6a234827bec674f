//! Builds the C walkers for tests; included by the tests that load them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source`, a path below `plugins/` or an absolute one, into a library `name` in `folder`.
pub(crate) fn library(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    // Every crate of the workspace stands two folders below its root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = folder.join(format!("lib{name}.so"));
    let output = Command::new(compiler())
        .args([
            "-shared", "-fPIC", "-O2", "-g", "-std=c11", "-Wall", "-Wextra", "-Werror",
        ])
        .arg("-I")
        .arg(root.join("crates/walkers/include"))
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(root.join("plugins").join(source))
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {said}");
    library
}

/// The machine's own compiler makes nothing that an emulated program could load.
fn compiler() -> String {
    match walkfuzz_record::machine::emulator() {
        None => "cc".to_owned(),
        Some(_) => format!("{}-linux-gnu-gcc", std::env::consts::ARCH),
    }
}
