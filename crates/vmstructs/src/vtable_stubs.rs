//! The stubs that compiled virtual and interface calls go through.

use walkfuzz_context::Address;

use crate::cursor::{Cursor, Slot};
use crate::hotspot::HotSpot;
use crate::memory::Memory;

/// `VtableStubs::N` (vtableStubs.hpp), 256 in all versions.
const BUCKETS: usize = 256;
/// `sizeof(VtableStub)`: next, index, the two exception offsets, the type; the code follows. The same in 11 to 25, in no
/// table.
const HEADER: usize = 16;
const NEXT: Slot = Slot::new(0, 8);
const INDEX: Slot = Slot::new(8, 2);
const KIND: Slot = Slot::new(14, 1);
/// Longer chains are garbage or a cycle.
const MAX_STUBS: usize = 16_384;

/// What a stub looks its target up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VtableStubKind {
    /// The receiver's vtable.
    Vtable,
    /// An interface's itable.
    Itable,
}

/// One `VtableStub`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtableStub {
    /// Its first instruction.
    pub entry: Address,
    /// Vtable or itable.
    pub kind: VtableStubKind,
    /// Index in that table.
    pub index: i16,
}

/// Every stub in `VtableStubs::_table`, sorted by address. Empty if libjvm is stripped: the table is in no VMStructs entry,
/// only in `.symtab`.
#[must_use]
pub fn vtable_stubs(hotspot: &HotSpot, memory: &dyn Memory) -> Vec<VtableStub> {
    let mut stubs = Vec::new();
    let mut buckets = [0; BUCKETS * 8];
    let Some(table) = hotspot.vtable_stub_table() else {
        return stubs;
    };
    if memory.read(table, &mut buckets).is_err() {
        return stubs;
    }
    for bucket in buckets.chunks_exact(8).map(Cursor) {
        let mut next = bucket.pointer(Slot::new(0, 8));
        while next.0 != 0 && stubs.len() < MAX_STUBS {
            let mut header = [0; HEADER];
            if memory.read(next, &mut header).is_err() {
                break;
            }
            let header = Cursor(&header);
            // is_vtable_stub: a bool up to 17, then an enum with the same values.
            let kind = match header.unsigned(KIND) {
                0 => VtableStubKind::Itable,
                _ => VtableStubKind::Vtable,
            };
            stubs.push(VtableStub {
                entry: Address(next.0.wrapping_add(HEADER as u64)),
                kind,
                index: header.signed(INDEX) as i16,
            });
            next = header.pointer(NEXT);
        }
    }
    stubs.sort_by_key(|stub| stub.entry);
    stubs
}
