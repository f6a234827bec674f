//! A JDK on this machine and how it was found.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use walkfuzz_context::Arch;

use crate::JvmError;
use crate::check::{self, LibjvmFacts};
use crate::version::Version;

/// The oldest feature release whose walkers and tables are supported.
const OLDEST: u32 = 11;

/// How a JDK was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The user gave its path.
    Named,
    /// The environment variable JAVA_HOME.
    JavaHome,
    /// `java` on PATH.
    Path,
    /// A folder where package managers put JDKs.
    UsualPlace,
    /// walkfuzz's own cache folder.
    Cache,
}

impl Source {
    /// The text that lists and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Named => "named",
            Source::JavaHome => "JAVA_HOME",
            Source::Path => "PATH",
            Source::UsualPlace => "usual place",
            Source::Cache => "cache",
        }
    }
}

/// A JDK whose libjvm has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jdk {
    /// Its folder.
    pub home: PathBuf,
    /// The library that holds the JVM.
    pub libjvm: PathBuf,
    /// Its version, from the `release` file.
    pub version: Version,
    /// Its builder, where the `release` file says it.
    pub implementor: Option<String>,
    /// How it was found.
    pub source: Source,
    /// libjvm's architecture.
    pub arch: Arch,
    /// libjvm's build id in hexadecimal, if it has one.
    pub build_id: Option<String>,
    /// Which build libjvm is, whether or not it has a build id; see [`LibjvmFacts::identity`].
    pub identity: String,
    /// Whether libjvm has a full symbol table (`.symtab`), so that faults can be named without debug files.
    pub symtab: bool,
}

impl Jdk {
    /// Reads the JDK in a folder and checks its libjvm.
    ///
    /// # Errors
    /// If the folder holds no JDK of at least Java 11 whose libjvm this program can load and use.
    pub fn at(home: &Path, source: Source) -> Result<Jdk, JvmError> {
        Jdk::built_for(Arch::NATIVE, home, source)
    }

    /// As [`Jdk::at`], for a program of that architecture.
    ///
    /// # Errors
    /// As [`Jdk::at`].
    pub fn built_for(arch: Arch, home: &Path, source: Source) -> Result<Jdk, JvmError> {
        let home = home.canonicalize().map_err(|source| JvmError::Unreadable {
            path: home.to_owned(),
            source,
        })?;
        let libjvm = home.join("lib/server/libjvm.so");
        let release = Release::read(&home)?;
        let too_old = || JvmError::TooOld {
            home: home.clone(),
            version: release.version.to_string(),
        };
        if release.version.feature() < OLDEST {
            return Err(too_old());
        }
        if !libjvm.is_file() {
            return Err(JvmError::NotAJdk {
                home,
                what: "lib/server/libjvm.so is missing".to_owned(),
            });
        }
        let LibjvmFacts {
            arch,
            build_id,
            identity,
            symtab,
        } = check::inspect_for(&libjvm, arch)?;
        Ok(Jdk {
            home,
            libjvm,
            version: release.version,
            implementor: release.implementor,
            source,
            arch,
            build_id,
            identity,
            symtab,
        })
    }
}

impl fmt::Display for Jdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version)?;
        if let Some(implementor) = &self.implementor {
            write!(f, " ({implementor})")?;
        }
        write!(f, " at {}", self.home.display())
    }
}

/// What a JDK's `release` file says.
struct Release {
    version: Version,
    implementor: Option<String>,
}

impl Release {
    fn read(home: &Path) -> Result<Release, JvmError> {
        let path = home.join("release");
        let text = fs::read_to_string(&path).map_err(|e| JvmError::NotAJdk {
            home: home.to_owned(),
            what: format!("its file `release` cannot be read ({e})"),
        })?;
        Release::parse(&text).ok_or_else(|| JvmError::NotAJdk {
            home: home.to_owned(),
            what: "its file `release` has no readable JAVA_VERSION".to_owned(),
        })
    }

    /// Reads lines such as `JAVA_VERSION="17.0.9"`.
    fn parse(text: &str) -> Option<Release> {
        let value = |key: &str| {
            text.lines().find_map(|line| {
                let value = line
                    .trim()
                    .strip_prefix(key)?
                    .trim_start()
                    .strip_prefix('=')?;
                Some(value.trim().trim_matches('"').to_owned())
            })
        };
        Some(Release {
            version: Version::parse(&value("JAVA_VERSION")?)?,
            implementor: value("IMPLEMENTOR").filter(|name| !name.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_files_are_read() {
        let debian = "IMPLEMENTOR=\"Debian\"\nJAVA_RUNTIME_VERSION=\"17.0.15+6-Debian-1deb12u1\"\nJAVA_VERSION=\"17.0.15\"\n";
        let release = Release::parse(debian).unwrap();
        assert_eq!(release.version.to_string(), "17.0.15");
        assert_eq!(release.implementor.as_deref(), Some("Debian"));

        let linked = "JAVA_VERSION=\"11.0.13\"\r\nMODULES=\"java.base\"\r\n";
        let release = Release::parse(linked).unwrap();
        assert_eq!(release.version.update(), 13);
        assert_eq!(release.implementor, None);

        assert!(Release::parse("JAVA_VERSION_DATE=\"2025-04-15\"\n").is_none());
        assert!(Release::parse("JAVA_VERSION=\"\"\n").is_none());
        assert!(Release::parse("").is_none());
    }
}
