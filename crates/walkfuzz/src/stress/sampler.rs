//! Where the sampler is: the library that each sampled JVM loads.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

const LIBRARY: &str = "libwalkfuzz_sampler.so";

/// `WALKFUZZ_SAMPLER`; the library beside this program; in a checkout, what cargo builds.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("WALKFUZZ_SAMPLER").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            std::path::absolute(&path).map_err(Failure::environment)
        } else {
            Err(Failure::usage(format_args!(
                "WALKFUZZ_SAMPLER names {}, which is no file",
                path.display()
            )))
        };
    }
    if let Ok(root) = crate::checkout::root() {
        return build(&root);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.with_file_name(LIBRARY);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Failure::environment(format_args!(
        "{LIBRARY} is not beside {}; build it in a checkout with: cargo build --release -p walkfuzz-sampler",
        program.display()
    )))
}

/// Builds the checkout's sampler, which does nothing if it is up to date.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    eprintln!("walkfuzz: building the sampler");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--package",
            "walkfuzz-sampler",
        ])
        .args(["--message-format", "json"])
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| Failure::environment(format_args!("cannot start cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::environment(
            "the sampler does not build; see above",
        ));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut files = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let names = message.get("filenames")?.as_array()?;
        let mut paths = names.iter().filter_map(|name| name.as_str());
        paths
            .find(|name| name.ends_with(LIBRARY))
            .map(PathBuf::from)
    });
    files
        .next_back()
        .ok_or_else(|| Failure::environment("cargo built no sampler"))
}
