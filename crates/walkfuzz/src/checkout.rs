//! Where the fuzz targets are: a walkfuzz checkout, found from any folder in it.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The nearest folder upwards that holds `fuzz/Cargo.toml` of a cargo-fuzz project.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|error| {
        Failure::environment(format_args!("cannot read the current folder: {error}"))
    })?;
    find(&here).map(Path::to_owned).ok_or_else(|| {
        Failure::usage(format_args!(
            "{} is not in a walkfuzz checkout: no fuzz/Cargo.toml here or above",
            here.display()
        ))
    })
}

fn find(from: &Path) -> Option<&Path> {
    from.ancestors().find(|folder| {
        let manifest = std::fs::read_to_string(folder.join("fuzz/Cargo.toml"));
        manifest.is_ok_and(|text| text.contains("cargo-fuzz = true") && text.contains("walkfuzz"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cargo_fuzz_project_of_ours_counts() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("fuzz/corpus/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(
            folder.path().join("fuzz/Cargo.toml"),
            "[package.metadata]\ncargo-fuzz = true\n",
        )
        .unwrap();
        assert_eq!(find(&deep), None);
        let ours = "[package]\nname = \"walkfuzz-fuzz\"\n[package.metadata]\ncargo-fuzz = true\n";
        std::fs::write(folder.path().join("fuzz/Cargo.toml"), ours).unwrap();
        assert_eq!(find(&deep), Some(folder.path()));
    }
}
