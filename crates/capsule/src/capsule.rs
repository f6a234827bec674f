//! What a capsule is made of, apart from how it is written.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use walkfuzz_context::{Address, Arch, Pc, Registers, Sp};
use walkfuzz_guard::SafeFetchSite;

use crate::arch;
use crate::format::{hexadecimal, limits};
use crate::opinion::Opinion;

/// Version of the facts; raised when an old reader would misunderstand.
pub const VERSION: u32 = 1;

/// The bytes of one page.
pub type PageBytes = [u8; limits::PAGE as usize];

/// What may be done with a page; bits as in an ELF program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Protection(pub(crate) u8);

impl Protection {
    /// Nothing may be done.
    pub const NONE: Self = Self(0);

    /// From the three permissions.
    #[must_use]
    pub const fn new(read: bool, write: bool, execute: bool) -> Self {
        Self((read as u8) << 2 | (write as u8) << 1 | execute as u8)
    }

    pub(crate) const fn from_elf(flags: u32) -> Self {
        Self((flags & 7) as u8)
    }

    pub(crate) const fn elf(self) -> u32 {
        self.0 as u32
    }

    /// Whether it may be read.
    #[must_use]
    pub const fn read(self) -> bool {
        self.0 & 4 != 0
    }

    /// Whether it may be written.
    #[must_use]
    pub const fn write(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether it may be executed.
    #[must_use]
    pub const fn execute(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it holds what a walk reads and does not run. What may be written and executed is generated code: walkers read its headers.
    pub(crate) const fn is_data(self) -> bool {
        !self.execute() || self.write()
    }

    pub(crate) const fn without_write(self) -> Self {
        Self(self.0 & !2)
    }

    /// As mmap wants it.
    pub(crate) const fn mmap(self) -> i32 {
        (if self.read() { libc::PROT_READ } else { 0 })
            | (if self.write() { libc::PROT_WRITE } else { 0 })
            | (if self.execute() { libc::PROT_EXEC } else { 0 })
    }
}

/// What a page holds when the walk begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Box<PageBytes>),
    /// Nothing but zeros.
    Zero,
    /// The page at `offset` of [`Facts::files`]`[file]`.
    File {
        /// Which file.
        file: u16,
        /// Offset in it, a multiple of the page size.
        offset: u64,
    },
}

/// One page of the walked process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What may be done with it.
    pub protection: Protection,
    /// What it holds when the walk begins.
    pub entry: Content,
    /// What it holds at the outcome, if the walk wrote to it: what a debugger shows.
    pub outcome: Option<Box<PageBytes>>,
}

/// Which addresses the process had mapped, and how: what tells a page that is not in the capsule from an address that never was there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    ranges: Vec<(Range<u64>, Protection)>,
}

impl Layout {
    /// From ranges of whole pages, by address; touching ones of the same protection become one.
    pub(crate) fn push(&mut self, range: Range<u64>, protection: Protection) {
        match self.ranges.last_mut() {
            Some((last, same)) if last.end == range.start && *same == protection => {
                last.end = range.end;
            }
            _ => self.ranges.push((range, protection)),
        }
    }

    /// Adds a range that overlaps none.
    pub(crate) fn insert(&mut self, range: Range<u64>, protection: Protection) {
        let at = self
            .ranges
            .partition_point(|(known, _)| known.start < range.start);
        self.ranges.insert(at, (range, protection));
    }

    /// All ranges, by address.
    #[must_use]
    pub fn ranges(&self) -> &[(Range<u64>, Protection)] {
        &self.ranges
    }

    /// How the page that holds `address` was mapped, if it was.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<Protection> {
        let behind = self
            .ranges
            .partition_point(|(range, _)| range.start <= address.0);
        let (range, protection) = self.ranges.get(behind.checked_sub(1)?)?;
        range.contains(&address.0).then_some(*protection)
    }
}

