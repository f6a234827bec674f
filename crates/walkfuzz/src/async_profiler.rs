//! Where async-profiler is, a shipped profiler that ours are held against.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout;

/// async-profiler's library, or why there is none.
pub(crate) fn find() -> Result<PathBuf, String> {
    let root = checkout::root()
        .map_err(|_| "scripts/get-async-profiler brings it, in a checkout".to_owned())?;
    let output = Command::new(root.join("scripts/get-async-profiler"))
        .output()
        .map_err(|error| format!("scripts/get-async-profiler: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

/// What a library says of its version, loaded into a JVM that does nothing else.
pub(crate) fn version(java: &Path, library: &Path) -> Option<String> {
    let output = walkfuzz_record::machine::command(java)
        .arg(format!("-agentpath:{}=version", library.display()))
        .arg("-version")
        .env_remove("JAVA_TOOL_OPTIONS")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let version = text.get(..end.unwrap_or(text.len()))?;
    (!version.is_empty()).then(|| version.to_owned())
}
