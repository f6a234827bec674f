//! Snapshots: capsules with more memory than one walk reads, mapped in this very process and walked by plain calls, from any registers.
//!
//! One is *shown* at a time: its pages lie at their own addresses, its walker is called on its own stack with its own thread pointer. What a
//! walk writes is put back before the next one, so that each begins in the same memory and comes to the same end, here and under the
//! [puppet](crate::puppet), which is the judge.
//!
//! Contract: one per process, used by the thread that made it; the process has no other thread that walks. Takes the synchronous signals,
//! SIGPROF and its timer. This is no sandbox: the walked code is the snapshot's, with all that this process may do. Walk what you took
//! yourself; [`in_process`](crate::in_process) is for other people's capsules. Addresses of a snapshot's layout that hold no page of it
//! are kept free as far as they are, so that this program's own memory does not stand in for them.

mod memory;
mod signals;
mod store;

use std::sync::atomic::{AtomicBool, Ordering};

use walkfuzz_context::{Address, Registers};

use crate::arch;
use crate::capsule::{Capsule, Entry, FramesOutcome, Outcome, hash_of_frames};
use crate::capture::Ground;
use crate::error::{CaptureError, PuppetError, ResidentError};
use crate::format::limits::PAGE;
use crate::outcome::Ended;

use memory::Memory;
use signals::Walk;
use store::{Kept, Store};

pub(crate) use signals::on_signal;
pub use signals::with_own_thread_pointer;
pub(crate) use store::{Kept as KeptSnapshot, Store as Pages};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Offsets in `ASGCT_CallTrace`: how many frames, and where they are.
const TRACE_COUNT: u64 = 8;
const TRACE_FRAMES: u64 = 16;
const FRAME: u64 = 16;

/// Snapshots in this process.
#[derive(Debug)]
pub struct Resident {
    store: Store,
    kept: Vec<Kept>,
    memory: Box<Memory>,
    shown: Option<usize>,
    _signal_stack: Vec<u8>,
}

/// The frames of a walk that came back, in the snapshot's memory until the next walk.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// `num_frames`, as the walker left it.
    pub count: i32,
    /// Frames of 16 bytes, at most as many as were asked for.
    pub bytes: &'a [u8],
    /// Whether the walker wrote behind the last frame that it was allowed to write.
    pub overran: bool,
}