/// A file of which pages are taken by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFacts {
    /// Its name without folders, `libjvm.so`.
    pub name: String,
    /// Which build it is: its build id, or what [`identity`](walkfuzz_vmstructs) stands in for one.
    pub identity: String,
    /// Where it was, for debuggers.
    pub path: String,
    /// Where its first byte was mapped.
    #[serde(with = "hexadecimal")]
    pub base: u64,
    /// Where its dynamic section was mapped; 0 if it has none.
    #[serde(with = "hexadecimal")]
    pub dynamic: u64,
    /// How it was mapped.
    pub mappings: Vec<FileMapping>,
}

/// A part of a file in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileMapping {
    /// Its begin.
    #[serde(with = "hexadecimal")]
    pub start: u64,
    /// Its end.
    #[serde(with = "hexadecimal")]
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// A load that may fault, and where the JVM then goes on: the replayer does what the JVM's handler would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafeFetch {
    /// The load.
    #[serde(with = "hexadecimal::pc")]
    pub fault: Pc,
    /// Where to go on.
    #[serde(with = "hexadecimal::pc")]
    pub continuation: Pc,
}

impl From<&SafeFetchSite> for SafeFetch {
    fn from(site: &SafeFetchSite) -> Self {
        Self {
            fault: site.fault_pc,
            continuation: site.continuation_pc,
        }
    }
}

/// How the walker is called: `function(first, second, third)` with every other general register zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The walker.
    #[serde(with = "hexadecimal::pc")]
    pub function: Pc,
    /// The trace.
    #[serde(with = "hexadecimal::address")]
    pub trace: Address,
    /// The most frames that may be written.
    pub depth: i32,
    /// The context.
    #[serde(with = "hexadecimal::address")]
    pub context: Address,
    /// The stack pointer; the word there is the return address, which is [`Facts::stub`].
    #[serde(with = "hexadecimal::sp")]
    pub stack: Sp,
    /// The thread pointer.
    #[serde(with = "hexadecimal::address")]
    pub thread: Address,
    /// The vector unit's control word (x86_64: mxcsr).
    pub float_control: u32,
}

/// A walk that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultOutcome {
    /// The signal.
    pub signal: i32,
    /// Its `si_code`.
    pub code: i32,
    /// Its `si_addr`.
    #[serde(with = "hexadecimal::address")]
    pub address: Address,
    /// All general registers.
    #[serde(with = "hexadecimal::registers")]
    pub registers: Registers,
    /// Faults at SafeFetch loads before.
    pub near_misses: u32,
}

/// A walk that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramesOutcome {
    /// Frames, or an error code below 1.
    pub frames: i32,
    /// Of the frames, as `hash_of_frames` makes it.
    #[serde(with = "hexadecimal")]
    pub hash: u64,
    /// Faults at SafeFetch loads on the way.
    pub near_misses: u32,
}

/// What came of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "compared and copied a hundred thousand times a second, and held once"
)]
pub enum Outcome {
    /// It faulted.
    Fault(FaultOutcome),
    /// It came back.
    Frames(FramesOutcome),
}

/// What the note of facts says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// [`VERSION`].
    pub version: u32,
    /// The architecture's name.
    pub arch: String,
    /// Bytes in a page.
    pub page_size: u64,
    /// How the walker is called.
    pub entry: Entry,
    /// Two pages that are free in the layout: the replayer's own, where the walk returns to, and one for debuggers.
    #[serde(with = "hexadecimal::address")]
    pub stub: Address,
    /// SafeFetch loads of that JVM.
    pub safefetch: Vec<SafeFetch>,
    /// What the walk must do.
    pub expected: Outcome,
    /// Files of which pages are taken by reference, or that a debugger should know.
    pub files: Vec<FileFacts>,
    /// Functions of libc that the walk calls and that are shims here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shims: Vec<String>,
    /// Why there are pages of libc's code nevertheless; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub libc_code: String,
    /// The walker's name, `agct`.
    pub walker: String,
    /// The signature of the finding; empty for a healthy walk.
    pub signature: String,
    /// The perturbation's text form; empty for an untouched context.
    pub perturbation: String,
    /// What the perturbation was applied to; absent in a healthy walk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perturbed: Option<Perturbed>,
    /// The JVM's version.
    pub jvm: String,
    /// Version of walkfuzz that wrote it.
    pub walkfuzz: String,
}

