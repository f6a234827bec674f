//! From a path to a walker: the file, the linker, the description, `init`.
//!
//! Contract: ordinary threads only; forks, allocates, prints what the library says. A library that was loaded stays for the process's life.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use sha2::{Digest as _, Sha256};
use walkfuzz_record::{Code, Generation};

use super::abi::{ABI, ENTRY, Entry, RawFacts, RawWalker};
use super::error::PluginError;
use super::trial::{self, Ended, Step};
use super::{Facts, Plugin, imports};

/// Names that stand for walkfuzz's own walkers in signatures: these, and whatever begins with one of them and a `-`.
const TAKEN: [&str; 5] = ["agct", "reference", "jfr", "none", "plugin"];
/// As many bytes as a record keeps of a name, less its end.
const LONGEST_NAME: usize = 31;
/// More is no table.
const MOST_CODES: usize = 256;

/// A library, and which file it must be: `PATH` or `PATH@sha256:HEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPath {
    /// The library.
    pub path: PathBuf,
    /// Its SHA-256 in lower-case hex, if it is pinned.
    pub sha256: Option<String>,
}

impl FromStr for PluginPath {
    type Err = PluginError;

    fn from_str(text: &str) -> Result<Self, PluginError> {
        let Some((path, digits)) = text.rsplit_once("@sha256:") else {
            return Ok(Self {
                path: text.into(),
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
    path: PathBuf,
    pub(super) raw: RawWalker,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) generation: Generation,
    pub(super) codes: Vec<(Code, String)>,
    /// Imports that are watched.
    pub(super) watched: usize,
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
    let watched = imports::redirect(handle).map_err(|reason| PluginError::NoLibrary {
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

fn describe(path: &Path, raw: *const RawWalker) -> Result<Library, PluginError> {
    let wrong = |what: String| PluginError::Description {
        path: path.into(),
        what,
    };
    if raw.is_null() {
        return Err(wrong("walkfuzz_walker returned NULL".to_owned()));
    }
    // SAFETY: these two words are in every version of the ABI.
    let (abi, size) = unsafe { ((*raw).abi, (*raw).size as usize) };
    if abi != ABI {
        return Err(PluginError::OtherAbi {
            path: path.into(),
            found: abi,
        });
    }
    let least = std::mem::offset_of!(RawWalker, walk_from_frame);
    if size < least {
        return Err(wrong(format!(
            "its size is {size} bytes, and the least is {least}"
        )));
    }
    // SAFETY: all-zero is a valid RawWalker; the library says that it has `size` bytes, and no more than ours are taken.
    let raw = unsafe {
        let mut ours: RawWalker = std::mem::zeroed();
        let bytes = size.min(size_of::<RawWalker>());
        std::ptr::copy_nonoverlapping(raw.cast::<u8>(), (&raw mut ours).cast::<u8>(), bytes);
        ours
    };
    if raw.walk.is_none() {
        return Err(wrong("walk is NULL".to_owned()));
    }
    // SAFETY: the header says that these are C strings or null.
    let (name, version, generation) =
        unsafe { (text(raw.name), text(raw.version), text(raw.generation)) };
    let name = name.ok_or_else(|| wrong("it has no name".to_owned()))?;
    check_name(&name).map_err(wrong)?;
    let generation = match generation.as_deref() {
        None => Generation::Plugin,
        Some(other) => *Generation::ALL
            .iter()
            .find(|generation| generation.name() == other)
            .ok_or_else(|| wrong(format!("no generation of codes is called {other:?}")))?,
    };
    let codes = codes(&raw).map_err(wrong)?;
    if generation != Generation::Plugin && !codes.is_empty() {
        return Err(wrong(format!(
            "it has names for codes, and those of generation {generation} have theirs"
        )));
    }
    Ok(Library {
        path: path.into(),
        raw,
        name,
        version: version.unwrap_or_default(),
        generation,
        codes,
        watched: 0,
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let letters = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let good = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(letters)
        && name.starts_with(|first: char| first.is_ascii_lowercase());
    if !good {
        return Err(format!(
            "the name {name:?} must have 1 to {LONGEST_NAME} of a-z, 0-9 and '-', a letter first"
        ));
    }
    let taken = |own: &&&str| {
        name.strip_prefix(**own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    match TAKEN.iter().find(taken) {
        Some(own) => Err(format!(
            "the name {name:?} would be taken for walkfuzz's own {own:?}"
        )),
        None => Ok(()),
    }
}

fn codes(raw: &RawWalker) -> Result<Vec<(Code, String)>, String> {
    let mut found: Vec<(Code, String)> = Vec::new();
    if raw.codes.is_null() {
        return Ok(found);
    }
    for index in 0..MOST_CODES {
        // SAFETY: the header says that the table goes on until a null name.
        let (code, name) = unsafe {
            let entry = &*raw.codes.add(index);
            (entry.code, text(entry.name))
        };
        let Some(name) = name else {
            return Ok(found);
        };
        if code > 0 {
            return Err(format!(
                "the code {code} ({name}) is more than 0, which is a number of frames"
            ));
        }
        if found.iter().any(|(known, _)| known.0 == code) {
            return Err(format!("the code {code} has two names"));
        }
        found.push((Code(code), name.chars().take(63).collect()));
    }
    Err(format!(
        "its table of codes has no end within {MOST_CODES} entries"
    ))
}

/// # Safety
/// A C string or null.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's.
    (!text.is_null()).then(|| {
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    })
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
    }

    #[test]
    fn names_are_short_and_their_own() {
        for good in ["fp", "async-profiler", "a2", "agct2", "my-agct"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "-a", "2a", "A", "a b", "a|b", &"a".repeat(32)] {
            assert!(
                check_name(bad).unwrap_err().contains("must have 1 to 31"),
                "{bad}"
            );
        }
        for taken in ["agct", "agct-remote-env", "reference"] {
            assert!(check_name(taken).unwrap_err().contains("own"), "{taken}");
        }
    }
}
