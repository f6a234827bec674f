//! The process's mappings, as `/proc/<pid>/maps` lists them.

use std::io;

use walkfuzz_context::Address;

use crate::span::Span;

/// One line of `maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub span: Span,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
    /// Offset in the file.
    pub offset: u64,
    /// The file, `[stack]` and the like, or empty.
    pub path: Box<str>,
}

impl Mapping {
    /// Whether no access at all is allowed.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        !self.readable && !self.writable && !self.executable
    }
}

/// Why the mappings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MapsError {
    /// The file could not be read.
    #[error("cannot read /proc/self/maps")]
    Io(#[from] io::Error),
    /// A line is not of the kernel's form.
    #[error("line {number} of maps is not understood: {line:?}")]
    Line {
        /// Counted from 1.
        number: usize,
        /// The line.
        line: String,
    },
}

/// All mappings, sorted by address.
#[derive(Clone, Debug, Default)]
pub struct Maps {
    mappings: Vec<Mapping>,
}

impl Maps {
    /// This process's mappings as they are now.
    ///
    /// # Errors
    /// [`MapsError`] if the file cannot be read or understood.
    pub fn read_own() -> Result<Self, MapsError> {
        Self::parse(&std::fs::read_to_string("/proc/self/maps")?)
    }

    /// Parses what the kernel wrote (proc(5)).
    ///
    /// # Errors
    /// [`MapsError::Line`] with the first line that is not of its form.
    pub fn parse(text: &str) -> Result<Self, MapsError> {
        let mut mappings = Vec::with_capacity(text.len() / 80);
        for (index, line) in text.lines().enumerate() {
            mappings.push(parse_line(line).ok_or_else(|| MapsError::Line {
                number: index + 1,
                line: line.to_owned(),
            })?);
        }
        mappings.sort_by_key(|mapping| mapping.span);
        Ok(Self { mappings })
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The mapping that holds the address.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<&Mapping> {
        let behind = self
            .mappings
            .partition_point(|mapping| mapping.span.start <= address);
        self.mappings
            .get(behind.checked_sub(1)?)
            .filter(|mapping| mapping.span.contains(address))
    }

    /// Mappings whose file name ends with `name`.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Mapping> {
        self.mappings
            .iter()
            .filter(move |mapping| file_name(&mapping.path).ends_with(name))
    }

    /// The executable part of the first library that is called `name` (such as `libjvm.so`).
    #[must_use]
    pub fn text_of(&self, name: &str) -> Option<Span> {
        self.named(name)
            .find(|mapping| mapping.executable)
            .map(|mapping| mapping.span)
    }

    /// The gaps between mappings, from the first mapping to the last one below the kernel's half.
    pub fn gaps(&self) -> impl Iterator<Item = Span> {
        self.mappings.windows(2).filter_map(|pair| match pair {
            [low, high] => {
                Some(Span::new(low.span.end, high.span.start)).filter(|gap| !gap.is_empty())
            }
            _ => None,
        })
    }
}

/// The path's last component, without the kernel's mark for deleted files.
fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (_device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
    inode.parse::<u64>().ok()?;
    let &[read, write, execute, _sharing] = permissions.as_bytes() else {
        return None;
    };
    let span = Span::new(
        Address(u64::from_str_radix(start, 16).ok()?),
        Address(u64::from_str_radix(end, 16).ok()?),
    );
    Some(Mapping {
        span,
        readable: read == b'r',
        writable: write == b'w',
        executable: execute == b'x',
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: path.trim_start().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
5566aa000000-5566aa021000 r--p 00000000 08:01 131 /usr/bin/java with space
7f0000000000-7f0000100000 rw-s 00200000 00:01 2055 /memfd:java_heap (deleted)
7f0000100000-7f0000104000 ---p 00000000 00:00 0 
7f0000200000-7f0000a00000 r-xp 0023a000 08:01 77 /opt/jdk/lib/server/libjvm.so
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn lines_become_mappings() {
        let maps = Maps::parse(SAMPLE).unwrap();
        assert_eq!(maps.all().len(), 6);
        assert_eq!(&*maps.all()[0].path, "/usr/bin/java with space");
        assert_eq!(maps.named("java_heap").count(), 1);
        assert!(maps.all()[2].is_forbidden());
        assert_eq!(
            maps.text_of("libjvm.so"),
            Some(Span::new(
                Address(0x7f00_0020_0000),
                Address(0x7f00_00a0_0000)
            ))
        );
        assert_eq!(
            &*maps.find(Address(0x7ffc_0000_0008)).unwrap().path,
            "[stack]"
        );
        assert!(maps.find(Address(0x7f00_0010_4000)).is_none());
        assert!(maps.find(Address(0)).is_none());
        assert!(maps.find(Address(u64::MAX)).is_none());
        let gaps: Vec<Span> = maps.gaps().collect();
        assert_eq!(gaps.len(), 4, "touching mappings have no gap");
        assert_eq!(
            gaps[1],
            Span::new(Address(0x7f00_0010_4000), Address(0x7f00_0020_0000))
        );
    }

    #[test]
    fn other_text_is_an_error_that_names_the_line() {
        let failure = Maps::parse("5566aa000000-5566aa021000 r--p 00000000 08:01 131\nnonsense\n")
            .unwrap_err();
        assert_eq!(
            failure.to_string(),
            "line 2 of maps is not understood: \"nonsense\""
        );
        assert!(Maps::parse("1-2 rwx 0 0:0 0").is_err(), "three permissions");
    }
}
