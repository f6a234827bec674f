//! JDK versions and their order.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A JDK's version: `17.0.9+9`, `11.0.13`, `22-ea+3`, `8u392`, `1.8.0_392-b08`.
///
/// Ordered by release, an early-access build before its release, then by build where both have one. What follows (`-LTS`,
/// vendor text) is ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct JdkVersion {
    numbers: Vec<u32>,
    early_access: bool,
    build: Option<u32>,
}

/// The text is no JDK version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a JDK version such as 17.0.9+9, 22-ea or 8u392")]
pub struct VersionError(String);

impl JdkVersion {
    /// The release line: 17 of `17.0.9`.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.numbers.first().copied().unwrap_or(0)
    }

    /// The numbers of the release, without trailing zeros: 17, 0, 9.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The build, 9 of `17.0.9+9`.
    #[must_use]
    pub fn build(&self) -> Option<u32> {
        self.build
    }

    /// Whether it is an early-access build.
    #[must_use]
    pub fn is_early_access(&self) -> bool {
        self.early_access
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // 1.8.0_392-b08 and 8u392-b08 are what 8 called what would be 8.0.392+8 today.
        let update = text
            .split_once('u')
            .filter(|(line, _)| line.bytes().all(|b| b.is_ascii_digit()));
        let (text, legacy) = match (text.strip_prefix("1."), update) {
            (Some(rest), _) => (rest.replacen('_', ".", 1), true),
            (None, Some((line, rest))) => (format!("{line}.0.{rest}"), true),
            (None, None) => (text.to_owned(), false),
        };
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (release, rest) = text.split_at(end);
        let mut numbers = release
            .split('.')
            .map(str::parse)
            .collect::<Result<Vec<u32>, _>>()
            .ok()?;
        if numbers.len() > 8 {
            return None;
        }
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        let digits = |text: &str| {
            let end = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            text[..end].parse().ok()
        };
        let build = if legacy {
            rest.split_once("-b").and_then(|(_, build)| digits(build))
        } else {
            rest.split_once('+').and_then(|(_, build)| digits(build))
        };
        let before_build = rest.split('+').next().unwrap_or("");
        Some(Self {
            numbers,
            early_access: before_build
                .split('-')
                .any(|word| matches!(word, "ea" | "internal")),
            build,
        })
    }
}

impl FromStr for JdkVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text).ok_or_else(|| VersionError(text.to_owned()))
    }
}

impl fmt::Display for JdkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.numbers.iter().enumerate() {
            write!(f, "{}{number}", if at > 0 { "." } else { "" })?;
        }
        if self.early_access {
            f.write_str("-ea")?;
        }
        match self.build {
            Some(build) => write!(f, "+{build}"),
            None => Ok(()),
        }
    }
}

impl From<JdkVersion> for String {
    fn from(version: JdkVersion) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for JdkVersion {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl Ord for JdkVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then(other.early_access.cmp(&self.early_access))
            .then(self.build.cmp(&other.build))
    }
}

impl PartialOrd for JdkVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for JdkVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for JdkVersion {}
