//! The memory of the shown snapshot: mapped, and put back after each walk.
//!
//! Pages that a program may write are mapped without that; the first write of a walk faults, its page is kept as it was, and the walk goes on.
//! Kept pages stay writable for the following walks, which tend to write to the same ones, until there are too many.

use std::ops::Range;
use std::ptr;

use libc::c_void;
use walkfuzz_context::Address;

use crate::arch;
use crate::capsule::{Layout, PageBytes, Protection, SafeFetch};
use crate::error::{PuppetError, ResidentError};
use crate::format::limits::PAGE;
use crate::resident::page_of;
use crate::resident::store::{Kept, Run, Store, run_of};

/// Pages that one walk may write to.
const KEPT: usize = 256;
/// Pages that stay writable from walk to walk: each is copied every time.
const WRITABLE: usize = 14;
/// Pages below the walk's first stack pointer that each walk writes to.
const STACK_PAGES: u64 = 3;

/// What a fault's address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A page of the snapshot's.
    Page(Protection),
    /// In the layout without access.
    Forbidden,
    /// In the layout, and not in the snapshot.
    Missing,
    /// Nowhere.
    Unmapped,
}

#[derive(Debug)]
pub(crate) struct Memory {
    /// Address space that is kept free for snapshots' pages, and for their layouts where that was possible.
    pages: Vec<Range<u64>>,
    layouts: Vec<Range<u64>>,
    runs: Vec<Run>,
    layout: Layout,
    pub(crate) safefetch: Vec<SafeFetch>,
    stub: Option<u64>,
    /// What each walk's result is read from, where that may be read.
    results: [Range<u64>; 2],
    changed: Vec<u64>,
    /// Of those, how many are writable for good.
    pinned: usize,
    saved: Box<[PageBytes]>,
}

