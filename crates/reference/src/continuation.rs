//! Virtual threads: where the frames of a mounted continuation go on to the carrier's.
//!
//! `Continuation.enterSpecial` keeps a `ContinuationEntry` at its stack pointer (continuationEntry.hpp). Frames are brought back to the stack lazily: the
//! lowest one that is there returns to the return barrier, a stub that fetches more. Its caller on this stack is enterSpecial.

use walkfuzz_context::{Address, Fp, Pc, Sp};
use walkfuzz_vmstructs::{HotSpot, Memory};

use crate::thread::ThreadLayout;

/// Continuations within continuations that are gone through.
const NESTING: usize = 16;
/// `sizeof(ContinuationEntry)` where the tables lack it (21): continuationEntry.hpp, aligned to two words.
const SIZE: u64 = 64;

/// What this JVM says about continuations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuations {
    /// What `StubRoutines::_cont_returnBarrier` holds; the stub is made when the JVM starts.
    barrier: u64,
    /// `ContinuationEntry::_return_pc`: behind enterSpecial's call.
    return_pc: Address,
    size: u64,
}

/// enterSpecial's frame.
pub(crate) struct EnterSpecial {
    pub(crate) pc: Pc,
    pub(crate) sp: Sp,
    pub(crate) fp: Fp,
    /// Whether the thread said where it is.
    pub(crate) is_known: bool,
}

impl Continuations {
    /// `None` for a JVM without continuations.
    pub(crate) fn find(
        hotspot: &HotSpot,
        memory: &dyn Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Option<Self> {
        let tables = hotspot.tables();
        let return_pc = match tables.field("ContinuationEntry", "_return_pc") {
            Some(field) => field.address,
            None => Address(symbol("_ZN17ContinuationEntry10_return_pcE")?),
        };
        let barrier = Address(symbol("_ZN12StubRoutines19_cont_returnBarrierE")?);
        let size = tables.type_size("ContinuationEntry").unwrap_or(SIZE);
        Some(Self {
            barrier: memory.read_u64(barrier).ok().filter(|pc| *pc != 0)?,
            return_pc,
            size: size.next_multiple_of(16),
        })
    }

    /// Whether `pc` is the return barrier.
    #[inline]
    pub(crate) const fn is_barrier(&self, pc: u64) -> bool {
        self.barrier == pc
    }

    /// enterSpecial's frame below the one whose caller's sp would be `sender_sp`.
    pub(crate) fn enter_special<M: Memory + ?Sized>(
        &self,
        memory: &M,
        threads: &ThreadLayout,
        thread: Address,
        sender_sp: u64,
    ) -> Option<EnterSpecial> {
        let pc = memory.read_u64(self.return_pc).ok()?;
        let mut known = threads.continuation(memory, thread);
        let is_known = known.is_some();
        for _ in 0..NESTING {
            match known {
                // Without arguments on the stack the entry stands right there.
                None => known = Some(Address(sender_sp.next_multiple_of(16))),
                // `_parent` comes first.
                Some(entry) if entry.0 < sender_sp => {
                    known = Some(memory.read_pointer(entry).ok()?)
                }
                Some(_) => break,
            }
        }
        let entry = known.filter(|entry| entry.0 >= sender_sp)?;
        Some(EnterSpecial {
            pc: Pc(pc),
            sp: Sp(entry.0),
            fp: Fp(entry.0.checked_add(self.size)?),
            is_known,
        })
    }
}
