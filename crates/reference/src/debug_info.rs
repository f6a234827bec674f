//! Which methods and bytecodes a pc in compiled code stands for.
//!
//! An nmethod has an array of `PcDesc` (code/pcDesc.hpp), sorted by pc and with a sentinel at each end; each points to a scope in compressed
//! data (code/scopeDesc.cpp): the offset of the scope that it was inlined into, the method's number, the bytecode. What follows, locals and monitors, is
//! none of a walker's business.

use walkfuzz_context::{Address, Pc};
use walkfuzz_vmstructs::{Memory, MissingEntry, Nmethod, Span, Tables};

use crate::unsigned5::Encoding;

/// `DebugInformationRecorder::serialized_null`: no scope.
const NO_SCOPE: i32 = 0;
/// The longest `PcDesc` that is understood.
const DESC: usize = 32;

/// Where a `PcDesc`'s fields are.
#[derive(Clone, Debug)]
pub(crate) struct DebugInfo {
    pc_offset: usize,
    scope_offset: usize,
    size: u64,
    encoding: Encoding,
}

/// What the array of `PcDesc` says about a pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PcDesc {
    pc_offset: i32,
    scope: i32,
}

/// One method of a compiled frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) method: Address,
    pub(crate) bci: i32,
    /// The scope that it was inlined into; 0 for none.
    pub(crate) sender: i32,
}

/// Which `PcDesc` is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The one of exactly this pc: a return address has one.
    Exact,
    /// The first one behind the pc: an arbitrary instruction belongs to the region that it ends (forte.cpp, `is_decipherable_compiled_frame`).
    Behind,
}

impl DebugInfo {
    pub(crate) fn resolve(tables: &Tables, feature: u32) -> Result<Self, MissingEntry> {
        let offset = |field: &str| Ok(tables.require("PcDesc", field)?.offset as usize);
        let info = Self {
            pc_offset: offset("_pc_offset")?,
            scope_offset: offset("_scope_decode_offset")?,
            size: tables.require_size("PcDesc")?,
            encoding: Encoding::of(feature),
        };
        if info.size as usize > DESC || info.size < 8 {
            return Err(MissingEntry {
                type_name: "PcDesc".into(),
                field: "sizeof (of 8 to 32 bytes)".into(),
                jdk: tables.jdk().into(),
            });
        }
        Ok(info)
    }

    #[inline]
    fn desc<M: Memory + ?Sized>(&self, memory: &M, descs: &Span, index: u64) -> Option<PcDesc> {
        let mut bytes = [0; DESC];
        let bytes = bytes.get_mut(..self.size as usize)?;
        let at = descs.start.0.checked_add(index.checked_mul(self.size)?)?;
        memory.read(Address(at), bytes).ok()?;
        let word = |at: usize| Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(PcDesc {
            pc_offset: word(self.pc_offset)?,
            scope: word(self.scope_offset)?,
        })
    }

    /// The number of the scope at `pc`; `None` if there is none.
    #[inline]
    pub(crate) fn scope_at<M: Memory + ?Sized>(
        &self,
        memory: &M,
        code: &Span,
        nmethod: &Nmethod,
        pc: Pc,
        wanted: Wanted,
    ) -> Option<i32> {
        let descs = &nmethod.pc_descs;
        let offset = i32::try_from(pc.0.checked_sub(code.start.0)?).ok()?;
        let offset = match wanted {
            Wanted::Exact => offset,
            Wanted::Behind => offset.checked_add(1)?,
        };
        // The first one at or behind `offset`; a binary search ends whatever is in the array.
        let (mut low, mut high) = (0, descs.length() / self.size);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = descs.start.0.checked_add(middle * self.size)?;
            let pc_offset = memory.read_i32(Address(at + self.pc_offset as u64)).ok()?;
            if pc_offset < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low >= descs.length() / self.size {
            return None;
        }
        let desc = self.desc(memory, descs, low)?;
        let fits = wanted == Wanted::Behind || desc.pc_offset == offset;
        (fits && desc.scope != NO_SCOPE).then_some(desc.scope)
    }

    /// The scope of that number.
    #[inline]
    pub(crate) fn scope<M: Memory + ?Sized>(
        &self,
        memory: &M,
        nmethod: &Nmethod,
        number: i32,
    ) -> Option<Scope> {
        let data = &nmethod.scopes_data;
        let at = data.start.0.checked_add(u64::try_from(number).ok()?)?;
        let [sender, method, bci] = self.encoding.read(memory, Address(at), data)?;
        // 0 stands for null.
        let slot = u64::from(method).checked_sub(1)? * 8;
        let slot = Address(nmethod.metadata.start.0.checked_add(slot)?);
        if !nmethod.metadata.contains(slot) {
            return None;
        }
        Some(Scope {
            method: memory.read_pointer(slot).ok()?,
            // InvocationEntryBci, -1, is added when it is written.
            bci: bci.cast_signed().checked_sub(1)?,
            sender: sender.cast_signed(),
        })
    }
}
