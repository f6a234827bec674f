//! The judge: replays a walk in a child process that has nothing mapped but the capsule, and watches with ptrace.
//!
//! The child has no handlers: what the JVM's handler would do at a SafeFetch load, the judge does. Every other fault ends the walk.

mod permission;
mod tracee;

use std::collections::BTreeMap;
use std::io;

use walkfuzz_context::Address;

use crate::arch;
use crate::capsule::{
    Capsule, Content, Entry, Facts, FaultOutcome, FramesOutcome, Layout, Outcome, PageBytes,
    Protection, SafeFetch, hash_of_frames,
};
use crate::error::PuppetError;
use crate::format::limits::PAGE;
use crate::outcome::{Ended, ReturnedFrame};
use crate::walking::TICKS;

pub(crate) use tracee::{Stop, Tracee, end, fork_in_handler};

/// Of `<asm-generic/siginfo.h>`: the address is not mapped; it is, but not for this.
pub(crate) const SEGV_MAPERR: i32 = 1;
pub(crate) const SEGV_ACCERR: i32 = 2;

/// A page of the puppet's.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) protection: Protection,
    /// What it holds when the walk begins.
    pub(crate) bytes: Box<PageBytes>,
}

/// Brings pages that a walk asks for.
pub(crate) trait Source {
    /// The page at this address, which the layout has.
    fn page(&self, address: u64) -> io::Result<Box<PageBytes>>;
}

/// A capsule in a process, ready to walk.
#[derive(Debug)]
pub struct Puppet {
    tracee: Tracee,
    walk: Walk,
    layout: Layout,
    images: BTreeMap<u64, Image>,
    /// Pages that the last walks changed, if it is known.
    changed: Option<Vec<u64>>,
    last: Option<Ended>,
}

impl Puppet {
    /// Puts the capsule into a new process.
    ///
    /// # Errors
    /// [`PuppetError`]; [`NeedsFile`](PuppetError::NeedsFile) if pages are by reference, see [`Capsule::resolve`].
    pub fn new(capsule: &Capsule) -> Result<Self, PuppetError> {
        let mut images = BTreeMap::new();
        for (&address, page) in &capsule.pages {
            let bytes = match &page.entry {
                Content::Bytes(bytes) => bytes.clone(),
                Content::Zero => Box::new([0; PAGE as usize]),
                Content::File { file, .. } => return Err(capsule.facts.needs(*file)),
            };
            let protection = page.protection;
            images.insert(address, Image { protection, bytes });
        }
        let mut tracee = Tracee::spawn()?;
        tracee.map_stub(capsule.facts.stub.0)?;
        let mut puppet = Self::empty(tracee, &capsule.facts, capsule.layout.clone())?;
        puppet.images = images;
        puppet.map_images()?;
        puppet.tracee.limit();
        Ok(puppet)
    }

    /// Without any page yet. The tracee has its stub.
    pub(crate) fn empty(
        mut tracee: Tracee,
        facts: &Facts,
        layout: Layout,
    ) -> Result<Self, PuppetError> {
        tracee.unmap_all_but(facts.stub.0)?;
        tracee.set_float_state(&arch::float_at_entry(&facts.entry))?;
        Ok(Self {
            tracee,
            walk: Walk::of(facts),
            layout,
            images: BTreeMap::new(),
            changed: Some(Vec::new()),
            last: None,
        })
    }

    /// Neighbouring pages of the same protection at once: a system call of the child's costs some microseconds.
    fn map_images(&mut self) -> Result<(), PuppetError> {
        let mut runs: Vec<(u64, u64, Protection)> = Vec::new();
        for (&address, image) in &self.images {
            match runs.last_mut() {
                Some((start, pages, protection))
                    if *start + *pages * PAGE == address && *protection == image.protection =>
                {
                    *pages += 1;
                }
                _ => runs.push((address, 1, image.protection)),
            }
        }
        for (address, pages, protection) in runs {
            self.tracee.map(address, pages, protection)?;
        }
        for (&address, image) in &self.images {
            if image.bytes.iter().any(|byte| *byte != 0) {
                self.tracee.write(address, &image.bytes[..])?;
            }
        }
        Ok(())
    }

