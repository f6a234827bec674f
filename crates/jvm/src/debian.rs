//! Bringing Debian's OpenJDK 17 for aarch64, for which there is no wheel, onto any machine that has apt-get, without root.
//!
//! apt-get works in folders of its own, as if on an arm64 machine with nothing installed, from the archives that this machine is set up
//! for. Nothing is installed: the packages are unpacked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use crate::JvmError;
use crate::catalogue::{DEBIAN_PACKAGE, Pinned};
use crate::install::{last_lines, unwritable};

/// Where the JDK lies inside the package.
const INSIDE: &str = "usr/lib/jvm/java-17-openjdk-arm64";

/// What the JDK's own zip library needs and no cross compiler brings along: name, version, hash.
const ZLIB: (&str, &str, &str) = (
    "zlib1g",
    "1:1.2.13.dfsg-1",
    "52b8b8a145bbe1956bba82034f77022cbef0c3d0885c9e32d9817a7932fe1913",
);
const ZLIB_INSIDE: &str = "lib/aarch64-linux-gnu/libz.so.1";

/// Brings the package into `scratch` and returns the folder of the JDK in it.
pub(crate) fn bring(pinned: &Pinned, scratch: &Path) -> Result<PathBuf, JvmError> {
    let apt = Apt::new(scratch)?;
    apt.update()?;
    let package = apt.download(DEBIAN_PACKAGE, pinned.package, pinned.sha256)?;
    let (name, version, sha256) = ZLIB;
    let zlib = apt.download(name, version, sha256)?;
    let root = scratch.join("unpacked");
    for package in [package, zlib] {
        let (from, to) = (package.as_os_str(), root.as_os_str());
        let output = program("dpkg-deb", &["-x".as_ref(), from, to])?;
        if !output.status.success() {
            return Err(JvmError::Unpack {
                path: package,
                reason: last_lines(&output.stderr),
            });
        }
    }
    let home = root.join(INSIDE);
    bring_in(&home, &root).map_err(unwritable(&home))?;
    let library = home.join("lib/libz.so.1");
    fs::copy(root.join(ZLIB_INSIDE), &library).map_err(unwritable(&library))?;
    Ok(home)
}

/// What lies in the machine's folders in an installed package (`/etc`) becomes part of the JDK.
fn bring_in(folder: &Path, root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?.file_type();
        if kind.is_dir() {
            bring_in(&path, root)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            let Ok(inside) = target.strip_prefix("/") else {
                continue;
            };
            let file = root.join(inside);
            if file.is_file() {
                fs::remove_file(&path)?;
                fs::copy(file, &path)?;
            }
        }
    }
    Ok(())
}

fn program(name: &'static str, arguments: &[&OsStr]) -> Result<Output, JvmError> {
    let run = Command::new(name)
        .args(arguments)
        .env("LC_ALL", "C")
        .output();
    run.map_err(|error| JvmError::NoDebian {
        program: name,
        reason: error.to_string(),
    })
}

/// apt-get with a state of its own.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(scratch: &Path) -> Result<Self, JvmError> {
        let folder = scratch.join("apt");
        for inside in ["lists/partial", "cache/archives/partial"] {
            let inside = folder.join(inside);
            fs::create_dir_all(&inside).map_err(unwritable(&inside))?;
        }
        let status = folder.join("status");
        File::create(&status).map_err(unwritable(&status))?;
        let at = folder.display();
        let options = [
            format!("Dir::State={at}"),
            format!("Dir::State::status={at}/status"),
            format!("Dir::Cache={at}/cache"),
            "APT::Architecture=arm64".to_owned(),
            "APT::Architectures=arm64".to_owned(),
            // Nobody else's hooks, and no other user who could not write here.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        let options = options.map(|option| format!("-o{option}"));
        Ok(Self {
            folder,
            options: options.into(),
        })
    }

    fn run(&self, package: &str, words: &[&str]) -> Result<(), JvmError> {
        let run = Command::new("apt-get")
            .arg("-q")
            .args(&self.options)
            .args(words)
            .current_dir(&self.folder)
            .env("LC_ALL", "C")
            .output();
        let output = run.map_err(|error| JvmError::NoDebian {
            program: "apt-get",
            reason: error.to_string(),
        })?;
        if output.status.success() {
            return Ok(());
        }
        Err(JvmError::AptFailed {
            package: package.to_owned(),
            output: last_lines(&output.stderr),
        })
    }

    fn update(&self) -> Result<(), JvmError> {
        // An archive that has nothing for arm64, as those of other makers, is no reason to stop.
        self.run("the list of packages", &["update"])
    }

    /// The file of a package that has this version and hash.
    fn download(
        &self,
        name: &str,
        version: &str,
        sha256: &'static str,
    ) -> Result<PathBuf, JvmError> {
        let package = format!("{name}={version}");
        self.run(&package, &["download", &package])?;
        let brought = |path: &PathBuf| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
        };
        let entries = fs::read_dir(&self.folder).map_err(unwritable(&self.folder))?;
        let path = entries
            .flatten()
            .map(|entry| entry.path())
            .find(brought)
            .ok_or_else(|| JvmError::AptFailed {
                package,
                output: "it brought no file".to_owned(),
            })?;
        verify(&path, sha256)?;
        Ok(path)
    }
}

/// Whether a file is the one that was pinned.
fn verify(path: &Path, wanted: &'static str) -> Result<(), JvmError> {
    let unreadable = |source| JvmError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path).map_err(unreadable)?, &mut hash).map_err(unreadable)?;
    let found: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    if found == wanted {
        return Ok(());
    }
    Err(JvmError::Different {
        path: path.to_owned(),
        found,
        wanted,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_not_pinned_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.deb");
        fs::write(&path, b"content").unwrap();
        let error = verify(&path, ZLIB.2).unwrap_err().to_string();
        assert!(error.contains("is pinned: it is not used"), "{error}");
        verify(
            &path,
            "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",
        )
        .unwrap();
    }

    #[test]
    fn links_into_the_machine_become_files() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("etc/java")).unwrap();
        fs::write(at("etc/java/net.properties"), b"a=b").unwrap();
        fs::create_dir_all(at("jdk/conf")).unwrap();
        symlink("/etc/java/net.properties", at("jdk/conf/net.properties")).unwrap();
        symlink("net.properties", at("jdk/conf/beside")).unwrap();
        symlink("/etc/java/missing", at("jdk/conf/missing")).unwrap();
        bring_in(&at("jdk"), root.path()).unwrap();
        let kind = |name: &str| at(name).symlink_metadata().unwrap().file_type();
        assert!(kind("jdk/conf/net.properties").is_file());
        assert!(kind("jdk/conf/beside").is_symlink());
        assert!(kind("jdk/conf/missing").is_symlink());
    }
}
