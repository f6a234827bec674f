//! Where JDKs are, and which one to use.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use walkfuzz_context::Arch;

use crate::JvmError;
use crate::catalogue;
use crate::jdk::{Jdk, Source};
use crate::version::Version;

/// Where to look for JDKs.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// JAVA_HOME.
    pub java_home: Option<PathBuf>,
    /// PATH.
    pub path: Option<OsString>,
    /// Folders whose sub-folders may be JDKs.
    pub usual: Vec<PathBuf>,
    /// walkfuzz's cache folder; JDKs are in its sub-folder `jdks`.
    pub cache: PathBuf,
}

/// A folder that is, or should be, a JDK.
#[derive(Debug)]
pub struct Candidate {
    /// The folder, with symbolic links resolved where it exists.
    pub home: PathBuf,
    /// How it was found.
    pub source: Source,
    /// The JDK, or what is wrong with it.
    pub jdk: Result<Jdk, JvmError>,
}

impl Places {
    /// The places that this process's environment names. `WALKFUZZ_CACHE`, else `XDG_CACHE_HOME/walkfuzz`, else
    /// `~/.cache/walkfuzz` is the cache folder.
    #[must_use]
    pub fn from_env() -> Places {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let home = set("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let cache = set("WALKFUZZ_CACHE").map(PathBuf::from).unwrap_or_else(|| {
            set("XDG_CACHE_HOME")
                .map_or_else(|| home.join(".cache"), PathBuf::from)
                .join("walkfuzz")
        });
        let in_home = [
            ".sdkman/candidates/java",
            ".jdks",
            ".asdf/installs/java",
            ".local/share/mise/installs/java",
        ];
        let mut usual = vec![PathBuf::from("/usr/lib/jvm")];
        usual.extend(in_home.map(|folder| home.join(folder)));
        usual.extend(["/opt/java", "/opt"].map(PathBuf::from));
        Places {
            java_home: set("JAVA_HOME").map(PathBuf::from),
            path: set("PATH"),
            usual,
            cache,
        }
    }

    /// The folder that holds the JDKs for this program's architecture which walkfuzz installed.
    #[must_use]
    pub fn jdks(&self) -> PathBuf {
        self.jdks_for(Arch::NATIVE)
    }

    /// The folder that holds the installed JDKs of an architecture: one machine may run both, one of them emulated.
    #[must_use]
    pub fn jdks_for(&self, arch: Arch) -> PathBuf {
        let jdks = self.cache.join("jdks");
        match arch {
            Arch::X86_64 => jdks,
            Arch::Aarch64 => jdks.join(arch.name()),
        }
    }

    /// Every JDK and every folder that should be one, each once, in the order in which they are preferred.
    #[must_use]
    pub fn discover(&self) -> Vec<Candidate> {
        let mut homes: Vec<(PathBuf, Source)> = Vec::new();
        homes.extend(self.java_home.clone().map(|home| (home, Source::JavaHome)));
        homes.extend(self.on_path().map(|home| (home, Source::Path)));
        for folder in &self.usual {
            homes.extend(
                jdks_in(folder)
                    .into_iter()
                    .map(|home| (home, Source::UsualPlace)),
            );
        }
        homes.extend(
            jdks_in(&self.jdks())
                .into_iter()
                .map(|home| (home, Source::Cache)),
        );

        let mut seen = HashSet::new();
        let mut candidates = Vec::new();
        for (home, source) in homes {
            let home = home.canonicalize().unwrap_or(home);
            if seen.insert(home.clone()) {
                candidates.push(Candidate {
                    jdk: Jdk::at(&home, source),
                    home,
                    source,
                });
            }
        }
        candidates
    }

    /// The JDK to use. `wanted` is a path, a feature release such as `17`, or a full version such as `17.0.9`; without it,
    /// the environment variable `WALKFUZZ_JDK` says it; without that, JAVA_HOME, PATH, the usual places and the cache are
    /// tried in this order.
    ///
    /// # Errors
    /// If there is none. A JAVA_HOME that is set but cannot be used is an error, and not a reason to take another.
    pub fn choose(&self, wanted: Option<&str>) -> Result<Jdk, JvmError> {
        let from_env = env::var("WALKFUZZ_JDK")
            .ok()
            .filter(|value| !value.is_empty());
        match wanted.or(from_env.as_deref()) {
            Some(wanted) if wanted.contains('/') || Path::new(wanted).is_dir() => {
                Jdk::at(Path::new(wanted), Source::Named)
            }
            Some(wanted) => self.choose_version(wanted),
            None => self.choose_any(),
        }
    }

    fn choose_any(&self) -> Result<Jdk, JvmError> {
        let mut problems = String::new();
        for candidate in self.discover() {
            match candidate.jdk {
                Ok(jdk) => return Ok(jdk),
                Err(reason) if candidate.source == Source::JavaHome => {
                    let home = self.java_home.clone().unwrap_or(candidate.home);
                    return Err(JvmError::BadJavaHome {
                        home,
                        reason: Box::new(reason),
                    });
                }
                Err(reason) => problems.push_str(&format!("; {reason}")),
            }
        }
        let mut looked: Vec<String> = self
            .usual
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        looked.push(self.jdks().display().to_string());
        Err(JvmError::NoJdk {
            looked: looked.join(", "),
            problems,
        })
    }

    fn choose_version(&self, text: &str) -> Result<Jdk, JvmError> {
        let wanted = Version::parse(text).ok_or_else(|| JvmError::BadSetting {
            variable: "WALKFUZZ_JDK",
            value: text.to_owned(),
            expected: "a path, or a version such as 17 or 17.0.9".to_owned(),
        })?;
        let mut found = Vec::new();
        for candidate in self.discover() {
            if let Ok(jdk) = candidate.jdk {
                if jdk.version.is_a(&wanted) {
                    return Ok(jdk);
                }
                found.push(jdk.version.to_string());
            }
        }
        let remedy = match catalogue::pinned(text, Arch::NATIVE) {
            Some(pinned) => format!("bring it with: walkfuzz jdk install {}", pinned.version),
            None => format!(
                "the catalogue of `walkfuzz jdk install` has {}",
                catalogue::versions(Arch::NATIVE)
            ),
        };
        let found = if found.is_empty() {
            "none".to_owned()
        } else {
            found.join(", ")
        };
        Err(JvmError::NoSuchJdk {
            wanted: text.to_owned(),
            found,
            remedy,
        })
    }

    /// The home of the first `java` on PATH.
    fn on_path(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let java = env::split_paths(path)
            .map(|folder| folder.join("java"))
            .find(|java| java.is_file())?;
        let real = java.canonicalize().ok()?;
        let home = real.parent()?.parent()?.to_owned();
        if home.join("lib/server/libjvm.so").is_file() {
            return Some(home);
        }
        // Version managers put a script there, which alone knows where its JDK is.
        asked(&java).or(Some(home))
    }
}

/// What `java` itself says its home is.
fn asked(java: &Path) -> Option<PathBuf> {
    let output = Command::new(java)
        .args(["-XshowSettings:properties", "-version"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let home = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("java.home = "))?;
    Some(PathBuf::from(home))
}

/// The sub-folders that look like JDKs, newest first.
fn jdks_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut homes: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("release").is_file() && path.join("lib").is_dir())
        .collect();
    homes.sort_by_cached_key(|home| {
        let text = fs::read_to_string(home.join("release")).unwrap_or_default();
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("JAVA_VERSION="))
            .and_then(|v| Version::parse(v.trim_matches('"')));
        (std::cmp::Reverse(version), home.clone())
    });
    homes
}
