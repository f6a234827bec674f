//! Walks that write to the stack of the thread they walk: noticed, attributed, undone.

use walkfuzz_context::Registers;
use walkfuzz_engine::{HeldStack, Moment, Written, fault_record};
use walkfuzz_record::FaultRecord;
use walkfuzz_vmstructs::CodeMap;
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::world::is_return_address;

/// Watches the held thread's stack.
pub(crate) struct Watch<'a> {
    /// What was there when the thread was stopped.
    pub(crate) stack: &'a mut HeldStack,
    /// What an address lies in.
    pub(crate) code: &'a CodeMap,
}

impl Watch<'_> {
    /// The first word that walks have changed and should not have.
    #[inline]
    pub(crate) fn written(&mut self) -> Option<Written> {
        loop {
            let written = self.stack.written()?;
            if !self.completes_an_anchor(&written) {
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
        // SAFETY: the moment is held, `written` came of its stack, and the flow that walks has a stack of its own.
        let fault = unsafe {
            self.stack
                .writer(written, moment, walker, registers, depth, trace)
        }?;
        Some(fault_record(&fault))
    }

    /// Leaves a word as it was found: no walk that could be repeated wrote it.
    pub(crate) fn leave(&mut self, written: &Written) {
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
