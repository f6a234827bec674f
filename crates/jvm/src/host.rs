//! The JVM that an agent is in: what it exports, and what its tables say.
//!
//! Contract: not for handlers; [`HostFacts`] is what handlers need of it.

use std::ffi::{CStr, c_void};
use std::ops::Range;

use jvmti_bindings::sys::jni::JavaVM;
use walkfuzz_context::BlobKind;
use walkfuzz_guard::SafeFetchSite;
use walkfuzz_symbols::{Module, Modules};
use walkfuzz_vmstructs::{CodeCache, CodeMap, HotSpot, LiveMemory, Maps, Span, ThreadSearch, Tid};

use crate::protection::{ask_jvm_at_safefetch, tell_guard};

/// What a handler needs of the JVM.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// From a `JavaThread` to its `_thread_state`.
    pub state_offset: u64,
    /// The value of `_thread_in_Java`.
    pub in_java: u32,
    /// The code cache's reserved range.
    pub code: Range<u64>,
}

impl HostFacts {
    /// Whether a thread executes Java code. Signal-safe.
    ///
    /// # Safety
    /// `java_thread` is a `JavaThread` that lives.
    #[inline]
    #[must_use]
    pub unsafe fn is_in_java(&self, java_thread: u64) -> bool {
        let state = java_thread.wrapping_add(self.state_offset);
        // SAFETY: the caller's promise.
        unsafe { (state as *const u32).read_volatile() == self.in_java }
    }
}

/// What of the JVM can be had once it has started.
#[derive(Debug)]
pub struct HostJvm {
    /// For handlers.
    pub facts: HostFacts,
    /// Its structures.
    pub hotspot: HotSpot,
    /// The process's mappings as they were.
    pub maps: Maps,
    /// The JVM's loads that may fault; known if walks are guarded.
    pub safefetch: Vec<SafeFetchSite>,
    libjvm_text: Option<Span>,
}

/// Why the JVM cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Where it was loaded from cannot be told.
    #[error("this JVM's library cannot be found: {0}")]
    NoLibrary(String),
    /// A function that every HotSpot exports is missing.
    #[error("this JVM has no {0}: it is no HotSpot that can be walked")]
    NoSymbol(&'static str),
    /// Its tables cannot be read.
    #[error("cannot read this JVM's structures: {0}")]
    Structures(String),
    /// The guard refuses.
    #[error("cannot set up crash protection: {0}")]
    Guard(#[from] walkfuzz_guard::GuardError),
}

/// libjvm, found through a function of the JavaVM.
#[derive(Clone, Copy, Debug)]
pub struct Libjvm(*mut c_void);

impl Libjvm {
    /// Where the JVM's code is.
    ///
    /// # Errors
    /// The loader does not know it.
    ///
    /// # Safety
    /// `vm` is a JVM's.
    pub unsafe fn of(vm: *mut JavaVM) -> Result<Self, HostError> {
        // SAFETY: the caller's promise; the rest is plain data.
        unsafe {
            let function = (**vm).GetEnv as *const c_void;
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(function, &raw mut info) == 0 || info.dli_fname.is_null() {
                return Err(HostError::NoLibrary("dladdr does not know it".to_owned()));
            }
            let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                let name = CStr::from_ptr(info.dli_fname).to_string_lossy();
                return Err(HostError::NoLibrary(name.into_owned()));
            }
            Ok(Self(handle))
        }
    }

    /// The address of something it exports.
    ///
    /// # Errors
    /// It exports nothing of this name.
    pub fn symbol(self, name: &'static CStr) -> Result<*const c_void, HostError> {
        // SAFETY: a handle that is never closed.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            return Err(HostError::NoSymbol(name.to_str().unwrap_or("symbol")));
        }
        Ok(address.cast_const())
    }
}

/// libjvm as a file that is mapped, with its symbols, which are read on first use and kept as long as this.
///
/// # Errors
/// It is not among this process's modules.
pub fn libjvm_module() -> Result<Module, HostError> {
    let modules = Modules::of_this_process().map_err(|e| HostError::NoLibrary(e.to_string()))?;
    let found = modules.by_name("libjvm.so").cloned();
    found.ok_or_else(|| HostError::NoLibrary("it is not among the modules".to_owned()))
}

impl HostJvm {
    /// Reads what can be read, and tells the guard, if it is to protect walks. `module` is [`libjvm_module`].
    ///
    /// # Errors
    /// It is no HotSpot that can be walked.
    pub fn attach(libjvm: Libjvm, module: &Module, guarded: bool) -> Result<Self, HostError> {
        let structures = |error: String| HostError::Structures(error);
        let mut safefetch = Vec::new();
        if guarded {
            safefetch = tell_guard(module)?.safefetch;
            let handler = libjvm.symbol(c"JVM_handle_linux_signal")?;
            // SAFETY: this JVM's own.
            unsafe { ask_jvm_at_safefetch(handler) };
        }
        let symbol = |name: &str| module.address_of(name);
        let memory = LiveMemory::new();
        let hotspot = HotSpot::attach(&memory, &symbol).map_err(|e| structures(e.to_string()))?;
        let maps = Maps::read_own().map_err(|e| structures(e.to_string()))?;
        let cache = CodeCache::read(&hotspot, &memory).map_err(|e| structures(e.to_string()))?;
        let heaps = || cache.heaps.iter().map(|heap| heap.reserved);
        let low = heaps().map(|heap| heap.start.0).min();
        let high = heaps().map(|heap| heap.end.0).max();
        let (Some(low), Some(high)) = (low, high) else {
            return Err(structures("there is no code heap".to_owned()));
        };
        let tables = hotspot.tables();
        let state = tables
            .require("JavaThread", "_thread_state")
            .map_err(|e| structures(e.to_string()))?;
        let facts = HostFacts {
            state_offset: state.offset,
            in_java: tables.constant("_thread_in_Java").unwrap_or(8) as u32,
            code: low..high,
        };
        Ok(Self {
            facts,
            safefetch,
            libjvm_text: maps.text_of("libjvm.so"),
            hotspot,
            maps,
        })
    }

    /// The calling thread's `JavaThread`; `None` for a thread that the JVM does not know.
    #[must_use]
    pub fn own_java_thread(&self) -> Option<u64> {
        // SAFETY: no arguments.
        let here = unsafe { libc::gettid() };
        let search = ThreadSearch::new(self.hotspot.threads());
        let found = search.with_tid(&LiveMemory::new(), Tid(here));
        found.thread.map(|thread| thread.0)
    }

    /// What code lies where now; `None` at a bad moment.
    #[must_use]
    pub fn code_map(&self) -> Option<Box<CodeMap>> {
        let cache = CodeCache::read(&self.hotspot, &LiveMemory::new()).ok()?;
        let map = CodeMap::new(cache, self.libjvm_text);
        // A map that knows no interpreter was read at a bad moment.
        let codelet = map.cache().codelets.first()?.span.start;
        (map.kind(codelet) == BlobKind::Interpreter).then(|| Box::new(map))
    }
}
