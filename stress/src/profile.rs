//! Profiles: which matrix, within which limits. TOML files with inheritance, `ci/NAME.toml`.
//!
//! A profile may inherit from another of the same folder: what it says itself wins, key by key; lists replace lists.
//! docs/stress.md describes every key.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use walkfuzz_record::read_file;

use crate::cell::Dimension;
use crate::filter::Filter;

/// What to run, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub summary: String,
    /// The values on each axis; an axis that no profile names has its default.
    pub matrix: BTreeMap<Dimension, Vec<String>>,
    /// Cells that are never run.
    pub exclude: Vec<Filter>,
    /// Limits of each cell and of the run.
    pub limits: Limits,
    /// What a cell must have done to be judged.
    pub minimum: Minimum,
    /// Sets of JVM options, beside the built-in ones.
    pub flags: BTreeMap<String, Vec<String>>,
}

/// What a cell and a run may use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// How long a cell's program works under the sampler.
    pub sampled: Duration,
    /// After how long its JVM is ended, start and end included.
    pub time_out: Duration,
    /// How long its program may show no progress.
    pub hang: Duration,
    /// Resident bytes of the JVM and what it starts.
    pub memory: u64,
    /// The greatest heap, as in -Xmx.
    pub heap: String,
    /// The most cells; absent: all.
    pub cells: Option<usize>,
    /// How long the run may take; absent: until all cells are done.
    pub budget: Option<Duration>,
    /// Cells at a time.
    pub jobs: usize,
}

/// Far more than a profile has.
const MOST_BYTES: u64 = 1 << 20;
/// The profiles that walkfuzz comes with, where no folder has one of the name.
const BUILT_IN: [(&str, &str); 5] = [
    ("nightly", include_str!("../../ci/nightly.toml")),
    ("pr", include_str!("../../ci/pr.toml")),
    ("seeds", include_str!("../../ci/seeds.toml")),
    ("smoke", include_str!("../../ci/smoke.toml")),
    ("walkers", include_str!("../../ci/walkers.toml")),
];

/// Under this, a cell's verdict is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Minimum {
    /// Walks of untouched contexts.
    pub walks: u64,
    /// Share of them that gave frames.
    pub frames: f64,
}

impl Minimum {
    /// Of a clock that gives at most `ceiling` of the `asked` samples a second: as many walks less.
    #[must_use]
    pub fn at(self, asked: f64, ceiling: Option<f64>) -> Self {
        let share = ceiling.map_or(1.0, |ceiling| (ceiling / asked).min(1.0));
        Self {
            walks: (self.walks as f64 * share).ceil() as u64,
            ..self
        }
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No such file.
    #[error("there is no profile `{name}`; there are: {}", .known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is not TOML, or not a profile; the message has line and column.
    #[error("{}: {}", .path.display(), .source.to_string().trim_end())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
    /// Profiles that inherit from each other.
    #[error("profile `{0}` inherits from itself")]
    Circle(String),
    /// An axis without values.
    #[error("profile `{name}` names no value for `{axis}`")]
    Empty {
        /// The profile.
        name: String,
        /// The axis.
        axis: &'static str,
    },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    inherits: Option<String>,
    summary: Option<String>,
    #[serde(deserialize_with = "matrix")]
    matrix: BTreeMap<Dimension, Vec<String>>,
    #[serde(deserialize_with = "filters")]
    exclude: Option<Vec<Filter>>,
    limits: LimitsFile,
    minimum: MinimumFile,
    flags: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct LimitsFile {
    #[serde(deserialize_with = "duration")]
    sampled: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    time_out: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    hang: Option<Duration>,
    #[serde(deserialize_with = "bytes")]
    memory: Option<u64>,
    heap: Option<String>,
    cells: Option<NonZeroUsize>,
    #[serde(deserialize_with = "duration")]
    budget: Option<Duration>,
    jobs: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct MinimumFile {
    walks: Option<u64>,
    frames: Option<f64>,
}

fn matrix<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Dimension, Vec<String>>, D::Error> {
    let named = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
    named
        .into_iter()
        .map(|(name, values)| {
            let known = || {
                let names: Vec<_> = Dimension::ALL.iter().map(|d| d.name()).collect();
                D::Error::custom(format!(
                    "`{name}` is no axis; expected one of {}",
                    names.join(", ")
                ))
            };
            Ok((Dimension::from_name(&name).ok_or_else(known)?, values))
        })
        .collect()
}

fn filters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Filter>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let filters: Result<Vec<_>, _> = texts.iter().map(|text| Filter::parse(text)).collect();
    filters.map(Some).map_err(D::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).map_err(D::Error::custom)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_bytes(&text).map(Some).map_err(D::Error::custom)
}

/// `100us`, `10ms`, `5s`, `2m`, `8h`, `1h30m`.
///
/// # Errors
/// What was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as 100us, 10ms, 5s, 2m or 8h");
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(wrong)
}

/// `512K`, `256M`, `2G`: powers of 1,024.
///
/// # Errors
/// What was expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 512K, 256M or 2G");
    let unit = text.chars().last().map(|c| c.to_ascii_uppercase());
    let shift = match unit {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('0'..='9') => 0,
        _ => return Err(wrong()),
    };
    let digits = if shift == 0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(wrong)
}

