//! Issues that are known, by signature and version: `ci/known-issues.toml`.
//!
//! A match says "this looks like", never "this is": a signature names one function, and different bugs end in the same one.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use regex::Regex;
use serde::{Deserialize, Deserializer};
use walkfuzz_context::Arch;
use walkfuzz_record::KnownMatch;

use crate::signature::Signature;
use crate::version::JdkVersion;

/// One issue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownIssue {
    /// Its name in its tracker: `JDK-8313796`, `async-profiler#1364`.
    pub id: String,
    /// What goes wrong, in a line.
    pub title: String,
    /// Short names of the walkers that show it; empty: any.
    #[serde(default)]
    pub walkers: Vec<String>,
    /// Where it occurs; empty: not known, so anywhere.
    #[serde(default)]
    pub versions: Vec<VersionRange>,
    /// The architectures; empty: any.
    #[serde(default, deserialize_with = "architectures")]
    pub arch: Vec<Arch>,
    /// Matches the text of the signatures that it shows. Without one the issue is listed, and matches nothing by itself.
    #[serde(default, deserialize_with = "pattern")]
    pub signature: Option<Regex>,
    /// If given, matches a short function name on the native stack too.
    #[serde(default, deserialize_with = "pattern")]
    pub stack: Option<Regex>,
    /// What makes it happen, in words of the workloads: `deopt`, `unload`, `odd-pc`, `gc`, `thread-exit`, ...
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Anything else worth knowing.
    #[serde(default)]
    pub note: Option<String>,
}

/// Versions from one (inclusive) to another (exclusive): `17..17.0.9`; open at either end: `9..`, `..11.0.21`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The first affected version; `None`: all before are.
    pub affected: Option<JdkVersion>,
    /// The first fixed version; `None`: not fixed, or not known to be.
    pub fixed: Option<JdkVersion>,
}

impl VersionRange {
    /// Whether the release lies in the range. Builds of one release do not differ.
    #[must_use]
    pub fn contains(&self, version: &JdkVersion) -> bool {
        let release = version.numbers();
        self.affected
            .as_ref()
            .is_none_or(|from| from.numbers() <= release)
            && self.fixed.as_ref().is_none_or(|to| release < to.numbers())
    }
}

impl FromStr for VersionRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once("..")
            .ok_or_else(|| format!("`{text}` is not a range such as 17..17.0.9"))?;
        let end = |text: &str| -> Result<Option<JdkVersion>, String> {
            let text = text.trim();
            (!text.is_empty())
                .then(|| text.parse())
                .transpose()
                .map_err(|error: crate::version::VersionError| error.to_string())
        };
        let range = Self {
            affected: end(from)?,
            fixed: end(to)?,
        };
        match (&range.affected, &range.fixed) {
            (Some(from), Some(to)) if from >= to => Err(format!("`{text}` is an empty range")),
            _ => Ok(range),
        }
    }
}

impl<'de> Deserialize<'de> for VersionRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

fn architectures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arch>, D::Error> {
    Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|name| match name.as_str() {
            "x86_64" => Ok(Arch::X86_64),
            "aarch64" => Ok(Arch::Aarch64),
            other => Err(serde::de::Error::custom(format!(
                "`{other}` is neither x86_64 nor aarch64"
            ))),
        })
        .collect()
}

/// What is to be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The finding's signature.
    pub signature: &'a Signature,
    /// Short function names on its native stack, if known.
    pub stack: &'a [String],
    /// The JDK, if known.
    pub jdk: Option<&'a JdkVersion>,
    /// The architecture, if known.
    pub arch: Option<Arch>,
}

/// How an issue's versions fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionMatch {
    /// The JDK is in an affected range.
    Affected,
    /// The JDK or the issue's versions are not known.
    Unknown,
    /// The JDK is outside every affected range: the fix may be incomplete, or it is another bug.
    NotAffected,
}

/// An issue that a finding looks like.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The issue.
    pub issue: &'a KnownIssue,
    /// How its versions fit.
    pub version: VersionMatch,
}

