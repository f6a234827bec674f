//! Walkers from shared libraries: the C ABI of `include/walkfuzz_walker.h`.
//!
//! A library is refused with one sentence ([`PluginError`]), after a first try in a forked copy. In its walks, calls of functions that allocate or
//! lock are noticed (see `watch`). Loading is for ordinary threads; walking is signal-safe as far as the library is.

pub mod abi;
mod describe;
mod error;
mod imports;
mod load;
mod remote;
mod trial;
mod watch;

use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;

use walkfuzz_record::{Code, Generation};

use crate::trace::{Frame, TraceBuffer};
use crate::walker::{Call, Methods, Start, ThreadHandle, WalkFunction, Walker};
use abi::{RawFacts, RawThread, RawWalker};

pub use describe::check_name;
pub use error::PluginError;
pub use load::{Library, PluginPath};
pub use remote::{Manner, PluginRemote};

/// What a library is told about the JVM in this process.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `java.vm.version`.
    pub jvm_version: String,
    /// Its feature release.
    pub feature: u32,
    /// The libjvm that is loaded.
    pub libjvm: PathBuf,
    /// Where its first byte is mapped.
    pub libjvm_base: u64,
    /// Its `AsyncGetCallTrace`.
    pub async_get_call_trace: *const c_void,
    /// `JavaVM*`.
    pub java_vm: *mut c_void,
    /// `jvmtiEnv*`, or null.
    pub jvmti: *mut c_void,
    /// The reserved code cache.
    pub code_cache: std::ops::Range<u64>,
}

impl Facts {
    /// As libraries get it; its texts stay for the process's life.
    fn to_raw(&self, log: unsafe extern "C" fn(*const c_char)) -> RawFacts {
        let keep = |text: &str| CString::new(text).unwrap_or_default().into_raw();
        RawFacts {
            abi: abi::ABI,
            size: size_of::<RawFacts>() as u32,
            jvm_version: keep(&self.jvm_version),
            feature: self.feature,
            libjvm_path: keep(&self.libjvm.to_string_lossy()),
            libjvm_base: self.libjvm_base as usize,
            async_get_call_trace: self.async_get_call_trace,
            java_vm: self.java_vm,
            jvmti: self.jvmti,
            code_cache_low: self.code_cache.start as usize,
            code_cache_high: self.code_cache.end as usize,
            log,
        }
    }
}

/// A walker from a shared library. The library stays loaded.
#[derive(Clone, Debug)]
pub struct Plugin {
    raw: RawWalker,
    name: &'static str,
    version: String,
    generation: Generation,
    codes: Vec<(Code, String)>,
    methods: Methods,
    watched: u32,
}

/// What a walk of a library needs beside trace, depth and context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PluginCall {
    raw: RawWalker,
    thread: RawThread,
    frame: [u64; 3],
}

impl Plugin {
    /// Loads, checks and initialises the library.
    ///
    /// # Errors
    /// Why it cannot be a walker here.
    pub fn load(path: &PluginPath, facts: &Facts) -> Result<Self, PluginError> {
        Library::open(path)?.start(facts)
    }

    fn of(library: Library) -> Self {
        Self {
            raw: library.raw,
            name: Box::leak(library.name.into_boxed_str()),
            version: library.version,
            generation: library.generation,
            codes: library.codes,
            methods: library.methods,
            watched: library.watched,
        }
    }

    /// What the guard calls for one walk of `thread`, whose arguments lie in the buffer.
    #[inline]
    fn call(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        (function, last): (WalkFunction, *mut c_void),
        frame: [u64; 3],
    ) -> Call {
        let depth = trace.reset(depth);
        trace.trace.env = thread.env;
        trace.plugin = Some(PluginCall {
            raw: self.raw,
            thread: RawThread {
                env: thread.env,
                tid: thread.tid,
            },
            frame,
        });
        Call {
            function,
            first: std::ptr::from_mut(trace).cast(),
            depth,
            last,
        }
    }

    /// How many imports of allocating and locking functions the library has, all of which are watched. A library without any is not proven to do without:
    /// it may make system calls, or have other libraries do it.
    #[must_use]
    pub fn watched_imports(&self) -> u32 {
        self.watched
    }
}

/// What the guard calls.
unsafe extern "C" fn walk(buffer: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its buffer, with the call in it.
    unsafe {
        enter(buffer.cast(), |call, frames| {
            call.raw.walk.map_or(0, |walk| {
                walk(&raw const call.thread, context, depth, frames)
            })
        });
    }
}

/// What the guard calls for a walk that begins at a frame.
unsafe extern "C" fn walk_from_frame(buffer: *mut c_void, depth: i32, _: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        enter(buffer.cast(), |call, frames| {
            let [sp, fp, pc] = call.frame.map(|word| word as usize);
            call.raw.walk_from_frame.map_or(0, |walk| {
                walk(&raw const call.thread, sp, fp, pc, depth, frames)
            })
        });
    }
}

/// # Safety
/// `buffer` is valid and has a call.
#[inline]
unsafe fn enter(buffer: *mut TraceBuffer, walk: impl FnOnce(&PluginCall, *mut Frame) -> i32) {
    // SAFETY: the caller's.
    unsafe {
        let Some(call) = (*buffer).plugin else {
            return;
        };
        let watched = watch::Walk::begin();
        let num_frames = walk(&call, (*buffer).trace.frames);
        (*buffer).note(watched.end());
        (*buffer).trace.num_frames = num_frames;
    }
}

impl Walker for Plugin {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn code_names(&self) -> &[(Code, String)] {
        &self.codes
    }

    fn methods(&self) -> Methods {
        self.methods
    }

    fn version(&self) -> Option<&str> {
        Some(&self.version)
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let (way, frame): ((WalkFunction, _), _) = match start {
            Start::Context(context) => ((walk, context), [0; 3]),
            Start::Frame { sp, fp, pc } => {
                self.raw.walk_from_frame?;
                ((walk_from_frame, std::ptr::null_mut()), [sp, fp, pc])
            }
        };
        Some(self.call(trace, depth, thread, way, frame))
    }

    fn left(&self, _: &TraceBuffer) {
        watch::left();
    }
}
