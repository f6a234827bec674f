//! Where the Java heap, class metadata and the polling page are.

use std::collections::BTreeSet;

use walkfuzz_context::Address;

use crate::hotspot::HotSpot;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// ZGC backs its heap with a memory file of this name.
const HEAP_FILE: &str = "java_heap";
/// More than any machine addresses.
const MAX_HEAP: u64 = 1 << 47;

/// How the heap was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapSource {
    /// `CollectedHeap::_reserved`.
    Reserved,
    /// Mappings of ZGC's memory file.
    Mappings,
}

/// The Java heap's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaHeap {
    /// One range, or several for ZGC, sorted by address.
    pub spans: Vec<Span>,
    /// How they were found.
    pub source: HeapSource,
}

/// What hangs on one `Method*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodMetadata {
    /// The `Method*` itself.
    pub method: Address,
    /// Its `ConstMethod*` (bytecodes).
    pub const_method: Address,
    /// Its class's `ConstantPool*`.
    pub constants: Address,
    /// Its class's `InstanceKlass*`.
    pub holder: Address,
}

/// Where this JDK keeps the fields.
#[derive(Clone, Debug)]
pub struct HeapLayout {
    collected_heap: Address,
    reserved_start: u64,
    reserved_words: u64,
    klass_base: Option<Address>,
    const_method: u64,
    constants: u64,
    holder: u64,
}

impl HeapLayout {
    /// Looks the fields up.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that this JDK lacks.
    pub fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let offset = |type_name: &str, field: &str| {
            tables.require(type_name, field).map(|field| field.offset)
        };
        let reserved = offset("CollectedHeap", "_reserved")?;
        let klass_base = tables.require_any(&[
            ("CompressedKlassPointers", "_base"),
            ("CompressedKlassPointers", "_narrow_klass._base"),
            ("Universe", "_narrow_klass._base"),
        ]);
        Ok(Self {
            collected_heap: tables.require("Universe", "_collectedHeap")?.address,
            reserved_start: reserved + offset("MemRegion", "_start")?,
            reserved_words: reserved + offset("MemRegion", "_word_size")?,
            klass_base: klass_base.ok().map(|field| field.address),
            const_method: offset("Method", "_constMethod")?,
            constants: offset("ConstMethod", "_constants")?,
            holder: offset("ConstantPool", "_pool_holder")?,
        })
    }
}

/// The Java heap; `None` if it is neither reserved in the usual way nor a memory file.
#[must_use]
pub fn java_heap(hotspot: &HotSpot, memory: &dyn Memory, maps: &Maps) -> Option<JavaHeap> {
    // ZGC leaves `_reserved` empty, or (11) has it span every address that it might use.
    let is_z = hotspot.flags().is_on(memory, "UseZGC");
    if !is_z && let Some(span) = reserved(hotspot.heap(), memory) {
        return Some(JavaHeap {
            spans: vec![span],
            source: HeapSource::Reserved,
        });
    }
    let mut spans: Vec<Span> = Vec::new();
    for mapping in maps.named(HEAP_FILE) {
        match spans.last_mut() {
            Some(last) if last.end == mapping.span.start => last.end = mapping.span.end,
            _ => spans.push(mapping.span),
        }
    }
    (!spans.is_empty()).then_some(JavaHeap {
        spans,
        source: HeapSource::Mappings,
    })
}

fn reserved(layout: &HeapLayout, memory: &dyn Memory) -> Option<Span> {
    let heap = memory.read_pointer(layout.collected_heap).ok()?;
    let start = memory.read_pointer(at(heap, layout.reserved_start)).ok()?;
    let words = memory.read_u64(at(heap, layout.reserved_words)).ok()?;
    let length = words.checked_mul(8)?;
    (start.0 != 0 && length != 0 && length <= MAX_HEAP).then(|| Span::sized(start, length))
}

/// The metadata of the given methods; unreadable ones are left out.
#[must_use]
pub fn method_metadata(
    hotspot: &HotSpot,
    memory: &dyn Memory,
    methods: impl IntoIterator<Item = Address>,
) -> Vec<MethodMetadata> {
    let layout = hotspot.heap();
    let methods: BTreeSet<Address> = methods.into_iter().filter(|method| method.0 != 0).collect();
    let one = |method: Address| {
        let const_method = memory.read_pointer(at(method, layout.const_method)).ok()?;
        let constants = memory
            .read_pointer(at(const_method, layout.constants))
            .ok()?;
        let holder = memory.read_pointer(at(constants, layout.holder)).ok()?;
        Some(MethodMetadata {
            method,
            const_method,
            constants,
            holder,
        })
    };
    methods.into_iter().filter_map(one).collect()
}

/// The base of compressed class pointers, where class space (or the shared archive in front of it) begins. `None` if it is 0
/// or not used.
#[must_use]
pub fn klass_base(hotspot: &HotSpot, memory: &dyn Memory) -> Option<Address> {
    memory
        .read_pointer(hotspot.heap().klass_base?)
        .ok()
        .filter(|base| base.0 != 0)
}

/// The page that compiled code touches to be stopped: `SafepointMechanism::_polling_page`, in 11 `os::_polling_page`. It is
/// the armed (forbidden) one of two neighbours; where threads are not stopped one by one (`-XX:-ThreadLocalHandshakes` in 11,
/// which Shenandoah sets) there is one page, forbidden only while they are being stopped. `None` for a stripped libjvm: no VMStructs entry has it.
#[must_use]
pub fn poll_page(hotspot: &HotSpot, memory: &dyn Memory) -> Option<Address> {
    hotspot
        .poll_page_statics()
        .iter()
        .find_map(|place| memory.read_pointer(*place).ok().filter(|page| page.0 != 0))
}

fn at(base: Address, offset: u64) -> Address {
    Address(base.0.wrapping_add(offset))
}