    /// Walks once, from the capsule's state.
    ///
    /// # Errors
    /// [`PuppetError`], when the process cannot be watched any more.
    pub fn walk(&mut self) -> Result<Ended, PuppetError> {
        self.restore()?;
        let (layout, images) = (&self.layout, &self.images);
        let ended = judge(&mut self.tracee, &self.walk, &mut |_, address| {
            Ok(missing(layout, |page| images.contains_key(&page), address))
        })?;
        if self.last != Some(ended) {
            // Another walk than the last one has written elsewhere.
            self.changed = None;
        }
        self.last = Some(ended);
        Ok(ended)
    }

    /// The frames that the last walk gave; none if it did not come back with some.
    ///
    /// # Errors
    /// When the process's memory cannot be read.
    pub fn frames(&self) -> Result<Vec<ReturnedFrame>, PuppetError> {
        if !matches!(self.last, Some(Ended::Outcome(Outcome::Frames(_)))) {
            return Ok(Vec::new());
        }
        let (_, bytes) = trace(&self.tracee, &self.walk.entry);
        let bytes = bytes.map_err(|source| PuppetError::System {
            what: "read the child's frames",
            source,
        })?;
        let frame = |[low, high]: &[[u8; 8]; 2]| ReturnedFrame {
            bci: u64::from_le_bytes(*low) as u32 as i32,
            method: u64::from_le_bytes(*high),
        };
        let words = bytes.as_chunks::<8>().0;
        Ok(words.as_chunks::<2>().0.iter().map(frame).collect())
    }

    /// Walks once, bringing each page that the walk asks for.
    pub(crate) fn walk_on_demand(&mut self, source: &dyn Source) -> Result<Ended, PuppetError> {
        let (layout, images) = (&self.layout, &mut self.images);
        let ended = judge(&mut self.tracee, &self.walk, &mut |tracee, address| {
            let Some(protection) = layout.find(Address(address)) else {
                return Ok(Absent::Unmapped);
            };
            if protection == Protection::NONE {
                return Ok(Absent::Forbidden);
            }
            bring(tracee, images, source, address, protection)
        })?;
        self.last = Some(ended);
        self.changed = None;
        Ok(ended)
    }

    /// Brings the page that holds `address`, if it is not there yet.
    ///
    /// # Errors
    /// [`PuppetError::Map`] if there is none.
    pub(crate) fn bring(&mut self, source: &dyn Source, address: u64) -> Result<(), PuppetError> {
        let protection = self.layout.find(Address(address)).unwrap_or_default();
        let (tracee, images) = (&mut self.tracee, &mut self.images);
        match bring(tracee, images, source, address, protection)? {
            Absent::Missing => Err(PuppetError::Map {
                address,
                source: io::ErrorKind::NotFound.into(),
            }),
            _ => Ok(()),
        }
    }

    /// Gives all pages back. What it then walks, `facts` say.
    pub(crate) fn forget(&mut self, facts: &Facts) -> Result<(), PuppetError> {
        self.tracee.unmap_all_but(facts.stub.0)?;
        self.images.clear();
        self.changed = Some(Vec::new());
        self.last = None;
        self.expect(facts);
        Ok(())
    }

    /// Adds a page.
    pub(crate) fn add(
        &mut self,
        address: u64,
        protection: Protection,
        bytes: &PageBytes,
    ) -> Result<(), PuppetError> {
        self.tracee.map(address, 1, protection)?;
        self.tracee.write(address, bytes)?;
        let bytes = Box::new(*bytes);
        self.images.insert(address, Image { protection, bytes });
        Ok(())
    }