impl Memory {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            pages: Vec::new(),
            layouts: Vec::new(),
            runs: Vec::new(),
            layout: Layout::default(),
            safefetch: Vec::new(),
            stub: None,
            results: [0..0, 0..0],
            changed: Vec::with_capacity(KEPT),
            pinned: 0,
            saved: vec![[0; PAGE as usize]; KEPT].into_boxed_slice(),
        })
    }

    /// Keeps the addresses of a snapshot free from this program's own later mappings.
    pub(crate) fn reserve(&mut self, kept: &Kept) -> Result<(), ResidentError> {
        let stub = kept.facts.stub.0..kept.facts.stub.0 + PAGE;
        let runs = kept.runs.iter().map(|run| run.start..run.end);
        for range in runs.chain([stub]) {
            for gap in gaps(range, &self.pages) {
                // What a layout has reserved is ours.
                for open in gaps(gap.clone(), &self.layouts) {
                    reserve(&open).map_err(|()| ResidentError::Collision {
                        address: open.start,
                    })?;
                }
                insert(&mut self.pages, gap);
            }
        }
        for (range, _) in kept.layout.ranges() {
            for open in gaps(range.clone(), &self.pages)
                .into_iter()
                .flat_map(|gap| gaps(gap, &self.layouts))
                .collect::<Vec<_>>()
            {
                // Where this program lies itself, it stays.
                if reserve(&open).is_ok() {
                    insert(&mut self.layouts, open);
                }
            }
        }
        Ok(())
    }

    /// Maps the snapshot instead of the one before.
    pub(crate) fn show(&mut self, kept: &Kept, store: &Store) -> Result<(), ResidentError> {
        self.hide()?;
        for run in &kept.runs {
            let (flags, file, offset) = match run.offset {
                Some(offset) => (libc::MAP_PRIVATE, store.descriptor(), offset),
                None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
            };
            map(
                &(run.start..run.end),
                flags,
                run.protection.without_write().mmap(),
                file,
                offset,
            )?;
        }
        self.map_stub(kept.facts.stub.0)?;
        self.runs.clone_from(&kept.runs);
        self.layout.clone_from(&kept.layout);
        self.safefetch.clone_from(&kept.facts.safefetch);
        self.changed.clear();
        let entry = &kept.facts.entry;
        let stack = page_of(entry.stack.0);
        let context = entry.context.0;
        let pinned = (0..STACK_PAGES).map(|below| stack - below * PAGE).chain([
            page_of(context),
            page_of(context + size_of::<libc::ucontext_t>() as u64),
            page_of(entry.trace.0),
        ]);
        for page in pinned {
            self.open(page);
        }
        self.pinned = self.changed.len();
        Ok(())
    }

    /// Says that [`bytes`](Self::bytes) will be asked for these ranges of the shown snapshot after each walk.
    pub(crate) fn expect(&mut self, ranges: [Range<u64>; 2]) {
        self.results = [0..0, 0..0];
        self.results = ranges.map(|range| {
            let length = range.end.saturating_sub(range.start);
            match self.bytes(range.start, length) {
                Some(_) => range,
                None => 0..0,
            }
        });
    }

    fn map_stub(&mut self, stub: u64) -> Result<(), ResidentError> {
        let range = stub..stub + PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        map(&range, flags, libc::PROT_READ | libc::PROT_WRITE, -1, 0)?;
        // SAFETY: just mapped writable.
        unsafe {
            (stub as *mut PageBytes).write(arch::leaving_stub());
            libc::mprotect(
                stub as *mut c_void,
                PAGE as usize,
                libc::PROT_READ | libc::PROT_EXEC,
            );
        }
        self.stub = Some(stub);
        Ok(())
    }

    fn hide(&mut self) -> Result<(), ResidentError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        for range in self.pages.iter().filter(|_| !self.runs.is_empty()) {
            map(range, flags, libc::PROT_NONE, -1, 0)?;
        }
        self.runs.clear();
        self.changed.clear();
        self.results = [0..0, 0..0];
        Ok(())
    }

    /// Unmaps everything.
    pub(crate) fn forget(&mut self) {
        for range in self.pages.drain(..).chain(self.layouts.drain(..)) {
            // SAFETY: reserved by `reserve`, and used by nobody now.
            unsafe {
                libc::munmap(
                    range.start as *mut c_void,
                    (range.end - range.start) as usize,
                )
            };
        }
        self.runs.clear();
    }

    /// What lies at an address. Signal-safe.
    pub(crate) fn place(&self, address: u64) -> Place {
        if let Some(run) = run_of(&self.runs, address) {
            return Place::Page(run.protection);
        }
        match self.layout.find(Address(address)) {
            None => Place::Unmapped,
            Some(Protection::NONE) => Place::Forbidden,
            Some(_) => Place::Missing,
        }
    }

    /// Keeps the page as it is and lets it be written. `false` if it may not be, is already, or there are too many. Signal-safe.
    pub(crate) fn open(&mut self, page: u64) -> bool {
        let Place::Page(protection) = self.place(page) else {
            return false;
        };
        if !protection.write() || self.changed.contains(&page) {
            return false;
        }
        let Some(saved) = self.saved.get_mut(self.changed.len()) else {
            return false;
        };
        // SAFETY: a page of the shown snapshot's, which is mapped; nothing else runs.
        unsafe {
            if protection.read() {
                ptr::copy_nonoverlapping(page as *const PageBytes, saved, 1);
            }
            if libc::mprotect(page as *mut c_void, PAGE as usize, protection.mmap()) != 0 {
                return false;
            }
        }
        // Within the capacity: there was room in `saved`.
        self.changed.push(page);
        true
    }

    /// Makes `word` what walks find at `address`, and returns what they found before. `None` if it is not the address of a word on a page that a
    /// program may write. Stays until it is edited back, or another snapshot is shown.
    pub(crate) fn edit(&mut self, address: u64, word: u64) -> Option<u64> {
        // What is kept of a page must be what the next walk shall find.
        self.restore();
        let page = page_of(address);
        if !address.is_multiple_of(8) || !self.changed.contains(&page) && !self.open(page) {
            return None;
        }
        let index = self.changed.iter().position(|changed| *changed == page)?;
        let at = (address - page) as usize;
        let kept = self.saved.get_mut(index)?;
        let kept = kept.get_mut(at..)?.first_chunk_mut::<8>()?;
        let before = u64::from_le_bytes(std::mem::replace(kept, word.to_le_bytes()));
        // The page may be closed before the next walk writes to it.
        self.restore();
        Some(before)
    }

    /// Puts back what walks wrote.
    pub(crate) fn restore(&mut self) {
        for (page, saved) in self.changed.iter().zip(&self.saved) {
            // SAFETY: writable since `open`; nothing else runs.
            unsafe { ptr::copy_nonoverlapping(saved, *page as *mut PageBytes, 1) };
        }
        if self.changed.len() > WRITABLE {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        for &page in self.changed.get(self.pinned..).unwrap_or_default() {
            if let Place::Page(protection) = self.place(page) {
                // SAFETY: a page of ours.
                unsafe {
                    libc::mprotect(
                        page as *mut c_void,
                        PAGE as usize,
                        protection.without_write().mmap(),
                    );
                }
            }
        }
        self.changed.truncate(self.pinned);
    }

    /// Bytes of the shown snapshot as they are now, if they may all be read.
    pub(crate) fn bytes(&self, address: u64, length: u64) -> Option<&[u8]> {
        let end = address.checked_add(length)?;
        let known = |range: &Range<u64>| range.start <= address && end <= range.end;
        let mut page = page_of(address);
        while page < end && !self.results.iter().any(known) {
            let Place::Page(protection) = self.place(page) else {
                return None;
            };
            if !protection.read() {
                return None;
            }
            page += PAGE;
        }
        // SAFETY: mapped readable, and not written while it is borrowed: walks need it mutably.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, length as usize) })
    }

    /// Whether bytes, which lie on one page, are other than before the last walk.
    pub(crate) fn is_changed(&self, address: u64, length: u64) -> bool {
        let page = page_of(address);
        let Some(index) = self.changed.iter().position(|changed| *changed == page) else {
            return false;
        };
        let from = (address - page) as usize;
        let before = self.saved.get(index);
        let before = before.and_then(|bytes| bytes.get(from..from + length as usize));
        before.is_some() && before != self.bytes(address, length)
    }
}

