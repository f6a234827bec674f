//! One entry: its file, read with suspicion and written in one piece.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walkfuzz_context::witness::OffsetClass;
use walkfuzz_context::{Arch, Batch, BlobKind};

use crate::corpus::{EntryError, Expected, check_name};

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// No entry is larger.
const LARGEST: u64 = 64 << 10;

/// A JVM that an entry speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryJdk {
    /// Its version, `17.0.7`.
    pub version: String,
    /// libjvm's build id; another build of the same version is tried where this one is missing.
    #[serde(default)]
    pub build_id: String,
    /// The collector; the JVM's own choice if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub collector: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The signature as a sentence.
    pub title: String,
    /// The tracker's issue, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub issue: String,
    /// What counts as the same; empty for seeds.
    #[serde(default)]
    pub signature: String,
    /// What the faulting instruction's text begins with, where a function has more than one fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instruction: String,
    /// `T0` to `T4`.
    pub tier: String,
    /// What is expected.
    pub expected: Expected,
    /// The day it came to the corpus, `2026-03-01`.
    pub since: String,
    /// The engine that found it.
    #[serde(default)]
    pub engine: String,
    /// What the walked pc has to lie in; anything if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Where in it; anywhere if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub offset: String,
    /// Moments of that class at which a check tries it at most.
    pub moments: u64,
    /// Checks in a row that did not reproduce it.
    #[serde(default)]
    pub misses: u32,
    /// The input's bytes in hex: a batch.
    pub input: String,
    /// What they say, for people.
    pub perturbation: String,
    /// The JVM that it crashes; seeds have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jdk: Option<EntryJdk>,
    /// The first JVM that has the fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<EntryJdk>,
}

/// The bytes of a hex text.
#[must_use]
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