    /// Takes a page away.
    pub(crate) fn remove(&mut self, address: u64) -> Result<(), PuppetError> {
        self.images.remove(&address);
        self.tracee.unmap(address, 1)
    }

    /// Where in pages of data this word stands when the walk begins: page and offset.
    pub(crate) fn find(&self, word: u64) -> Vec<(u64, usize)> {
        let wanted = word.to_le_bytes();
        let data = self
            .images
            .iter()
            .filter(|(_, image)| !image.protection.execute());
        data.flat_map(|(&page, image)| {
            let words = image.bytes.as_chunks::<8>().0.iter().enumerate();
            words.filter_map(move |(index, word)| (*word == wanted).then_some((page, index * 8)))
        })
        .collect()
    }

    /// Walks as `facts` say from now on.
    pub(crate) fn expect(&mut self, facts: &Facts) {
        self.walk = Walk::of(facts);
    }

    /// What was mapped.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The pages.
    pub(crate) fn images(&self) -> &BTreeMap<u64, Image> {
        &self.images
    }

    /// Changes what a page holds when the walk begins. The page is as it is then.
    pub(crate) fn set(&mut self, page: u64, at: usize, bytes: &[u8]) -> Result<(), PuppetError> {
        let Some(target) = self
            .images
            .get_mut(&page)
            .and_then(|image| image.bytes.get_mut(at..at + bytes.len()))
        else {
            return Ok(());
        };
        if target == bytes {
            return Ok(());
        }
        target.copy_from_slice(bytes);
        // The next walk may write elsewhere, and what it writes to may look unchanged now.
        self.changed = None;
        self.last = None;
        self.tracee.write(page + at as u64, bytes)
    }

    /// Makes the memory what it is when the walk begins.
    pub(crate) fn restore(&mut self) -> Result<(), PuppetError> {
        if self.changed.is_none() {
            let changed = self.changed_pages()?;
            self.changed = Some(changed);
        }
        let changed = self.changed.as_deref().unwrap_or_default();
        let places = changed
            .iter()
            .filter_map(|page| Some((*page, &self.images.get(page)?.bytes[..])));
        self.tracee.write_many(places)
    }

    /// Pages that are not as they were when the last walk began.
    pub(crate) fn changed_pages(&self) -> Result<Vec<u64>, PuppetError> {
        let mut now = [0; PAGE as usize];
        let mut changed = Vec::new();
        for (&address, image) in &self.images {
            if !image.protection.write() {
                continue;
            }
            self.read(address, &mut now)?;
            if now != *image.bytes {
                changed.push(address);
            }
        }
        Ok(changed)
    }

    /// A page as it is now.
    pub(crate) fn read(&self, address: u64, bytes: &mut PageBytes) -> Result<(), PuppetError> {
        self.tracee
            .read(address, bytes)
            .map_err(|source| PuppetError::System {
                what: "read the child's memory",
                source,
            })
    }
}

/// Maps the page that holds `address` and fills it.
fn bring(
    tracee: &mut Tracee,
    images: &mut BTreeMap<u64, Image>,
    source: &dyn Source,
    address: u64,
    protection: Protection,
) -> Result<Absent, PuppetError> {
    let page = address & !(PAGE - 1);
    if images.contains_key(&page) {
        return Ok(Absent::Unmapped);
    }
    // Not in the file, or behind the end of a mapped one.
    let Ok(bytes) = source.page(page) else {
        return Ok(Absent::Missing);
    };
    tracee.map(page, 1, protection)?;
    tracee.write(page, &bytes[..])?;
    images.insert(page, Image { protection, bytes });
    Ok(Absent::Brought)
}

/// What an address is that nothing is mapped at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It was not mapped in the walked process either: a fault.
    Unmapped,
    /// It was, but nobody may access it: a fault of the other kind.
    Forbidden,
    /// It was, and the capsule lacks it.
    Missing,
    /// Now it is there: the walk goes on.
    Brought,
}

