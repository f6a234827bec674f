//! Where the fuzz targets are: a walkfuzz checkout, found from any folder in it.

use std::path::{Path, PathBuf};

use walkfuzz_stress::agents;

use crate::failure::Failure;

/// The nearest folder upwards that holds `fuzz/Cargo.toml` of a cargo-fuzz project.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|error| {
        Failure::environment(format_args!("cannot read the current folder: {error}"))
    })?;
    agents::checkout(&here).map(Path::to_owned).ok_or_else(|| {
        Failure::usage(format_args!(
            "{} is not in a walkfuzz checkout: no fuzz/Cargo.toml here or above",
            here.display()
        ))
    })
}