/// What a perturbation was applied to: with it the capsule can be walked from other perturbations of the same moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Perturbed {
    /// The registers as the kernel delivered them.
    #[serde(with = "hexadecimal::registers")]
    pub untouched: Registers,
    /// The perturbation's tier.
    pub tier: String,
    /// What the value classes that it names resolve to, as far as their selectors go.
    pub values: BTreeMap<String, Vec<u64>>,
}

/// One walk: what it reads, and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// What there is to say.
    pub facts: Facts,
    /// What was mapped.
    pub layout: Layout,
    /// Pages by address.
    pub pages: BTreeMap<u64, Page>,
    /// What another walker says of the same context, if one was asked.
    pub opinion: Option<Opinion>,
}

impl Capsule {
    /// The words of data that are not zero when the walk begins, by address: after minimising those that the outcome needs. Code is left out,
    /// and where the walk returns to.
    pub fn words(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        let data = self
            .pages
            .iter()
            .filter(|(_, page)| page.protection.is_data());
        let pages = data.filter_map(|(address, page)| match &page.entry {
            Content::Bytes(bytes) => Some((*address, bytes)),
            Content::Zero | Content::File { .. } => None,
        });
        let words = pages.flat_map(|(address, bytes)| {
            let (words, _) = bytes.as_chunks::<8>();
            (address..)
                .step_by(8)
                .zip(words.iter().map(|word| u64::from_le_bytes(*word)))
        });
        let entry = self.facts.entry.stack.0;
        words
            .filter(move |(address, word)| *word != 0 && *address != entry)
            .map(|(address, word)| (Address(address), word))
    }
}

impl Facts {
    /// The name of the register that the word at `address` is of in the walk's context.
    #[must_use]
    pub fn register_at(&self, address: Address) -> Option<&'static str> {
        let offset = address.0.checked_sub(self.entry.context.0)?;
        let index = walkfuzz_guard::register_offsets().position(|known| known as u64 == offset)?;
        self.architecture().register_names().get(index).copied()
    }

    /// The architecture, which reading has checked to be this program's.
    #[must_use]
    pub fn architecture(&self) -> Arch {
        Arch::from_name(&self.arch).unwrap_or(Arch::NATIVE)
    }

    /// Where shims stand, if there are any: a page of code, and one of what `pthread_getspecific` says.
    pub(crate) const fn shim_pages(&self) -> u64 {
        self.stub.0 + limits::STUB_PAGES * limits::PAGE
    }

    /// The key of which the word at `address` is the value that a shim of `pthread_getspecific` gives.
    #[must_use]
    pub fn thread_value_at(&self, address: Address) -> Option<u64> {
        let values = self.shim_pages() + limits::PAGE;
        let offset = address.0.checked_sub(values)?;
        let is_value = !self.shims.is_empty() && offset < limits::PAGE && offset % 8 == 0;
        is_value.then_some(offset / 8)
    }

    /// All general registers when the walk begins.
    #[must_use]
    pub fn entry_registers(&self) -> Registers {
        arch::entry_registers(&self.entry)
    }
}

/// A 64-bit hash of frames (FNV-1a over words), the same as a trace buffer's.
#[must_use]
pub(crate) fn hash_of_frames(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let word = |frame: &[u8; 16], at: usize| {
        frame
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    let (frames, _) = bytes.as_chunks::<16>();
    frames.iter().fold(0xcbf2_9ce4_8422_2325, |hash, frame| {
        let hash = (hash ^ word(frame, 8)).wrapping_mul(PRIME);
        // bci is the low half of the first word; the rest is padding.
        (hash ^ (word(frame, 0) & u64::from(u32::MAX))).wrapping_mul(PRIME)
    })
}