impl Entry {
    /// Reads one file.
    ///
    /// # Errors
    /// It cannot be read, or is no entry.
    pub fn read(path: &Path) -> Result<Self, EntryError> {
        let io = |source| EntryError::Io {
            what: "read",
            path: path.to_owned(),
            source,
        };
        let malformed = |reason: String| EntryError::Malformed {
            path: path.to_owned(),
            reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let kind = std::fs::symlink_metadata(path).map_err(io)?;
        if !kind.is_file() {
            return Err(malformed("not a regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > LARGEST {
            return Err(malformed(format!("larger than {LARGEST} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| malformed("no UTF-8 text".to_owned()))?;
        let mut entry: Entry =
            toml::from_str(&text).map_err(|error| malformed(error.message().to_owned()))?;
        let name = path.file_stem().and_then(|name| name.to_str());
        entry.name = name.unwrap_or_default().to_owned();
        check_name(&entry.name)?;
        entry.check().map_err(malformed)?;
        Ok(entry)
    }

    /// What TOML alone cannot check.
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {} is not {SCHEMA}", self.schema));
        }
        let bytes = bytes_of_hex(&self.input).ok_or("its input is no hex text")?;
        let batch = Batch::decode(&bytes);
        if batch.to_bytes() != bytes {
            return Err("its input is no batch of walks in its stable form".to_owned());
        }
        if self.moments == 0 {
            return Err("moments has to be at least 1".to_owned());
        }
        if !self.kind.is_empty() && self.kind().is_none() {
            return Err(format!("nobody knows the kind `{}`", self.kind));
        }
        if !self.offset.is_empty() && self.offset().is_none() {
            return Err(format!("nobody knows the offset `{}`", self.offset));
        }
        let needs = |what: &str, there: bool| {
            if there {
                Ok(())
            } else {
                Err(format!("an entry that expects {what}"))
            }
        };
        match self.expected {
            Expected::Walks => Ok(()),
            Expected::Crash => needs(
                "a crash needs a signature and [jdk]",
                !self.signature.is_empty() && self.jdk.is_some(),
            ),
            Expected::Fixed => needs(
                "a fix needs a signature, [jdk] and [fixed]",
                !self.signature.is_empty() && self.jdk.is_some() && self.fixed.is_some(),
            ),
        }
    }

    /// The walks, for this machine's architecture.
    #[must_use]
    pub fn batch(&self) -> Batch {
        let batch = Batch::decode(&bytes_of_hex(&self.input).unwrap_or_default());
        batch.adapt(Arch::NATIVE)
    }

    /// [`kind`](Self::kind) by its name.
    #[must_use]
    pub fn kind(&self) -> Option<BlobKind> {
        let named = |kind: &BlobKind| kind.name() == self.kind;
        BlobKind::ALL.into_iter().find(named)
    }

    /// [`offset`](Self::offset) by its name.
    #[must_use]
    pub fn offset(&self) -> Option<OffsetClass> {
        let named = |offset: &OffsetClass| offset.name() == self.offset;
        OffsetClass::ALL.into_iter().find(named)
    }

    /// The file's text.
    ///
    /// # Errors
    /// It cannot be said in TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let text = toml::to_string_pretty(self)?;
        Ok(format!(
            "# Written by `walkfuzz corpus`; docs/corpus.md.\n{text}"
        ))
    }

    /// Writes it into `folder`, in one piece; returns the file.
    ///
    /// # Errors
    /// It cannot be written, or its name leads elsewhere.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, EntryError> {
        check_name(&self.name)?;
        let path = folder.join(format!("{}.toml", self.name));
        let io = |source| EntryError::Io {
            what: "write",
            path: path.clone(),
            source,
        };
        let text = self.to_toml().map_err(|error| EntryError::Malformed {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let beside = folder.join(format!(".{}.part", self.name));
        std::fs::create_dir_all(folder).map_err(io)?;
        std::fs::write(&beside, text).map_err(io)?;
        std::fs::rename(&beside, &path).map_err(io)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{State, entries};

    fn entry() -> Entry {
        let mut batch = Batch::untouched(Arch::X86_64);
        batch
            .set_walks(&[walkfuzz_context::Perturbation::parse(Arch::X86_64, "fp+=6346").unwrap()]);
        Entry {
            name: "a-1".to_owned(),
            schema: SCHEMA,
            title: "SIGSEGV in x via agct [T4]".to_owned(),
            issue: String::new(),
            signature: "SIGSEGV|x|agct".to_owned(),
            instruction: String::new(),
            tier: "T4".to_owned(),
            expected: Expected::Crash,
            since: "2026-03-01".to_owned(),
            engine: "live".to_owned(),
            kind: "interpreter".to_owned(),
            offset: "codelet".to_owned(),
            moments: 100,
            misses: 0,
            input: walkfuzz_record::finding::hex_bytes(&batch.to_bytes()),
            perturbation: "fp+=6346".to_owned(),
            jdk: Some(EntryJdk {
                version: "17.0.7".to_owned(),
                ..EntryJdk::default()
            }),
            fixed: None,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("corpus-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let corpus = folder("round");
        let path = entry().write(&corpus.join("crashing")).unwrap();
        assert_eq!(Entry::read(&path).unwrap(), entry());
        assert_eq!(entries(&corpus, State::Crashing).unwrap(), [entry()]);
        assert_eq!(entries(&corpus, State::Seeds).unwrap(), []);
        // In the wrong folder.
        entry().write(&corpus.join("regression")).unwrap();
        assert!(entries(&corpus, State::Regression).is_err());
        std::fs::remove_dir_all(&corpus).unwrap();
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            ".hidden",
            "a\0",
            "ä",
            &"x".repeat(101),
        ] {
            assert!(check_name(name).is_err(), "{name}");
            let named = Entry {
                name: name.to_owned(),
                ..entry()
            };
            assert!(named.write(Path::new("/nowhere")).is_err());
        }
        check_name("JDK-8313796").unwrap();
        check_name("async-profiler#831").unwrap();
    }

    #[test]
    fn malformed_entries_are_one_sentence() {
        let corpus = folder("bad");
        let path = corpus.join("x.toml");
        let good = entry().to_toml().unwrap();
        let with = |from: &str, to: &str| {
            assert!(good.contains(from), "{from} not in {good}");
            good.replace(from, to)
        };
        let input = format!("input = \"{}\"", entry().input);
        for (text, why) in [
            (String::new(), "missing field"),
            ("\u{0}".to_owned(), "no entry"),
            (with("schema = 1", "schema = 2"), "schema 2"),
            (with(&input, "input = \"xyz\""), "no hex"),
            (with(&input, "input = \"ffff\""), "no batch"),
            (with("moments = 100", "moments = 0"), "at least 1"),
            (with("\"interpreter\"", "\"nowhere\""), "nowhere"),
            (with("\"codelet\"", "\"elsewhere\""), "elsewhere"),
            (with("[jdk]", "[jvm]"), "unknown field"),
            (
                with("\"crash\"", "\"fixed\""),
                "needs a signature, [jdk] and [fixed]",
            ),
            (with("misses = 0", "misses = -1"), "no entry"),
            ("x = \"".repeat(20_000), "larger"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = Entry::read(&path).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(
            Entry::read(&path)
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(
            Entry::read(&path)
                .unwrap_err()
                .to_string()
                .contains("regular file")
        );
        assert!(Entry::read(&corpus.join("none.toml")).is_err());
        std::fs::remove_dir_all(&corpus).unwrap();
    }

    #[test]
    fn hex_is_read_back() {
        assert_eq!(bytes_of_hex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(bytes_of_hex(""), Some(vec![]));
        for bad in ["0", "0g", "+1", "äö"] {
            assert_eq!(bytes_of_hex(bad), None, "{bad}");
        }
    }
}
