//! Walks that write to the stack of the thread they walk: noticed, attributed, undone.
//!
//! Z and Shenandoah write there as well: they move objects while a thread is held, and correct the references in its frames. Such a word must
//! never be put back, and the page never be protected, for the collector's thread would fault on it.

use std::time::Duration;

use walkfuzz_context::Registers;
use walkfuzz_engine::{FrozenEnd, HeldStack, Moment, Shared, Written, freeze};
use walkfuzz_record::FaultRecord;
use walkfuzz_vmstructs::CodeMap;
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::walks::fault_record;
use crate::world::is_return_address;

/// How long a copy may take for its one walk.
const LIMIT: Duration = Duration::from_millis(500);

/// Watches the held thread's stack.
pub(crate) struct Watch<'a> {
    /// What was there when the thread was stopped.
    pub(crate) stack: &'a mut HeldStack,
    /// What an address lies in.
    pub(crate) code: &'a CodeMap,
    /// Whether the collector corrects references in the held thread's frames. In a frozen copy no collector runs.
    pub(crate) is_corrected: bool,
}

impl Watch<'_> {
    /// The first word that walks have changed and should not have.
    #[inline]
    pub(crate) fn written(&mut self) -> Option<Written> {
        loop {
            let written = self.stack.written()?;
            // There is no reference to correct where nothing was; the walks that are known to write find such words.
            let corrected = self.is_corrected && written.before != 0;
            if !corrected && !self.completes_an_anchor(&written) {
                return Some(written);
            }
            self.stack.accept(&written);
        }
    }

    /// HotSpot means to write here: `JavaFrameAnchor::make_walkable` fills in the pc of a real entry frame's anchor, whose sp
    /// stands in the word below, from the word under that sp. It is the address behind a call then.
    fn completes_an_anchor(&self, written: &Written) -> bool {
        let at = written.address.0;
        let sp = at.checked_sub(8).and_then(|below| self.stack.word(below));
        written.before == 0
            && sp.is_some_and(|sp| {
                sp > at && self.stack.word(sp.wrapping_sub(8)) == Some(written.after)
            })
            && is_return_address(self.code, written.after)
    }

    /// The instruction with which the walk from `registers` writes at `written`; `None` when it does not. The word is what it
    /// was afterwards.
    pub(crate) fn writer(
        &mut self,
        written: &Written,
        moment: &mut Moment,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<FaultRecord> {
        if self.is_corrected {
            return self.writer_in_copy(written, moment, walker, registers, depth, trace);
        }
        // SAFETY: the moment is held, `written` came of its stack, and the flow that walks has a stack of its own.
        let fault = unsafe {
            self.stack
                .writer(written, moment, walker, registers, depth, trace)
        }?;
        Some(fault_record(&fault))
    }

    /// As [`writer`](Self::writer), without a change to a page that the collector writes to; the word is put back if a walk wrote it.
    fn writer_in_copy(
        &mut self,
        written: &Written,
        moment: &mut Moment,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<FaultRecord> {
        let mut answer = Shared::new(None).ok()?;
        let seen = &raw mut *answer;
        let stack = &*self.stack;
        let copy = freeze(moment, LIMIT, |moment| {
            // SAFETY: as in `writer`; the copy has a stack of its own, and nobody else in it.
            let fault = unsafe { stack.writer(written, moment, walker, registers, depth, trace) };
            // SAFETY: the mapping is shared, lives until the copy has ended, and is read only after that.
            unsafe { seen.write_volatile(fault.as_ref().map(fault_record)) };
        });
        let end = copy.ok()?.wait();
        let fault = Some(*answer).filter(|_| end == FrozenEnd::Done)??;
        // SAFETY: the moment is held; the collector has no business with what a walk wrote over nothing.
        unsafe { self.stack.put_back(written) };
        Some(fault)
    }

    /// Leaves a word as it was found: no walk that could be repeated wrote it.
    pub(crate) fn leave(&mut self, written: &Written) {
        if self.is_corrected {
            self.stack.accept(written);
            return;
        }
        // SAFETY: the moment that the stack was kept at is still held.
        unsafe { self.stack.restore(written) };
    }

    /// Whether the walk that was just made from `registers` wrote, and where. Undoes it.
    pub(crate) fn blame(
        &mut self,
        moment: &mut Moment,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<FaultRecord> {
        let written = self.written()?;
        let fault = self.writer(&written, moment, walker, registers, depth, trace);
        self.undo();
        fault
    }

    /// Puts back everything that was written.
    pub(crate) fn undo(&mut self) {
        for _ in 0..self.stack.words().len() {
            let Some(written) = self.written() else {
                return;
            };
            // SAFETY: the moment that the stack was kept at is still held.
            unsafe { self.stack.put_back(&written) };
        }
    }
}
