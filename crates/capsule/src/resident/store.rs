//! The pages of all snapshots in one file in memory, equal ones once: snapshots of one JVM differ in few.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;

use walkfuzz_context::{Arch, Registers};

use crate::capsule::{Capsule, Content, Facts, Layout, PageBytes, Protection};
use crate::error::{PuppetError, ResidentError};
use crate::format::limits::PAGE;

/// A stretch of pages that are mapped at once.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the store; nowhere: zeros.
    pub(crate) offset: Option<u64>,
    pub(crate) protection: Protection,
}

/// A snapshot whose pages are in the store.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) facts: Facts,
    pub(crate) layout: Layout,
    pub(crate) runs: Vec<Run>,
    pub(crate) untouched: Registers,
}

/// The run that holds an address. Signal-safe.
pub(crate) fn run_of(runs: &[Run], address: u64) -> Option<&Run> {
    let behind = runs.partition_point(|run| run.start <= address);
    let run = behind.checked_sub(1).and_then(|index| runs.get(index));
    run.filter(|run| address < run.end)
}

#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    /// From a page's hash to where it is.
    known: HashMap<u64, u64>,
    length: u64,
}

impl Store {
    pub(crate) fn new() -> Result<Self, ResidentError> {
        // SAFETY: the name is a C string; the descriptor is ours.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"walkfuzz-snapshots".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(PuppetError::last("make a file in memory").into());
            }
            File::from(OwnedFd::from_raw_fd(descriptor))
        };
        Ok(Self {
            file,
            known: HashMap::new(),
            length: 0,
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.length
    }

    /// Keeps the capsule's pages.
    pub(crate) fn keep(&mut self, capsule: &Capsule) -> Result<Kept, ResidentError> {
        let facts = &capsule.facts;
        let mut runs: Vec<Run> = Vec::new();
        for (&address, page) in &capsule.pages {
            let offset = match &page.entry {
                Content::Bytes(bytes) => Some(self.place(bytes)?),
                Content::Zero => None,
                Content::File { file, .. } => return Err(facts.needs(*file).into()),
            };
            let continues = runs.last_mut().filter(|last| {
                let follows = match (last.offset, offset) {
                    (Some(last_offset), Some(offset)) => {
                        last_offset + (last.end - last.start) == offset
                    }
                    (None, None) => true,
                    _ => false,
                };
                last.end == address && last.protection == page.protection && follows
            });
            match continues {
                Some(last) => last.end += PAGE,
                None => runs.push(Run {
                    start: address,
                    end: address + PAGE,
                    offset,
                    protection: page.protection,
                }),
            }
        }
        let context = read(
            capsule,
            facts.entry.context.0,
            size_of::<libc::ucontext_t>(),
        );
        let untouched = context.map_or(Registers::zeroed(Arch::NATIVE), |bytes| {
            // SAFETY: as many bytes as a context has; any bytes are one.
            unsafe {
                let context: libc::ucontext_t =
                    bytes.as_ptr().cast::<libc::ucontext_t>().read_unaligned();
                walkfuzz_guard::read_registers(&context)
            }
        });
        Ok(Kept {
            facts: facts.clone(),
            layout: capsule.layout.clone(),
            runs,
            untouched,
        })
    }

    /// A page of a snapshot's, as it was taken.
    pub(crate) fn page(&self, kept: &Kept, address: u64) -> io::Result<Box<PageBytes>> {
        let run = run_of(&kept.runs, address).ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = Box::new([0; PAGE as usize]);
        if let Some(offset) = run.offset {
            let at = offset + (address - run.start);
            self.file.read_exact_at(&mut *bytes, at)?;
        }
        Ok(bytes)
    }

    fn place(&mut self, bytes: &PageBytes) -> Result<u64, ResidentError> {
        let failed = |source| PuppetError::System {
            what: "write to a file in memory",
            source,
        };
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let hash = hasher.finish();
        if let Some(&offset) = self.known.get(&hash) {
            let mut there = [0; PAGE as usize];
            self.file
                .read_exact_at(&mut there, offset)
                .map_err(failed)?;
            if there == *bytes {
                return Ok(offset);
            }
        }
        let offset = self.length;
        self.file.write_all_at(bytes, offset).map_err(failed)?;
        self.length += PAGE;
        self.known.insert(hash, offset);
        Ok(offset)
    }
}

/// Bytes as they are when the walk begins; missing pages are zero.
fn read(capsule: &Capsule, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    let end = address.checked_add(length as u64)?;
    let mut at = address;
    while at < end {
        let page = at & !(PAGE - 1);
        let from = (at - page) as usize;
        let to = (end - page).min(PAGE) as usize;
        match capsule.pages.get(&page).map(|page| &page.entry) {
            Some(Content::Bytes(page)) => bytes.extend_from_slice(page.get(from..to)?),
            _ => bytes.resize(bytes.len() + (to - from), 0),
        }
        at = page + to as u64;
    }
    Some(bytes)
}
