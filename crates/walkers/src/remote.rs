//! AsyncGetCallTrace called by one thread to walk another.
//!
//! AsyncGetCallTrace asks the C library who is walked: since 17 it takes its thread from the pthread key in which HotSpot keeps `Thread::current()`, before
//! that from the `JNIEnv` that it is given. So the walking thread holds the other's `JavaThread` in that key for the time of the call. HotSpot's own
//! thread-local variable stays as it is.
//!
//! Contract: as [`Walker`]'s. The walking thread need not be attached to the JVM. What the call changes on the walking thread (the key) and on the
//! walked one (the mark that a walk is under way) is put back when it returns and, by [`Walker::left`], when it does not. The walked `JavaThread` must
//! live until then: its thread is held, or somebody keeps it from ending.

mod arch;
mod facts;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use walkfuzz_context::Address;
use walkfuzz_record::Generation;
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Tid;

use crate::trace::TraceBuffer;
use crate::walker::{Call, Start, ThreadHandle, WalkFunction, Walker};

pub use facts::{RemoteError, RemoteFacts, agct_mark};

/// How the walked thread is named and what it does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteMode {
    /// Named by its `JNIEnv`; it waits in its handler.
    Env,
    /// Named by its kernel id, looked up in the JVM's list of threads; it waits in its handler.
    Tid,
    /// Named by its `JNIEnv`; it runs on, so that its registers and its stack are of different moments.
    Running,
}

impl RemoteMode {
    /// Every mode.
    pub const ALL: [RemoteMode; 3] = [RemoteMode::Env, RemoteMode::Tid, RemoteMode::Running];

    /// The walker's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RemoteMode::Env => "agct-remote-env",
            RemoteMode::Tid => "agct-remote-tid",
            RemoteMode::Running => "agct-remote-running",
        }
    }

    /// The mode of the walker of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether the walked thread waits while it is walked.
    #[must_use]
    pub const fn holds(self) -> bool {
        !matches!(self, RemoteMode::Running)
    }
}

/// Why there is nobody to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchThread {
    /// A kernel id that is not in the JVM's list.
    #[error("thread {0} is no Java thread of this JVM, or has ended")]
    Tid(i32),
    /// An environment whose thread is not in the JVM's list.
    #[error("the JNIEnv at {0} is stale: its thread has ended, or it never had one")]
    Env(Address),
}

/// See the module.
#[derive(Debug)]
pub struct Remote {
    facts: RemoteFacts,
    mode: RemoteMode,
    retries: AtomicU64,
    unknown: AtomicU64,
}

/// What the call needs to pass for another thread; lies in the trace's buffer, where the call finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand {
    function: WalkFunction,
    key: Option<libc::pthread_key_t>,
    /// What the walking thread has in the key.
    own: *mut c_void,
    /// The walked thread's `JavaThread`.
    walked: u64,
    /// Where that says that it is being walked; 0: unknown.
    mark: u64,
}

impl Remote {
    /// Walks in one mode.
    #[must_use]
    pub fn new(facts: RemoteFacts, mode: RemoteMode) -> Self {
        Self {
            facts,
            mode,
            retries: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// Its mode.
    #[must_use]
    pub fn mode(&self) -> RemoteMode {
        self.mode
    }

    /// How often the JVM's list of threads changed under a search, which then was made again.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }

    /// How often a thread was not in the list.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    /// The `JavaThread` that a handle names in this mode. Signal-safe.
    ///
    /// # Errors
    /// No thread of the JVM's list is the one.
    #[inline]
    pub fn walked(&self, thread: ThreadHandle) -> Result<Address, NoSuchThread> {
        let threads = &self.facts.threads;
        let (sighting, missing) = match self.mode {
            RemoteMode::Env | RemoteMode::Running => {
                let env = Address(thread.env as u64);
                let address = Address(env.0.wrapping_sub(self.facts.env_offset));
                (threads.at(&CheckedMemory, address), NoSuchThread::Env(env))
            }
            RemoteMode::Tid => (
                threads.with_tid(&CheckedMemory, Tid(thread.tid)),
                NoSuchThread::Tid(thread.tid),
            ),
        };
        if sighting.retries != 0 {
            self.retries.fetch_add(u64::from(sighting.retries), Relaxed);
        }
        sighting.thread.ok_or_else(|| {
            self.unknown.fetch_add(1, Relaxed);
            missing
        })
    }
}

/// AsyncGetCallTrace's shape; `trace` is the begin of a [`TraceBuffer`] with an errand.
unsafe extern "C" fn as_another(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own buffer, and has put an errand there.
    let Some(errand) = (unsafe { (*trace.cast::<TraceBuffer>()).errand }) else {
        return;
    };
    // SAFETY: AsyncGetCallTrace; the key is HotSpot's, and holds what it held when the call is over.
    unsafe {
        errand.pass_for(errand.walked as *mut c_void);
        (errand.function)(trace, depth, context);
        errand.pass_for(errand.own);
    }
}

impl Errand {
    /// # Safety
    /// `thread` is a `JavaThread*` or null.
    #[inline]
    unsafe fn pass_for(&self, thread: *mut c_void) {
        if let Some(key) = self.key {
            // It cannot fail: the key exists, and the start-up probe has made room for its value.
            // SAFETY: sets a word of the calling thread's.
            unsafe { libc::pthread_setspecific(key, thread) };
        }
    }
}

impl Walker for Remote {
    fn name(&self) -> &'static str {
        self.mode.name()
    }

    fn generation(&self) -> Generation {
        Generation::Agct
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let walked = self.walked(thread).ok()?;
        let call = Call::from_context(as_another, trace, depth, thread, start)?;
        trace.trace.env = (walked.0 + self.facts.env_offset) as *mut c_void;
        let own = match self.facts.key {
            // SAFETY: the key is HotSpot's.
            Some(key) => unsafe { libc::pthread_getspecific(key) },
            None => std::ptr::null_mut(),
        };
        trace.errand = Some(Errand {
            function: self.facts.function,
            key: self.facts.key,
            own,
            walked: walked.0,
            mark: self.facts.mark.map_or(0, |offset| walked.0 + offset),
        });
        Some(Call {
            // Of the whole buffer, whose first field is the trace.
            first: std::ptr::from_mut(trace).cast(),
            ..call
        })
    }

    fn passes_for_another(&self) -> bool {
        true
    }

    fn left(&self, trace: &TraceBuffer) {
        let Some(errand) = trace.errand else {
            return;
        };
        // SAFETY: what the calling thread had there; the walked JavaThread lives, as the module's contract says.
        unsafe {
            errand.pass_for(errand.own);
            if errand.mark != 0 {
                (errand.mark as *mut u8).write_volatile(0);
            }
        }
    }
}
