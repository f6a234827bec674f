//! What a library says of its walker, read and checked.
//!
//! Contract: ordinary threads; the library's description is copied, its texts too.

use std::ffi::{CStr, c_char};
use std::path::Path;

use walkfuzz_record::{Code, Generation};

use super::abi::{ABI, METHOD_ID, METHOD_PC, RawWalker};
use super::error::PluginError;
use super::load::Library;
use crate::request::RequestStackTrace;
use crate::walker::Methods;

/// Names that stand for walkfuzz's own walkers in signatures: these, and whatever begins with one of them and a `-`.
const TAKEN: [&str; 7] = [
    "agct",
    "reference",
    "asgst",
    RequestStackTrace::NAME,
    "jfr",
    "none",
    "plugin",
];
/// As many bytes as a record keeps of a name, less its end.
const LONGEST_NAME: usize = 31;
/// What a record puts behind the name of a walker that walks from outside, at most.
const LONGEST_MANNER: usize = "-remote-running".len();
/// As many bytes as a record keeps of a version, less its end.
const LONGEST_VERSION: usize = 23;
/// As many bytes as the header allows for a code's name.
const LONGEST_CODE_NAME: usize = 63;
/// More is no table.
const MOST_CODES: usize = 256;

/// Reads and checks what a library says of itself.
pub(super) fn describe(path: &Path, raw: *const RawWalker) -> Result<Library, PluginError> {
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
    if raw.walk_remote.is_some() {
        check_remote_name(&name).map_err(wrong)?;
    }
    let version = version.unwrap_or_default();
    check_version(&version).map_err(wrong)?;
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
    let methods = match raw.method {
        METHOD_ID => Methods::Ids,
        METHOD_PC => Methods::Pcs,
        other => {
            return Err(wrong(format!(
                "its method is {other}, and 0 (method ids) or 1 (pcs) is known"
            )));
        }
    };
    Ok(Library {
        path: path.into(),
        raw,
        name,
        version,
        generation,
        codes,
        methods,
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

fn check_remote_name(name: &str) -> Result<(), String> {
    let most = LONGEST_NAME - LONGEST_MANNER;
    match name.len() <= most {
        true => Ok(()),
        false => Err(format!(
            "the name {name:?} has {} bytes, and {most} is the most where there is a walk_remote, because records put -remote-running behind it",
            name.len()
        )),
    }
}

fn check_version(version: &str) -> Result<(), String> {
    match version.len() {
        0..=LONGEST_VERSION => Ok(()),
        bytes => Err(format!(
            "the version {version:?} has {bytes} bytes, and {LONGEST_VERSION} is the most"
        )),
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
        let kept = name.floor_char_boundary(LONGEST_CODE_NAME);
        found.push((Code(code), name[..kept].to_owned()));
    }
    Err(format!(
        "its table of codes has no end within {MOST_CODES} entries"
    ))
}

/// # Safety
/// A C string or null.
pub(super) unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::super::abi::RawCode;
    use super::*;
    use crate::remote::RemoteMode;

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
        let remote = RemoteMode::ALL.map(RemoteMode::name);
        let others = [
            "agct",
            "reference",
            "asgst-queue",
            "request-stack-trace",
            "jfr-execution",
        ];
        for taken in others.into_iter().chain(remote) {
            assert!(check_name(taken).unwrap_err().contains("own"), "{taken}");
        }
    }

    #[test]
    fn versions_are_as_long_as_records_keep() {
        assert_eq!(check_version(""), Ok(()));
        assert_eq!(check_version(&"1".repeat(23)), Ok(()));
        let long = format!("{}é", "1".repeat(22));
        let said = check_version(&long).unwrap_err();
        assert!(said.contains("24 bytes, and 23 is the most"), "{said}");
    }

    #[test]
    fn names_of_codes_are_cut_by_bytes_and_between_letters() {
        let name = CString::new(format!("{}éé", "a".repeat(60))).unwrap();
        let table = [
            RawCode {
                code: -1,
                name: name.as_ptr(),
            },
            RawCode::END,
        ];
        // SAFETY: all-zero is a valid RawWalker.
        let mut raw: RawWalker = unsafe { std::mem::zeroed() };
        raw.codes = table.as_ptr();
        let expected = format!("{}é", "a".repeat(60));
        assert_eq!(codes(&raw), Ok(vec![(Code(-1), expected)]));
    }
}
