//! Java versions: `17.0.9`, `21`, `25-ea`, and the old `1.8.0_402`.

use std::fmt;

/// A Java version, ordered by its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// Reads a version, or `None` if it does not begin with a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let plain = Self::release(text);
        let mut numbers = plain
            .split(['.', '_'])
            .map(|number| number.parse().ok())
            .collect::<Option<Vec<u32>>>()?;
        if numbers.len() > 1 && numbers[0] == 1 {
            // Before 9, feature 8 was written 1.8.
            numbers.remove(0);
        }
        Some(Version {
            numbers,
            text: text.to_owned(),
        })
    }

    /// The release number of a version: `17.0.15` of `17.0.15+6-Debian`, which is how [installed JDKs](crate::Jdk) are named.
    #[must_use]
    pub fn release(text: &str) -> &str {
        text.split(['+', '-']).next().unwrap_or(text)
    }

    /// The feature release, such as 17.
    #[must_use]
    pub fn feature(&self) -> u32 {
        self.number(0)
    }

    /// The interim release, 0 in all OpenJDK releases so far.
    #[must_use]
    pub fn interim(&self) -> u32 {
        self.number(1)
    }

    /// The update release, such as 9 in 17.0.9.
    #[must_use]
    pub fn update(&self) -> u32 {
        self.number(2)
    }

    fn number(&self, index: usize) -> u32 {
        self.numbers.get(index).copied().unwrap_or(0)
    }

    /// Whether this version is one of those that `wanted` names: 17 names every 17.x.y, 17.0.9 names itself.
    #[must_use]
    pub fn is_a(&self, wanted: &Version) -> bool {
        (0..wanted.numbers.len()).all(|i| self.number(i) == wanted.number(i))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_number_alone() {
        for (text, release) in [
            ("17.0.15+6-Debian", "17.0.15"),
            ("25-ea", "25"),
            ("21.0.8", "21.0.8"),
            ("", ""),
        ] {
            assert_eq!(Version::release(text), release);
        }
    }

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn numbers_are_read() {
        let v = version("17.0.9");
        assert_eq!((v.feature(), v.interim(), v.update()), (17, 0, 9));
        assert_eq!(version("25-ea+3").feature(), 25);
        let eight = version("1.8.0_402");
        assert_eq!((eight.feature(), eight.update()), (8, 402));
        assert_eq!(version("21").to_string(), "21");
        assert!(Version::parse("").is_none());
        assert!(Version::parse("/usr/lib/jvm").is_none());
        assert!(Version::parse("17.x").is_none());
        assert!(Version::parse("99999999999").is_none());
    }

    #[test]
    fn versions_are_ordered_and_matched_by_number() {
        assert!(version("11.0.9") < version("11.0.13"));
        assert!(version("17.0.9").is_a(&version("17")));
        assert!(version("17.0.9").is_a(&version("17.0.9")));
        assert!(!version("17.0.15").is_a(&version("17.0.1")));
        assert!(version("21").is_a(&version("21.0.0")));
        assert!(!version("21").is_a(&version("21.0.8")));
    }
}