impl Resident {
    /// Without any snapshot yet.
    ///
    /// # Errors
    /// [`ResidentError::Taken`], or what this machine lacks.
    pub fn new() -> Result<Self, ResidentError> {
        if !arch::has_thread_pointer_instructions() {
            return Err(ResidentError::NoThreadPointer);
        }
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(ResidentError::Taken);
        }
        arch::keep_thread_pointer();
        let mut memory = Memory::new();
        let signal_stack = signals::take(&mut memory)?;
        Ok(Self {
            store: Store::new()?,
            kept: Vec::new(),
            memory,
            shown: None,
            _signal_stack: signal_stack,
        })
    }

    /// Takes a snapshot in. Pages that it shares with others are kept once. Returns its number, counted from 0.
    ///
    /// # Errors
    /// [`PuppetError::NeedsFile`] if pages are by reference, see [`Capsule::resolve`];
    /// [`ResidentError::Collision`].
    pub fn add(&mut self, capsule: &Capsule) -> Result<usize, ResidentError> {
        let kept = self.store.keep(capsule)?;
        self.memory.reserve(&kept)?;
        self.kept.push(kept);
        Ok(self.kept.len() - 1)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of all pages that are kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Makes `index` (modulo how many there are) the one that is walked.
    ///
    /// # Errors
    /// The kernel's, when it cannot be mapped.
    pub fn show(&mut self, index: usize) -> Result<(), ResidentError> {
        let index = index.checked_rem(self.kept.len()).unwrap_or(0);
        if self.shown == Some(index) {
            return Ok(());
        }
        self.shown = None;
        if let Some(kept) = self.kept.get(index) {
            self.memory.show(kept, &self.store)?;
            self.shown = Some(index);
            let Entry { trace, depth, .. } = kept.facts.entry;
            let header = trace.0..trace.0.saturating_add(TRACE_FRAMES + 8);
            let at = self.memory.bytes(trace.0 + TRACE_FRAMES, 8);
            let at = at.and_then(|at| at.try_into().ok());
            let at = at.map_or(0, u64::from_le_bytes);
            let frames = at..at.saturating_add(u64::from(depth.unsigned_abs()) * FRAME);
            self.memory.expect([header, frames]);
        }
        Ok(())
    }

    /// Makes `word` what walks of the shown snapshot find at `address`; what they found before. `None`, and nothing is edited, if that is not the
    /// address of a word on a page that a program may write. Stays until it is edited back, or another snapshot is shown.
    pub fn edit(&mut self, address: Address, word: u64) -> Option<u64> {
        self.shown?;
        self.memory.edit(address.0, word)
    }

    /// A puppet over a snapshot as it was taken: the judge of its walks.
    ///
    /// # Errors
    /// When there can be no puppet.
    pub fn ground(&self, index: usize) -> Result<Ground<'_>, CaptureError> {
        let kept = self.kept.get(index).ok_or_else(|| PuppetError::System {
            what: "find the snapshot",
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        Ground::of_kept(kept, &self.store)
    }

    /// Walks the shown snapshot from `registers`, as when it was taken but for them and for `depth`.
    ///
    /// Allocates nothing.
    pub fn walk(&mut self, registers: &Registers, depth: i32) -> Ended {
        let Some(kept) = self.shown.and_then(|shown| self.kept.get(shown)) else {
            return Ended::MissingPage(Address(0));
        };
        self.memory.restore();
        let mut entry = kept.facts.entry;
        entry.depth = depth.clamp(1, kept.facts.entry.depth);
        let context = kept.facts.entry.context.0 as *mut libc::ucontext_t;
        // SAFETY: the pages of the context are mapped, and writable since `show`.
        unsafe { walkfuzz_guard::write_registers(context, registers) };
        match signals::walk(&entry) {
            Walk::Ended(ended) => ended,
            Walk::Returned { near_misses } => {
                let frames = self.frames(depth);
                Ended::Outcome(Outcome::Frames(FramesOutcome {
                    frames: frames.count,
                    hash: hash_of_frames(frames.bytes),
                    near_misses,
                }))
            }
        }
    }

    /// The last walk's frames, of a walk that came back and asked for `depth`.
    #[must_use]
    pub fn frames(&self, depth: i32) -> Frames<'_> {
        let none = Frames {
            count: 0,
            bytes: &[],
            overran: false,
        };
        let Some(kept) = self.shown.and_then(|shown| self.kept.get(shown)) else {
            return none;
        };
        let trace = kept.facts.entry.trace.0;
        let depth = depth.clamp(1, kept.facts.entry.depth) as u64;
        let (Some(count), Some(at)) = (
            self.memory.bytes(trace + TRACE_COUNT, 4),
            self.memory.bytes(trace + TRACE_FRAMES, 8),
        ) else {
            return none;
        };
        let count = count.try_into().map_or(0, i32::from_le_bytes);
        let at = at.try_into().map_or(0, u64::from_le_bytes);
        let length = u64::from(count.clamp(0, i32::MAX).cast_unsigned()).min(depth) * FRAME;
        let bytes = self.memory.bytes(at, length).unwrap_or_default();
        let behind = at.wrapping_add(depth * FRAME);
        Frames {
            count,
            bytes,
            overran: self.memory.is_changed(behind, FRAME),
        }
    }

    /// The context's registers as they were when the shown snapshot was taken.
    #[must_use]
    pub fn untouched(&self) -> Option<Registers> {
        let kept = self.kept.get(self.shown?)?;
        Some(kept.untouched)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        signals::give_back();
        self.memory.forget();
        TAKEN.store(false, Ordering::Relaxed);
    }
}

/// The page that holds `address`.
pub(crate) const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}