/// The parts of `range` that are not in `taken`, which is sorted.
fn gaps(range: Range<u64>, taken: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut open = Vec::new();
    let mut at = range.start;
    let first = taken.partition_point(|taken| taken.end <= range.start);
    for taken in taken.get(first..).unwrap_or_default() {
        if taken.start >= range.end {
            break;
        }
        if taken.start > at {
            open.push(at..taken.start);
        }
        at = taken.end;
    }
    if at < range.end {
        open.push(at..range.end);
    }
    open
}

/// Adds a range that overlaps none, and joins neighbours.
fn insert(ranges: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    let mut at = ranges.partition_point(|known| known.end < range.start);
    while let Some(known) = ranges.get(at).filter(|known| known.start <= range.end) {
        range = known.start.min(range.start)..known.end.max(range.end);
        ranges.remove(at);
    }
    at = at.min(ranges.len());
    ranges.insert(at, range);
}

fn reserve(range: &Range<u64>) -> Result<(), ()> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let at = range.start as *mut c_void;
    let length = (range.end - range.start) as usize;
    // SAFETY: nothing that exists is replaced.
    let got = unsafe { libc::mmap(at, length, libc::PROT_NONE, flags, -1, 0) };
    if got == at {
        return Ok(());
    }
    if got != libc::MAP_FAILED {
        // A kernel that does not know the flag took another place.
        // SAFETY: just mapped, used by nobody.
        unsafe { libc::munmap(got, length) };
    }
    Err(())
}

/// Maps over what is reserved.
fn map(
    range: &Range<u64>,
    flags: i32,
    protection: i32,
    file: i32,
    offset: u64,
) -> Result<(), ResidentError> {
    let at = range.start as *mut c_void;
    // SAFETY: the range was reserved for snapshots.
    let got = unsafe {
        libc::mmap(
            at,
            (range.end - range.start) as usize,
            protection,
            flags | libc::MAP_FIXED,
            file,
            offset as libc::off_t,
        )
    };
    if got == at {
        return Ok(());
    }
    Err(PuppetError::Map {
        address: range.start,
        source: std::io::Error::last_os_error(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "lists of ranges")]
    fn ranges_join_and_leave_gaps() {
        let mut taken = Vec::new();
        insert(&mut taken, 10..20);
        insert(&mut taken, 40..50);
        insert(&mut taken, 20..30);
        assert_eq!(taken, [10..30, 40..50]);
        assert_eq!(gaps(0..60, &taken), [0..10, 30..40, 50..60]);
        assert_eq!(gaps(12..25, &taken), []);
        assert_eq!(gaps(25..45, &taken), [30..40]);
        insert(&mut taken, 30..40);
        assert_eq!(taken, [10..50]);
    }
}
