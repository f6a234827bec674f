//! Threads: the one that died, and all others that the VM knows.

use super::text::{hexadecimal, hexadecimal_after, number_after, range_after};

/// A thread: the line `Current thread`, or one of the lists of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLine {
    /// `JavaThread`, `VMThread`; `None` of a thread that the VM does not know.
    pub kind: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its state, such as `_thread_in_Java`.
    pub state: Option<String>,
    /// The kernel's id.
    pub id: Option<u32>,
    /// Its stack, low and high end.
    pub stack: Option<(u64, u64)>,
    /// The VM's structure.
    pub address: Option<u64>,
    /// Whether the lists of threads mark it as the one that died.
    pub current: bool,
}

impl ThreadLine {
    /// What follows `Current thread `: `(0x00007fd74c02a960):  JavaThread "main"   [_thread_in_Java, id=26897, stack(...)]`,
    /// or `is native thread`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if line.starts_with("is native") {
            return Some(Self::default());
        }
        let (address, rest) = line.split_once("):")?;
        Some(Self {
            address: hexadecimal(address.trim_start_matches('(')),
            ..Self::described(rest.trim_start())
        })
    }

    /// A line of `Java Threads:` or `Other Threads:`: `=>0x00007f5320017a00 JavaThread "main" [...]`.
    pub(super) fn listed(line: &str) -> Option<Self> {
        let (line, current) = match line.trim_start().strip_prefix("=>") {
            Some(rest) => (rest, true),
            None => (line.trim_start(), false),
        };
        let (address, rest) = line.split_once(' ')?;
        Some(Self {
            address: Some(hexadecimal(address)?),
            current,
            ..Self::described(rest)
        })
    }

    fn described(rest: &str) -> Self {
        let kind = rest
            .split([' ', '"', '['])
            .next()
            .filter(|kind| !kind.is_empty());
        let quoted = rest
            .split_once('"')
            .and_then(|(_, rest)| rest.split_once('"'));
        let state = rest
            .find("[_thread_")
            .map(|at| &rest[at + 1..])
            .and_then(|rest| rest.split([',', ']']).next());
        Self {
            kind: kind.map(str::to_owned),
            name: quoted.map(|(name, _)| name.to_owned()),
            state: state.map(str::to_owned),
            id: number_after(rest, "id="),
            stack: range_after(rest, "stack(").or_else(|| range_after(rest, "stack: [")),
            address: None,
            current: false,
        }
    }
}

/// The line `Stack:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackLine {
    /// The stack that the VM knows for the thread, low and high end.
    pub bounds: Option<(u64, u64)>,
    /// The stack pointer.
    pub sp: Option<u64>,
}

impl StackLine {
    /// ` [0x00007f5326b00000,0x00007f5326c00000],  sp=0x00007f5326bfd5a0,  free space=1013k`.
    pub(super) fn parse(line: &str) -> Self {
        Self {
            bounds: range_after(line, "["),
            sp: hexadecimal_after(line, "sp=0x"),
        }
    }

    /// Whether the stack pointer lies outside of the stack: the thread ran on another one.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        matches!((self.bounds, self.sp), (Some((low, high)), Some(sp)) if !(low..=high).contains(&sp))
    }
}