impl File {
    fn read(path: &Path) -> Result<Self, ProfileError> {
        let failed = |source| ProfileError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = read_file(path, MOST_BYTES).map_err(failed)?;
        let text = String::from_utf8(bytes)
            .map_err(|error| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ProfileError> {
        toml::from_str(text).map_err(|source| ProfileError::Wrong {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// `NAME.toml` of the folder, or the built-in profile of that name.
    fn named(folder: &Path, name: &str) -> Result<Self, ProfileError> {
        let path = folder.join(format!("{name}.toml"));
        if path.is_file() {
            return Self::read(&path);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(&path, text),
            None => Err(ProfileError::Unknown {
                name: name.to_owned(),
                known: Profile::names(folder),
            }),
        }
    }

    /// What this file does not say, `base` does.
    fn over(self, base: File) -> File {
        let merged = |mut under: BTreeMap<_, _>, over: BTreeMap<_, _>| {
            under.extend(over);
            under
        };
        File {
            inherits: None,
            summary: self.summary.or(base.summary),
            matrix: {
                let mut matrix = base.matrix;
                matrix.extend(self.matrix);
                matrix
            },
            exclude: self.exclude.or(base.exclude),
            limits: LimitsFile {
                sampled: self.limits.sampled.or(base.limits.sampled),
                time_out: self.limits.time_out.or(base.limits.time_out),
                hang: self.limits.hang.or(base.limits.hang),
                memory: self.limits.memory.or(base.limits.memory),
                heap: self.limits.heap.or(base.limits.heap),
                cells: self.limits.cells.or(base.limits.cells),
                budget: self.limits.budget.or(base.limits.budget),
                jobs: self.limits.jobs.or(base.limits.jobs),
            },
            minimum: MinimumFile {
                walks: self.minimum.walks.or(base.minimum.walks),
                frames: self.minimum.frames.or(base.minimum.frames),
            },
            flags: merged(base.flags, self.flags),
        }
    }
}

impl Profile {
    /// The profile that everything inherits from: one plain cell for each JDK line.
    #[must_use]
    pub fn plain() -> Self {
        let one = |value: &str| vec![value.to_owned()];
        Self {
            name: "plain".to_owned(),
            summary: "one cell".to_owned(),
            matrix: Dimension::ALL
                .iter()
                .map(|&dimension| {
                    let value = match dimension {
                        Dimension::Jdk => "default",
                        Dimension::Collector | Dimension::Flags => "default",
                        Dimension::Walker => "agct",
                        Dimension::Mode => "guarded",
                        Dimension::Workload => "forkjoin",
                        Dimension::Antagonists => "none",
                        Dimension::Clock => "timer",
                        Dimension::Interval => "100us",
                    };
                    (dimension, one(value))
                })
                .collect(),
            exclude: Vec::new(),
            limits: Limits {
                sampled: Duration::from_secs(10),
                time_out: Duration::from_secs(90),
                hang: Duration::from_secs(20),
                memory: 2 << 30,
                heap: "256m".to_owned(),
                cells: None,
                budget: None,
                jobs: 1,
            },
            minimum: Minimum {
                walks: 1_000,
                frames: 0.2,
            },
            flags: BTreeMap::new(),
        }
    }

    /// Reads `NAME.toml` of a folder, else the built-in profile of that name, and what it inherits from; a name with a `/` or `.toml` is a path.
    ///
    /// # Errors
    /// There is none, or it is wrong; the message says where.
    pub fn load(folder: &Path, name: &str) -> Result<Self, ProfileError> {
        let (folder, name, mut file) = if name.contains('/') || name.ends_with(".toml") {
            let path = Path::new(name);
            let stem = path.file_stem().map(|stem| stem.to_string_lossy());
            let stem = stem.map_or_else(|| name.to_owned(), |stem| stem.into_owned());
            let folder = path.parent().unwrap_or(folder);
            (folder, stem, File::read(path)?)
        } else {
            (folder, name.to_owned(), File::named(folder, name)?)
        };
        let mut seen = vec![name.clone()];
        while let Some(base) = file.inherits.take() {
            if seen.contains(&base) {
                return Err(ProfileError::Circle(base));
            }
            let under = File::named(folder, &base)?;
            let further = under.inherits.clone();
            file = file.over(under);
            file.inherits = further;
            seen.push(base);
        }
        Self::of(name, file)
    }

    fn of(name: String, file: File) -> Result<Self, ProfileError> {
        let plain = Self::plain();
        let mut matrix = plain.matrix;
        matrix.extend(file.matrix);
        if let Some((axis, _)) = matrix.iter().find(|(_, values)| values.is_empty()) {
            return Err(ProfileError::Empty {
                name,
                axis: axis.name(),
            });
        }
        let limits = file.limits;
        Ok(Self {
            name,
            summary: file.summary.unwrap_or_default(),
            matrix,
            exclude: file.exclude.unwrap_or_default(),
            limits: Limits {
                sampled: limits.sampled.unwrap_or(plain.limits.sampled),
                time_out: limits.time_out.unwrap_or(plain.limits.time_out),
                hang: limits.hang.unwrap_or(plain.limits.hang),
                memory: limits.memory.unwrap_or(plain.limits.memory),
                heap: limits.heap.unwrap_or(plain.limits.heap),
                cells: limits.cells.map(NonZeroUsize::get),
                budget: limits.budget,
                jobs: limits.jobs.unwrap_or(plain.limits.jobs).max(1),
            },
            minimum: Minimum {
                walks: file.minimum.walks.unwrap_or(plain.minimum.walks),
                frames: file.minimum.frames.unwrap_or(plain.minimum.frames),
            },
            flags: file.flags,
        })
    }

    /// The values on an axis.
    #[must_use]
    pub fn values(&self, dimension: Dimension) -> &[String] {
        self.matrix.get(&dimension).map_or(&[], Vec::as_slice)
    }

    /// Names of the profiles in a folder.
    #[must_use]
    pub fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = files
            .filter_map(|file| {
                let path = file.path();
                let is_profile = path.extension().is_some_and(|end| end == "toml");
                is_profile.then(|| path.file_stem().map(|s| s.to_string_lossy().into_owned()))?
            })
            .collect();
        names.extend(BUILT_IN.map(|(name, _)| name.to_owned()));
        // The list of known issues stands beside them.
        names.retain(|name| name != "known-issues");
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn what_a_profile_says_wins_and_the_rest_is_inherited() {
        let folder = folder(&[
            (
                "base.toml",
                "[limits]\nsampled = '2s'\nheap = '64m'\n[matrix]\njdk = ['17']\nclock = ['tick']\n[flags]\ntiny = ['-Xss180k']\n",
            ),
            (
                "middle.toml",
                "inherits = 'base'\n[matrix]\njdk = ['21', '25']\n",
            ),
            (
                "top.toml",
                "inherits = 'middle'\nexclude = ['jdk=25 & collector=z']\n[limits]\nsampled = '1m30s'\n",
            ),
        ]);
        let profile = Profile::load(folder.path(), "top").unwrap();
        assert_eq!(profile.name, "top");
        assert_eq!(profile.values(Dimension::Jdk), ["21", "25"]);
        assert_eq!(profile.values(Dimension::Clock), ["tick"]);
        assert_eq!(profile.values(Dimension::Walker), ["agct"]);
        assert_eq!(profile.limits.sampled, Duration::from_secs(90));
        assert_eq!(profile.limits.heap, "64m");
        assert_eq!(profile.exclude.len(), 1);
        assert_eq!(profile.flags["tiny"], ["-Xss180k"]);
    }

    #[test]
    fn without_a_folder_there_are_the_built_in_profiles() {
        let nowhere = Path::new("/nonexistent");
        for (name, _) in BUILT_IN {
            let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci");
            let (built_in, file) = (Profile::load(nowhere, name), Profile::load(&ours, name));
            assert_eq!(built_in.unwrap(), file.unwrap());
        }
        let unknown = Profile::load(nowhere, "weekly").unwrap_err().to_string();
        assert!(unknown.ends_with("there are: nightly, pr, seeds, smoke, walkers"));
    }

    #[test]
    fn a_slow_clock_need_not_give_what_it_cannot() {
        let minimum = Minimum {
            walks: 2_000,
            frames: 0.2,
        };
        assert_eq!(minimum.at(10_000.0, Some(250.0)).walks, 50);
        assert_eq!(minimum.at(100.0, Some(250.0)).walks, 2_000);
        assert_eq!(minimum.at(10_000.0, None), minimum);
    }

    #[test]
    fn mistakes_are_named_with_line_and_column() {
        let folder = folder(&[
            ("broken.toml", "summary = 'x'\n[matrix\njdk = 1\n"),
            ("axis.toml", "[matrix]\ngc = ['z']\n"),
            ("time.toml", "[limits]\nsampled = '5 parsecs'\n"),
            ("filter.toml", "exclude = ['jdk>17']\n"),
            ("key.toml", "[limits]\nsampeld = '5s'\n"),
            ("empty.toml", "[matrix]\nclock = []\n"),
            ("a.toml", "inherits = 'b'\n"),
            ("b.toml", "inherits = 'a'\n"),
            ("orphan.toml", "inherits = 'nobody'\n"),
        ]);
        let message = |name: &str| Profile::load(folder.path(), name).unwrap_err().to_string();
        assert!(
            message("broken").contains("line 2, column 8"),
            "{}",
            message("broken")
        );
        assert!(
            message("axis").contains("`gc` is no axis"),
            "{}",
            message("axis")
        );
        assert!(message("time").contains("line 2"), "{}", message("time"));
        assert!(message("time").contains("`5 parsecs` is not a time"));
        assert!(message("filter").contains("the filter `jdk>17` is wrong"));
        assert!(message("key").contains("unknown field `sampeld`"));
        assert!(message("empty").contains("names no value for `clock`"));
        assert!(message("a").contains("inherits from itself"));
        assert!(message("orphan").contains("no profile `nobody`"));
        assert!(
            message("nosuch").contains("there are: a, axis, b, broken"),
            "{}",
            message("nosuch")
        );
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        assert_eq!(parse_bytes("512k"), Ok(512 << 10));
        for wrong in ["", "G", "-1M", "1.5G", "99999999999G", "0"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_duration("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "5", "0s", "-1s", "1y"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
