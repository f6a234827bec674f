//! The stack of the held thread: did a walk write to it, and which instruction did.
//!
//! A walker only reads. AsyncGetCallTrace with a wrong frame pointer does write: `JavaFrameAnchor::make_walkable` stores a pc into
//! whatever it takes for an entry frame's anchor. Nothing faults then; a Java thread that goes on with such a word in its
//! frames corrupts the code cache or dies seconds later, far from any walk. So the words above sp are kept when a thread
//! is held, compared after its walks, and put back.

use walkfuzz_context::{Address, Registers};
use walkfuzz_guard::{Fault, FaultKind, read_checked};
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::Ended;
use crate::moment::Moment;
use crate::rseq;

/// Words that are kept: deep recursions have more above them, nearly all other stacks less.
const MOST: usize = 1024;

/// What the held thread's stack held when the thread was stopped.
pub struct HeldStack {
    start: u64,
    length: usize,
    words: Box<[u64; MOST]>,
    now: Box<[u64; MOST]>,
}

/// A word of the walked stack that a walk has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub address: Address,
    /// What was there.
    pub before: u64,
    /// What is there now.
    pub after: u64,
}

impl Default for HeldStack {
    fn default() -> Self {
        Self {
            start: 0,
            length: 0,
            words: Box::new([0; MOST]),
            now: Box::new([0; MOST]),
        }
    }
}

impl HeldStack {
    /// Keeps the words from the moment's sp upwards.
    pub fn keep(&mut self, moment: &Moment) {
        self.start = moment.untouched.sp().0;
        let count = (moment.frames_end.saturating_sub(self.start) / 8).min(MOST as u64) as usize;
        self.length = if read(self.start, &mut self.words, count) {
            count
        } else {
            0
        };
    }

    /// The words that were kept, the one at sp first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.length).unwrap_or(&[])
    }

    /// The lowest word that is no longer what it was.
    #[inline]
    #[must_use]
    pub fn written(&mut self) -> Option<Written> {
        if !read(self.start, &mut self.now, self.length) {
            return None;
        }
        let now = self.now.get(..self.length)?;
        if now == self.words() {
            return None;
        }
        let (index, (before, after)) = self
            .words()
            .iter()
            .zip(now)
            .enumerate()
            .find(|(_, (before, after))| before != after)?;
        Some(Written {
            address: Address(self.start + 8 * index as u64),
            before: *before,
            after: *after,
        })
    }

    /// The word that was kept of `address`.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start)?;
        self.words().get((offset / 8) as usize).copied()
    }

    /// Keeps what is there now at `written`: it was not a walk's doing, or is meant to be there.
    pub fn accept(&mut self, written: &Written) {
        let index = (written.address.0.wrapping_sub(self.start) / 8) as usize;
        if let Some(word) = self.words.get_mut(index) {
            *word = written.after;
        }
    }

    /// Writes what was found at `written`, and keeps it: [`writer`](Self::writer) has put the old word back, but no walk wrote this.
    ///
    /// # Safety
    /// As [`put_back`](Self::put_back).
    pub unsafe fn restore(&mut self, written: &Written) {
        // SAFETY: a word of the held thread's stack above its sp.
        unsafe { (written.address.0 as *mut u64).write_volatile(written.after) };
        self.accept(written);
    }

    /// Puts the kept word back.
    ///
    /// # Safety
    /// The thread of the last [`keep`](Self::keep) is still held at that moment, and `written` is of its stack.
    pub unsafe fn put_back(&self, written: &Written) {
        // SAFETY: a word of the held thread's stack above its sp, which nobody else writes to.
        unsafe { (written.address.0 as *mut u64).write_volatile(written.before) };
    }

    /// Repeats a walk that wrote at `written`, with the page protected, and puts the word back: the fault is at the
    /// instruction that writes. `None` when this walk does not write there.
    ///
    /// # Safety
    /// As [`put_back`](Self::put_back), and the walk runs on another stack than the held thread's.
    pub unsafe fn writer(
        &self,
        written: &Written,
        moment: &mut Moment,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<Fault> {
        const PAGE: u64 = 4096;
        let page = written.address.0 & !(PAGE - 1);
        let protect = |protection| {
            // SAFETY: a whole page of the held thread's stack, which is readable and writable; the thread does not run
            // until both calls are made, and its handler's frames are not returned to before.
            unsafe { libc::mprotect(page as *mut _, PAGE as usize, protection) == 0 }
        };
        // SAFETY: the caller's promise.
        unsafe { self.put_back(written) };
        // The topmost frames may share their page with thread-local storage.
        let _suspended = rseq::suspend();
        if !protect(libc::PROT_READ) {
            return None;
        }
        let walked = moment.walk(walker, registers, depth, trace);
        protect(libc::PROT_READ | libc::PROT_WRITE);
        let fault = *moment.fault();
        let wrote = matches!(walked?.ended, Ended::Faulted)
            && fault.kind == FaultKind::Signal
            && fault.address.0 & !7 == written.address.0;
        wrote.then_some(fault)
    }
}

/// Reads `count` words at `at`.
fn read(at: u64, into: &mut [u64; MOST], count: usize) -> bool {
    into.get_mut(..count)
        .is_some_and(|words| read_checked(Address(at), bytemuck::cast_slice_mut(words)).is_ok())
}