/// All known issues.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownIssues {
    #[serde(default, rename = "issue")]
    issues: Vec<KnownIssue>,
}

/// Why the list could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownIssuesError {
    /// The file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The file's content is wrong.
    #[error("wrong list of known issues")]
    Parse(#[from] toml::de::Error),
    /// Two issues of one name.
    #[error("{0} is listed twice")]
    Twice(String),
}

impl KnownIssues {
    /// Reads the list's text.
    ///
    /// # Errors
    /// It is not TOML of the right shape, a pattern or range is wrong, or an issue is listed twice.
    pub fn parse(text: &str) -> Result<Self, KnownIssuesError> {
        let known: Self = toml::from_str(text)?;
        for (at, issue) in known.issues.iter().enumerate() {
            if known.issues[..at].iter().any(|other| other.id == issue.id) {
                return Err(KnownIssuesError::Twice(issue.id.clone()));
            }
        }
        Ok(known)
    }

    /// The list that this program was built with, `ci/known-issues.toml`.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static LIST: OnceLock<KnownIssues> = OnceLock::new();
        // A test reads the same text, so that a list which cannot be read is never built in.
        LIST.get_or_init(|| {
            Self::parse(include_str!("../../../ci/known-issues.toml")).unwrap_or_default()
        })
    }

    /// Reads the list's file.
    ///
    /// # Errors
    /// As [`KnownIssues::parse`], or the file cannot be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, KnownIssuesError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| KnownIssuesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// All issues as listed.
    #[must_use]
    pub fn issues(&self) -> &[KnownIssue] {
        &self.issues
    }

    /// The issue of this name.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&KnownIssue> {
        self.issues.iter().find(|issue| issue.id == id)
    }

    /// The issues that a finding looks like, the best first.
    #[must_use]
    pub fn matching(&self, query: &Query<'_>) -> Vec<Match<'_>> {
        let text = query.signature.to_string();
        let mut matches: Vec<Match<'_>> = self
            .issues
            .iter()
            .filter(|issue| issue.looks_like(query, &text))
            .map(|issue| Match {
                issue,
                version: issue.version_match(query.jdk),
            })
            .collect();
        matches.sort_by_key(|found| found.version);
        matches
    }

    /// [`matching`](Self::matching), as findings keep it.
    #[must_use]
    pub fn known(&self, query: &Query<'_>) -> Vec<KnownMatch> {
        let matches = self.matching(query).into_iter();
        matches
            .map(|found| KnownMatch {
                id: found.issue.id.clone(),
                title: found.issue.title.clone(),
                versions: found.version.name().to_owned(),
            })
            .collect()
    }
}

impl VersionMatch {
    /// As findings say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VersionMatch::Affected => "affected",
            VersionMatch::Unknown => "unknown",
            VersionMatch::NotAffected => "not-affected",
        }
    }
}

impl KnownIssue {
    fn looks_like(&self, query: &Query<'_>, signature: &str) -> bool {
        let walker = self.walkers.is_empty() || self.walkers.contains(&query.signature.walker);
        let arch = self.arch.is_empty() || query.arch.is_none_or(|arch| self.arch.contains(&arch));
        let stack = match &self.stack {
            Some(pattern) => query
                .stack
                .iter()
                .any(|function| pattern.is_match(function)),
            None => true,
        };
        walker
            && arch
            && stack
            && self
                .signature
                .as_ref()
                .is_some_and(|pattern| pattern.is_match(signature))
    }

    /// How the issue's versions fit a JDK.
    #[must_use]
    pub fn version_match(&self, jdk: Option<&JdkVersion>) -> VersionMatch {
        match jdk {
            Some(_) if self.versions.is_empty() => VersionMatch::Unknown,
            Some(jdk) if self.versions.iter().any(|range| range.contains(jdk)) => {
                VersionMatch::Affected
            }
            Some(_) => VersionMatch::NotAffected,
            None => VersionMatch::Unknown,
        }
    }
}
