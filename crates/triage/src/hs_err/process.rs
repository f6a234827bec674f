//! The section PROCESS: the VM's state, its code cache, its events and its libraries.

use super::text::{hexadecimal_prefix, push_bounded, range_after};

/// More events of one kind than HotSpot keeps.
const MOST_EVENTS: usize = 256;

/// A part of the code cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeHeap {
    /// `non-profiled nmethods`, ...; `CodeCache` if there is but one.
    pub name: String,
    /// Sizes as the log has them.
    pub sizes: String,
    /// Its addresses: low end, and the end of what is reserved.
    pub bounds: Option<(u64, u64)>,
}

impl CodeHeap {
    /// `CodeHeap 'profiled nmethods': size=120032Kb used=134Kb ...`, `CodeCache: size=...`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (name, sizes) = match line.strip_prefix("CodeHeap '") {
            Some(rest) => rest.split_once("':")?,
            None => ("CodeCache", line.strip_prefix("CodeCache:")?),
        };
        Some(Self {
            name: name.to_owned(),
            sizes: sizes.trim().to_owned(),
            bounds: None,
        })
    }

    /// ` bounds [0x00007f5310ec7000, 0x00007f5311137000, 0x00007f5318400000]`.
    pub(super) fn continue_with(&mut self, line: &str) {
        if let Some(rest) = line.trim_start().strip_prefix("bounds [") {
            let mut ends = rest
                .split(',')
                .filter_map(|end| hexadecimal_prefix(end.trim().strip_prefix("0x")?));
            self.bounds = ends.next().and_then(|low| Some((low, ends.next_back()?)));
        }
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.bounds
            .is_some_and(|(low, high)| (low..high).contains(&address))
    }
}

/// One of the VM's ring buffers of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    /// `Compilation events`, `Deoptimization events`, ...
    pub name: String,
    /// How many events the log announces.
    pub announced: u32,
    /// The events, oldest first, each a line without its `Event: `.
    pub events: Vec<String>,
}

impl EventLog {
    /// `Compilation events (20 events):`.
    pub(super) fn heading(line: &str) -> Option<Self> {
        let (name, count) = line.strip_suffix(" events):")?.rsplit_once(" (")?;
        Some(Self {
            name: name.to_owned(),
            announced: count.parse().ok()?,
            events: Vec::new(),
        })
    }

    pub(super) fn line(&mut self, line: &str) {
        if let Some(event) = line.strip_prefix("Event: ") {
            push_bounded(&mut self.events, MOST_EVENTS, event.to_owned());
        }
    }
}

/// One line of `Dynamic libraries:`, which is `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// Low end.
    pub low: u64,
    /// High end.
    pub high: u64,
    /// `r-xp`.
    pub access: [u8; 4],
    /// Offset in the file.
    pub offset: u64,
    /// The file, `[stack]` and the like, or empty.
    pub path: Box<str>,
}

impl MappedRange {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let mut fields = rest.splitn(4, ' ');
        let access = fields.next()?.as_bytes().try_into().ok()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        // The device, then the inode and the path.
        fields.next()?;
        let path = fields.next()?.split_once(' ').map_or("", |(_, path)| path);
        Some(Self {
            low: u64::from_str_radix(low, 16).ok()?,
            high: u64::from_str_radix(high, 16).ok()?,
            access,
            offset,
            path: path.trim().into(),
        })
    }

    /// The file's name without its folder.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.low..self.high).contains(&address)
    }
}

/// `Heap address:` (`heap address:` in old logs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapSpan {
    /// Low end.
    pub address: u64,
    /// In MB.
    pub megabytes: u64,
}

impl HeapSpan {
    /// ` 0x00000000fc000000, size: 64 MB, Compressed Oops mode: 32-bit`.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let address = hexadecimal_prefix(rest.trim_start().strip_prefix("0x")?)?;
        let size = rest.split_once("size: ")?.1;
        let end = size
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(size.len());
        Some(Self {
            address,
            megabytes: size[..end].parse().ok()?,
        })
    }

    /// From a line of `Heap:` such as ` region [0x0, 0x1, 0x2)`, where there is no line of its own.
    pub(super) fn from_usage(line: &str) -> Option<Self> {
        let (low, high) = range_after(line, " [")?;
        Some(Self {
            address: low,
            megabytes: high.saturating_sub(low) >> 20,
        })
    }
}
