//! From a path to a walker: the file, the linker, the description, `init`.
//!
//! Contract: ordinary threads only; forks, allocates, prints what the library says. A library that was loaded stays for the process's life.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use sha2::{Digest as _, Sha256};
use walkfuzz_record::{Code, Generation};

use super::abi::{ENTRY, Entry, RawFacts, RawWalker};
use super::describe::{describe, text};
use super::error::PluginError;
use super::trial::{self, Ended, Step};
use super::{Facts, Plugin, imports};
use crate::from_frame::frame_name;
use crate::walker::Methods;

/// A library, and which file it must be: `PATH` or `PATH@sha256:HEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPath {
    /// The library.
    pub path: PathBuf,
    /// Its SHA-256 in lower-case hex, if it is pinned.
    pub sha256: Option<String>,
}

impl PluginPath {
    /// Stands before a library's path where walkers are named.
    pub const PREFIX: &'static str = "plugin:";
}

impl FromStr for PluginPath {
    type Err = PluginError;

    fn from_str(text: &str) -> Result<Self, PluginError> {
        let (path, digits) = match text.rsplit_once("@sha256:") {
            Some((path, digits)) => (path, Some(digits)),
            None => (text, None),
        };
        if path.is_empty() {
            return Err(PluginError::NoPath);
        }
        let Some(digits) = digits else {
            return Ok(Self {
                path: path.into(),
                sha256: None,
            });
        };
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(PluginError::Pin {
                given: digits.to_owned(),
            });
        }
        Ok(Self {
            path: path.into(),
            sha256: Some(digits.to_lowercase()),
        })
    }
}

impl fmt::Display for PluginPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.sha256 {
            Some(digits) => write!(f, "@sha256:{digits}"),
            None => Ok(()),
        }
    }
}

/// A library that is loaded and has described its walker, which is not initialised yet: before a JVM has started there are no facts.
#[derive(Debug)]
pub struct Library {
    pub(super) path: PathBuf,
    pub(super) raw: RawWalker,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) generation: Generation,
    pub(super) codes: Vec<(Code, String)>,
    pub(super) methods: Methods,
    /// Imports that are watched.
    pub(super) watched: u32,
}

impl Library {
    /// Loads the library and asks it what it is, in a copy of this process first.
    ///
    /// # Errors
    /// Why it is no walker.
    pub fn open(wanted: &PluginPath) -> Result<Self, PluginError> {
        let path = &absolute(wanted)?;
        // What is refused in the copy is refused here again, with its reason.
        in_copy(path, |say| {
            let _ = bring_up(path, say);
        })?;
        bring_up(path, &|_| {})
    }

    /// The walker's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What records call the walker as it walks from frames.
    ///
    /// # Errors
    /// The library cannot walk so.
    pub fn name_from_frame(&self) -> Result<String, PluginError> {
        match self.raw.walk_from_frame {
            Some(_) => Ok(frame_name(&self.name)),
            None => Err(PluginError::NoFrames {
                path: self.path.clone(),
            }),
        }
    }

    /// The walker's version; may be empty.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whose codes it speaks.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What its frames have.
    #[must_use]
    pub fn methods(&self) -> Methods {
        self.methods
    }

    /// The names of its own codes.
    #[must_use]
    pub fn code_names(&self) -> &[(Code, String)] {
        &self.codes
    }

    /// Initialises the walker for the JVM of this process, in a copy of the process first.
    ///
    /// # Errors
    /// Why it cannot walk here.
    pub fn start(self, facts: &Facts) -> Result<Plugin, PluginError> {
        let Some(init) = self.raw.init else {
            return Ok(Plugin::of(self));
        };
        let facts: &RawFacts = Box::leak(Box::new(facts.to_raw(log)));
        let silent = RawFacts {
            log: say_nothing,
            ..*facts
        };
        in_copy(&self.path, |say| {
            say(Step::Init);
            // SAFETY: the header's contract.
            unsafe { init(&silent) };
        })?;
        NAME.store(self.raw.name.cast_mut(), Ordering::Relaxed);
        // SAFETY: the header's contract; the facts are never freed.
        let answer = unsafe { init(facts) };
        if answer != 0 {
            return Err(PluginError::Unwilling {
                path: self.path,
                answer,
            });
        }
        Ok(Plugin::of(self))
    }
}

