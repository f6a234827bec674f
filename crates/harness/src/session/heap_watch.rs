//! Walks that write to the Java heap.
//!
//! AsyncGetCallTrace stores a pc into what it takes for an entry frame's anchor, wherever that is. [`crate::watch`] sees the walked stack. In the
//! heap the word is a field of some object: nothing faults, and the collector meets it later, on a thread of its own. With ZGC even a
//! frozen copy would write for real, because its heap is shared memory. So the walk is made in a copy whose heap is read-only.

use std::time::Duration;

use walkfuzz_context::Registers;
use walkfuzz_engine::{Ended, FrozenEnd, Moment, Shared, freeze};
use walkfuzz_guard::{Fault, FaultKind};
use walkfuzz_record::FaultRecord;
use walkfuzz_vmstructs::{Maps, Span, java_heap};
use walkfuzz_walkers::{TraceBuffer, Walker};

use crate::walks::fault_record;
use crate::world::World;

/// How long a copy may take for its one walk.
const LIMIT: Duration = Duration::from_millis(500);

/// What came of a walk whose heap was read-only.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeapWatch {
    /// It wants to write there.
    Writes(FaultRecord),
    /// It does not.
    Reads,
    /// Nobody knows: there was no copy, or it did not come so far.
    Unknown,
}

/// Makes the walk from `registers` in a copy of the held moment.
pub(super) fn watch(
    moment: &mut Moment,
    world: &World,
    walker: &dyn Walker,
    registers: &Registers,
    depth: i32,
    trace: &mut TraceBuffer,
) -> HeapWatch {
    let Ok(mut answer) = Shared::new(HeapWatch::Unknown) else {
        return HeapWatch::Unknown;
    };
    let seen = &raw mut *answer;
    let copy = freeze(moment, LIMIT, |moment| {
        let heap = read_only_heap(world);
        let walked = moment.walk(walker, registers, depth, trace);
        let faulted = walked.is_some_and(|walked| matches!(walked.ended, Ended::Faulted));
        let found = if heap.is_empty() {
            HeapWatch::Unknown
        } else if faulted && is_write(moment.fault(), &heap) {
            HeapWatch::Writes(fault_record(moment.fault()))
        } else {
            HeapWatch::Reads
        };
        // SAFETY: the mapping is shared, lives until the copy has ended, and is read only after that.
        unsafe { seen.write_volatile(found) };
    });
    let end = copy.map(|mut copy| copy.wait());
    if matches!(end, Ok(FrozenEnd::Done)) {
        *answer
    } else {
        HeapWatch::Unknown
    }
}

/// Takes away the right to write to the Java heap; what was writable until now. In a copy only.
fn read_only_heap(world: &World) -> Vec<Span> {
    let Ok(maps) = Maps::read_own() else {
        return Vec::new();
    };
    let Some(heap) = java_heap(&world.hotspot, world.memory(), &maps) else {
        return Vec::new();
    };
    let writable = maps.all().iter().filter(|mapping| mapping.writable);
    let parts = writable.flat_map(|mapping| {
        let both = heap.spans.iter().map(|span| {
            Span::new(
                span.start.max(mapping.span.start),
                span.end.min(mapping.span.end),
            )
        });
        both.collect::<Vec<_>>()
    });
    parts
        .filter(|part| part.start < part.end)
        .filter(|part| {
            // SAFETY: whole pages of the heap; this copy has one thread, which runs no Java code any more.
            unsafe {
                libc::mprotect(
                    part.start.0 as *mut _,
                    (part.end.0 - part.start.0) as usize,
                    libc::PROT_READ,
                ) == 0
            }
        })
        .collect()
}

/// What was writable is readable still: an access that is not allowed there is a write.
fn is_write(fault: &Fault, heap: &[Span]) -> bool {
    /// `si_code` of a SIGSEGV at a mapped address.
    const SEGV_ACCERR: i32 = 2;
    fault.kind == FaultKind::Signal
        && fault.signal == libc::SIGSEGV
        && fault.code == SEGV_ACCERR
        && heap.iter().any(|span| span.contains(fault.address))
}
