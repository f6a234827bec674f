//! Reading HotSpot's own structures over a Memory trait: code cache, threads, zones, landscape.
//!
//! Everything is read through [`Memory`], so that the same code serves a live JVM, a frozen copy of one and a file. A
//! [`HotSpot`] knows where things are (tables of offsets, addresses of statics, flags); the readers ([`CodeCache`],
//! [`java_threads`], [`java_heap`], [`survey`]) take it and a memory and give back owned values.
//!
//! Contract:
//! - a live JVM moves between two reads. Every reader checks what it reads, leaves out what makes no sense and counts it;
//!   no reader waits, locks or writes.
//! - readers allocate: call them outside signal handlers. [`CodeMap`]'s lookups and the reads of [`Memory`] itself do not
//!   allocate and are signal-safe.
//! - not here: symbol tables. Whoever attaches gives a closure from symbol name to address.

mod blob;
mod buffer_memory;
mod code_cache;
mod code_map;
mod cursor;
mod epilogue;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_tests;
mod flags;
mod heap;
mod hotspot;
mod interpreter;
mod landscape;
mod live_code;
mod live_memory;
mod maps;
mod memory;
mod method_name;
mod nmethod;
mod perturber;
mod recording;
mod sampling;
mod span;
mod tables;
mod thread_search;
mod threads;
mod vtable_stubs;
mod zones;

pub use blob::{Blob, BlobLayout, FRAME_NEVER_SAFE, LiveBlob};
pub use buffer_memory::BufferMemory;
pub use code_cache::{CodeCache, CodeCacheError, CodeCacheLayout, CodeHeap, Skipped};
pub use code_map::CodeMap;
pub use flags::{FlagError, FlagKind, FlagValue, Flags};
pub use heap::{
    HeapLayout, HeapSource, JavaHeap, MethodMetadata, java_heap, klass_base, method_metadata,
    poll_page,
};
pub use hotspot::{AttachError, HotSpot, Version};
pub use interpreter::Codelet;
pub use landscape::{LIST_LIMIT, Survey, fill, survey};
pub use live_code::{CodeAt, LiveCode};
pub use live_memory::LiveMemory;
pub use maps::{Mapping, Maps, MapsError};
pub use memory::{Memory, Unreadable};
pub use method_name::{MethodName, method_name};
pub use nmethod::{Nmethod, NmethodLayout};
pub use perturber::Perturber;
pub use recording::RecordingMemory;
pub use span::Span;
pub use tables::{Field, MissingEntry, Tables, TablesError};
pub use thread_search::{Sighting, ThreadSearch};
pub use threads::{
    JavaThread, ThreadLayout, ThreadState, ThreadsError, Tid, java_threads, jni_environment_offset,
};
pub use vtable_stubs::{VtableStub, VtableStubKind, vtable_stubs};
pub use zones::{ZoneSizes, Zones};