/// Runs `body` in a copy, and refuses what dies or hangs there.
fn in_copy(path: &Path, body: impl Fn(&dyn Fn(Step))) -> Result<(), PluginError> {
    let ended = trial::try_in_copy(body).map_err(|error| PluginError::NoTrial {
        path: path.into(),
        reason: error.to_string(),
    })?;
    match ended {
        Ended::Well => Ok(()),
        Ended::Died(how, step) => Err(PluginError::Died {
            path: path.into(),
            how,
            during: step.words(),
        }),
        Ended::Hung(step) => Err(PluginError::Hung {
            path: path.into(),
            during: step.words(),
            seconds: trial::LIMIT.as_secs(),
        }),
    }
}

/// The library's absolute path, so that the linker looks nowhere else, if it is the file that was asked for.
fn absolute(wanted: &PluginPath) -> Result<PathBuf, PluginError> {
    let unreadable = |error: std::io::Error| PluginError::File {
        path: wanted.path.clone(),
        reason: error.to_string(),
    };
    let path = std::fs::canonicalize(&wanted.path).map_err(unreadable)?;
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    if let Some(pinned) = &wanted.sha256 {
        let found: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if found != *pinned {
            return Err(PluginError::Checksum {
                path,
                found,
                wanted: pinned.clone(),
            });
        }
    }
    Ok(path)
}

fn bring_up(path: &Path, say: &dyn Fn(Step)) -> Result<Library, PluginError> {
    say(Step::Load);
    let handle = open(path)?;
    // SAFETY: a library's handle and a name.
    let entry = unsafe { libc::dlsym(handle, ENTRY.as_ptr()) };
    if entry.is_null() {
        return Err(PluginError::NoEntry { path: path.into() });
    }
    let watched = imports::redirect(entry).map_err(|reason| PluginError::NoLibrary {
        path: path.into(),
        reason,
    })?;
    say(Step::Describe);
    // SAFETY: the header says what a function of that name is.
    let raw = unsafe { std::mem::transmute::<*mut c_void, Entry>(entry)() };
    let library = describe(path, raw)?;
    Ok(Library { watched, ..library })
}

fn open(path: &Path) -> Result<*mut c_void, PluginError> {
    let refused = |reason: String| PluginError::NoLibrary {
        path: path.into(),
        reason,
    };
    let name =
        CString::new(path.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
    // SAFETY: a path; what the library's constructors do was tried in a copy. All symbols now: a walk must not meet the linker.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failure there is a text, valid until the next call.
    let reason = unsafe { text(libc::dlerror()) }.unwrap_or_default();
    // The path stands in the sentence already.
    let shown = format!("{}: ", path.display());
    Err(refused(
        reason.strip_prefix(&shown).unwrap_or(&reason).to_owned(),
    ))
}

/// The library that is in `init`.
static NAME: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn log(line: *const c_char) {
    // SAFETY: the library's own name and, by the header, a C string.
    let (name, line) = unsafe { (text(NAME.load(Ordering::Relaxed)), text(line)) };
    eprintln!(
        "walkfuzz: {}: {}",
        name.unwrap_or_default(),
        line.unwrap_or_default()
    );
}

unsafe extern "C" fn say_nothing(_: *const c_char) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read() {
        let digits = "0F".repeat(32);
        let pinned: PluginPath = format!("/a@b/c.so@sha256:{digits}").parse().unwrap();
        assert_eq!(pinned.path, Path::new("/a@b/c.so"));
        assert_eq!(
            pinned.to_string(),
            format!("/a@b/c.so@sha256:{}", "0f".repeat(32))
        );
        let plain: PluginPath = "c.so".parse().unwrap();
        assert_eq!(plain.sha256, None);
        let said = "c.so@sha256:12"
            .parse::<PluginPath>()
            .unwrap_err()
            .to_string();
        assert!(said.starts_with("12 is no SHA-256"), "{said}");
        for empty in ["", &format!("@sha256:{digits}")] {
            assert_eq!(empty.parse::<PluginPath>(), Err(PluginError::NoPath));
        }
    }
}