pub(crate) fn missing(layout: &Layout, has: impl Fn(u64) -> bool, address: u64) -> Absent {
    match layout.find(Address(address)) {
        None => Absent::Unmapped,
        Some(Protection::NONE) => Absent::Forbidden,
        Some(_) if has(address & !(PAGE - 1)) => Absent::Unmapped,
        Some(_) => Absent::Missing,
    }
}

/// What one walk needs to know.
#[derive(Debug)]
pub(crate) struct Walk {
    entry: Entry,
    stub: u64,
    safefetch: Vec<SafeFetch>,
}

impl Walk {
    pub(crate) fn of(facts: &Facts) -> Self {
        Self {
            entry: facts.entry,
            stub: facts.stub.0,
            safefetch: facts.safefetch.clone(),
        }
    }
}

/// Walks once in the tracee, whose memory is as it must be, and says how it ended. `absent` says what an unmapped address is.
pub(crate) fn judge(
    tracee: &mut Tracee,
    walk: &Walk,
    absent: &mut dyn FnMut(&mut Tracee, u64) -> Result<Absent, PuppetError>,
) -> Result<Ended, PuppetError> {
    tracee.set_machine(&arch::at_entry(&walk.entry))?;
    let mut near_misses = 0;
    let mut ticks = 0;
    loop {
        let (signal, mut code, address) = match tracee.run()? {
            Stop::SystemCall => {
                let number = arch::system_call_number(&tracee.machine()?);
                return Ok(Ended::SystemCall(number));
            }
            Stop::Tick => {
                ticks += 1;
                if ticks >= TICKS {
                    return Ok(Ended::Hang);
                }
                continue;
            }
            Stop::Signal {
                signal,
                code,
                address,
            } => (signal, code, address),
        };
        let mut machine = tracee.machine()?;
        if signal == libc::SIGTRAP && arch::has_returned(&machine, walk.stub) {
            return Ok(Ended::Outcome(returned(tracee, walk, near_misses)));
        }
        if signal == libc::SIGSEGV && code == SEGV_MAPERR {
            match absent(tracee, address)? {
                Absent::Unmapped => {}
                Absent::Forbidden => code = SEGV_ACCERR,
                Absent::Missing => return Ok(Ended::MissingPage(Address(address))),
                Absent::Brought => continue,
            }
        }
        let pc = arch::pc(&machine);
        let fetch = walk.safefetch.iter().find(|fetch| fetch.fault.0 == pc);
        if let (Some(fetch), libc::SIGSEGV | libc::SIGBUS) = (fetch, signal) {
            near_misses += 1;
            arch::set_pc(&mut machine, fetch.continuation.0);
            tracee.set_machine(&machine)?;
            continue;
        }
        return Ok(Ended::Outcome(Outcome::Fault(FaultOutcome {
            signal,
            code,
            address: Address(address),
            registers: arch::registers(&machine),
            near_misses,
        })));
    }
}

/// What a walk that came back gave.
fn returned(tracee: &Tracee, walk: &Walk, near_misses: u32) -> Outcome {
    let (frames, bytes) = trace(tracee, &walk.entry);
    Outcome::Frames(FramesOutcome {
        frames,
        hash: bytes.map_or(0, |bytes| hash_of_frames(&bytes)),
        near_misses,
    })
}

/// The number of frames, or the code, and the frames' bytes (`ASGCT_CallTrace`: environment, count, frames).
fn trace(tracee: &Tracee, entry: &Entry) -> (i32, io::Result<Vec<u8>>) {
    let word = |offset: u64| {
        let mut bytes = [0; 8];
        let read = tracee.read(entry.trace.0.wrapping_add(offset), &mut bytes);
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    };
    let frames = word(8) as u32 as i32;
    let kept = frames.clamp(0, entry.depth) as usize;
    let mut bytes = vec![0; kept * 16];
    let read = tracee.read(word(16), &mut bytes);
    (frames, read.map(|()| bytes))
}
