//! How many values came from a landscape that was out of date.
//!
//! The landscape is surveyed every so many parks; in between, code is freed and threads end. Nobody looks at each resolved value, which would cost
//! as much as the walk: instead every entry of the landscape counts how often it was used, and when the next survey is there, the uses of those entries
//! that no longer hold are the stale hits. An entry that went after its last use counts as well, so that the number is an upper bound. What cannot
//! be told is not counted: an address in the heap or in metaspace whose object has gone.

use walkfuzz_context::{Address, BlobKind, LandscapeTable, ValueClass};
use walkfuzz_vmstructs::{CodeMap, Span, Tid};

/// What one survey knew.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The code cache.
    pub code: &'a CodeMap,
    /// The threads' stacks.
    pub stacks: &'a [(Tid, Span)],
}

/// The uses of entries that held in `old` and do not in `new`. Forgets all uses.
pub fn hits(landscape: &mut LandscapeTable, old: &Known<'_>, new: &Known<'_>) -> u64 {
    let mut count = 0;
    landscape.take_uses(|class, value, uses| {
        let holds = match class {
            // What a thread's own words say holds whatever became of the code there, and libjvm stays.
            ValueClass::ReturnAddress | ValueClass::NaturalPc | ValueClass::LibjvmText => true,
            class if class.is_code() => code_at(old.code, value) == code_at(new.code, value),
            ValueClass::ForeignStack
            | ValueClass::YellowZone
            | ValueClass::RedZone
            | ValueClass::ReservedZone
            | ValueClass::GuardPages => {
                let owner = owner(old.stacks, value);
                owner.is_none_or(|owner| new.stacks.contains(&owner))
            }
            _ => true,
        };
        if !holds {
            count += u64::from(uses);
        }
    });
    count
}

/// What tells one piece of code from another at the same address.
fn code_at(code: &CodeMap, value: u64) -> (BlobKind, Option<(Span, Option<i32>)>) {
    let blob = code.blob(Address(value));
    let identity = blob.map(|blob| {
        let id = blob.nmethod.as_ref().map(|nmethod| nmethod.compile_id);
        (blob.span, id)
    });
    (code.kind(Address(value)), identity)
}

/// The thread whose stack an address is in, or whose guard pages: those lie right below.
fn owner(stacks: &[(Tid, Span)], value: u64) -> Option<(Tid, Span)> {
    let above = stacks.iter().filter(|(_, stack)| value < stack.end.0);
    above.min_by_key(|(_, stack)| stack.end.0).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use walkfuzz_context::Landscape;
    use walkfuzz_vmstructs::{Blob, CodeCache, CodeHeap};

    use super::*;

    const HEAP: u64 = 0x10_0000;

    fn blob(at: u64, kind: BlobKind) -> Blob {
        let span = Span::sized(Address(at), 0x100);
        Blob {
            span,
            code: span,
            name: Arc::from("a blob"),
            kind,
            frame_size: 0,
            frame_complete: 0,
            nmethod: None,
        }
    }

    fn code(blobs: Vec<Blob>) -> CodeMap {
        let heap = Span::sized(Address(HEAP), 0x1000);
        let cache = CodeCache {
            heaps: vec![CodeHeap {
                address: Address(0),
                committed: heap,
                reserved: heap,
                log2_segment_size: 7,
            }],
            blobs,
            ..CodeCache::default()
        };
        CodeMap::new(cache, None)
    }

    fn stack(tid: i32, start: u64) -> (Tid, Span) {
        (Tid(tid), Span::sized(Address(start), 0x1_0000))
    }

    #[test]
    fn uses_of_what_has_gone_are_stale_hits() {
        let kept = blob(HEAP, BlobKind::Nmethod);
        let freed = blob(HEAP + 0x200, BlobKind::Nmethod);
        let old = code(vec![kept.clone(), freed]);
        // A stub has taken some of what was free.
        let new = code(vec![kept, blob(HEAP + 0x400, BlobKind::RuntimeStub)]);
        let (stays, ends) = (stack(1, 0x7000_0000), stack(2, 0x7001_0000));
        let mut landscape = LandscapeTable::new();
        landscape.set(ValueClass::NmethodBody, vec![HEAP + 0x10, HEAP + 0x210]);
        landscape.set(ValueClass::FreeCode, vec![HEAP + 0x410, HEAP + 0x610]);
        // The thread that ended, its guard pages, and the one that stays.
        landscape.set(ValueClass::ForeignStack, vec![0x7001_8000, 0x7000_8000]);
        landscape.set(ValueClass::GuardPages, vec![0x7000_0000 - 8]);
        landscape.set(ValueClass::Heap, vec![0x1234]);
        for (class, selector, times) in [
            (ValueClass::NmethodBody, 0, 100),
            (ValueClass::NmethodBody, 1, 3),
            (ValueClass::FreeCode, 0, 5),
            (ValueClass::FreeCode, 1, 100),
            (ValueClass::ForeignStack, 0, 7),
            (ValueClass::ForeignStack, 1, 100),
            (ValueClass::GuardPages, 0, 100),
            (ValueClass::Heap, 0, 100),
        ] {
            for _ in 0..times {
                landscape.resolve(class, selector);
            }
        }
        let old = Known {
            code: &old,
            stacks: &[stays, ends],
        };
        let new = Known {
            code: &new,
            stacks: &[stays],
        };
        assert_eq!(hits(&mut landscape, &old, &new), 3 + 5 + 7);
        assert_eq!(hits(&mut landscape, &old, &new), 0, "counted once");
    }
}
