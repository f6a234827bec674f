//! What is looked up once: offsets, addresses, sizes.

use walkfuzz_context::{Address, Arch};
use walkfuzz_vmstructs::{
    CodeAt, CodeCacheError, HotSpot, LiveBlob, LiveCode, Memory, MissingEntry, NmethodLayout, Span,
    Tables, Unreadable,
};

use crate::arch::{Shape, shape};
use crate::continuation::Continuations;
use crate::debug_info::DebugInfo;
use crate::method::MethodLayout;
use crate::thread::{Thread, ThreadLayout};

/// Why this JVM cannot be walked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The tables lack something.
    #[error(transparent)]
    Missing(#[from] MissingEntry),
    /// The code cache cannot be found.
    #[error(transparent)]
    CodeCache(#[from] CodeCacheError),
    /// Something that never changes cannot be read.
    #[error("cannot read what the JVM's tables point to")]
    Unreadable(#[from] Unreadable),
    /// A table says something else than what is known of frames.
    #[error("JDK {jdk} has {name} at {found}, and {expected} is understood")]
    Slot {
        /// The constant's name.
        name: &'static str,
        /// What the table says.
        found: i64,
        /// What is understood.
        expected: i64,
        /// The JDK's own version string.
        jdk: Box<str>,
    },
}

/// The reference walker of one JVM.
///
/// Making one allocates; its walks allocate nothing, lock nothing, and read through the [`Memory`] that they are given and nothing else.
#[derive(Clone, Debug)]
pub struct Reference {
    pub(crate) arch: Arch,
    pub(crate) shape: Shape,
    pub(crate) code: LiveCode,
    pub(crate) interpreter: Span,
    pub(crate) call_stub_return: Address,
    pub(crate) call_wrapper: i64,
    pub(crate) wrapper_anchor: u64,
    pub(crate) methods: MethodLayout,
    pub(crate) debug: DebugInfo,
    pub(crate) threads: ThreadLayout,
    pub(crate) continuations: Option<Continuations>,
}

impl Reference {
    /// Looks everything up. `symbol` is as for [`HotSpot::attach`]: it finds what 21 needs for continuations; without it they end a walk.
    ///
    /// # Errors
    /// [`ReferenceError`] naming what is missing.
    pub fn new(
        hotspot: &HotSpot,
        memory: &dyn Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, ReferenceError> {
        let tables = hotspot.tables();
        let arch = Arch::NATIVE;
        let shape = shape(arch);
        NmethodLayout::require_scopes(tables)?;
        check_slot(tables, "frame::interpreter_frame_sender_sp_offset", -1)?;
        let stub = tables.require("StubRoutines", "_call_stub_return_address")?;
        let wrapper = tables.constant("frame::entry_frame_call_wrapper_offset");
        Ok(Self {
            arch,
            shape,
            code: LiveCode::new(hotspot, memory)?,
            interpreter: interpreter(tables, memory)?,
            call_stub_return: memory.read_pointer(stub.address)?,
            call_wrapper: wrapper.map_or(shape.call_wrapper, |words| words * 8),
            wrapper_anchor: tables.require("JavaCallWrapper", "_anchor")?.offset,
            methods: MethodLayout::resolve(tables)?,
            debug: DebugInfo::resolve(tables, hotspot.version().feature)?,
            threads: ThreadLayout::resolve(tables)?,
            continuations: Continuations::find(hotspot, memory, symbol),
        })
    }

    /// The thread at `java_thread`, as it is now.
    ///
    /// # Errors
    /// [`Unreadable`] if there is none.
    pub fn thread<M: Memory + ?Sized>(
        &self,
        memory: &M,
        java_thread: Address,
    ) -> Result<Thread, Unreadable> {
        self.threads.read(memory, java_thread)
    }

    /// The code at `address`, as HotSpot itself looks it up. Signal-safe.
    pub fn blob_at<M: Memory + ?Sized>(&self, memory: &M, address: Address) -> Option<LiveBlob> {
        match self.code.find(memory, address) {
            CodeAt::Blob(blob) => Some(blob),
            CodeAt::Free | CodeAt::Outside | CodeAt::Unreadable => None,
        }
    }

    /// Whether `address` is where code of the JVM's making can be. Signal-safe.
    #[inline]
    #[must_use]
    pub fn is_code(&self, address: Address) -> bool {
        self.code.reserves(address)
    }

    /// The `jmethodID` of a `Method*`; `None` if it has none yet, or is no method.
    #[inline]
    pub fn id_of_method<M: Memory + ?Sized>(&self, memory: &M, method: Address) -> Option<u64> {
        self.methods.id(memory, method)
    }

    /// The `Method*` that a `jmethodID` stands for: it points to it in 11 to 25. `None` if it is unreadable or stands for none any more.
    #[inline]
    pub fn method_of_id<M: Memory + ?Sized>(&self, memory: &M, id: u64) -> Option<Address> {
        let method = memory.read_pointer(Address(id)).ok()?;
        (id != 0 && method.0 != 0).then_some(method)
    }
}

/// The interpreter's code.
fn interpreter(tables: &Tables, memory: &dyn Memory) -> Result<Span, ReferenceError> {
    let offset = |field: &str| tables.require("StubQueue", field).map(|field| field.offset);
    let queue = memory.read_pointer(tables.require("AbstractInterpreter", "_code")?.address)?;
    let at = |offset: u64| Address(queue.0.wrapping_add(offset));
    let buffer = memory.read_pointer(at(offset("_stub_buffer")?))?;
    let limit = memory.read_u32(at(offset("_buffer_limit")?))?;
    Ok(Span::sized(buffer, u64::from(limit)))
}

/// The slots of a frame are in no table, but for some: those have to be where they are thought to be.
fn check_slot(tables: &Tables, name: &'static str, expected: i64) -> Result<(), ReferenceError> {
    match tables.constant(name) {
        Some(found) if found != expected => Err(ReferenceError::Slot {
            name,
            found,
            expected,
            jdk: tables.jdk().into(),
        }),
        _ => Ok(()),
    }
}
