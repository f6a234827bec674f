//! What must be known of a JVM before its threads can be walked from others: found once, each thing checked.

use std::ffi::c_void;

use walkfuzz_context::Address;
use walkfuzz_guard::{
    Fault, GuardError, register_thread, take_fault_signals_only, unregister_thread,
};
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::{Memory as _, ThreadSearch};

use super::{Remote, RemoteMode, arch};
use crate::trace::TraceBuffer;
use crate::walked::{Ended, walk_guarded};
use crate::walker::{Start, ThreadHandle, WalkFunction, Walker as _};

/// glibc's PTHREAD_KEYS_MAX.
const KEYS: libc::pthread_key_t = 1024;
/// `ticks_thread_exit`: what AsyncGetCallTrace answers where it does not know its thread.
const NOT_A_JAVA_THREAD: i32 = -8;
/// AsyncGetCallTrace is 500 to 550 bytes long; what it marks the thread with stands before its switch over thread states.
const CODE_BYTES: usize = 0x180;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct RemoteFacts {
    pub(super) function: WalkFunction,
    /// The key that must hold the walked thread's `JavaThread`; `None` where the JVM does not ask for it.
    pub(super) key: Option<libc::pthread_key_t>,
    /// From a `JavaThread` to its `JNIEnv`.
    pub(super) env_offset: u64,
    /// From a `JavaThread` to the byte that says that it is being walked; `None` where there is none.
    pub(super) mark: Option<u64>,
    pub(super) threads: ThreadSearch,
}

/// Why threads of this JVM cannot be walked from others.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The calling thread's environment is not in its `JavaThread`.
    #[error(
        "cannot walk other threads: the calling thread is not attached, or its JNIEnv lies in no JavaThread"
    )]
    NotAttached,
    /// No pthread key, or more than one, holds the calling thread's `JavaThread`.
    #[error(
        "cannot walk other threads: {0} pthread keys hold this thread's JavaThread, and one is wanted"
    )]
    Keys(usize),
    /// The probe's walk does not know its thread, whatever is done.
    #[error("cannot walk other threads: AsyncGetCallTrace answers {0} when another thread asks it")]
    Refused(i32),
    /// The probe's walk faulted.
    #[error("cannot walk other threads: the first such walk faulted at {0}")]
    Faulted(Address),
    /// No crash protection for the probe.
    #[error("cannot walk other threads: {0}")]
    Guard(#[from] GuardError),
    /// No thread for the probe.
    #[error("cannot walk other threads: no thread could be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl RemoteFacts {
    /// Finds everything out, on an attached thread whose `JNIEnv` and `JavaThread` are given. The guard must have been installed. A thread is started
    /// that walks the calling one, first without and then with the key: what it answers decides whether the key must be set.
    ///
    /// # Errors
    /// [`RemoteError`].
    ///
    /// # Safety
    /// `function` is AsyncGetCallTrace of the JVM in this process, `env` and `java_thread` those of the calling thread, which is not in Java code.
    pub unsafe fn find(
        function: *const c_void,
        env: *mut c_void,
        java_thread: u64,
        threads: ThreadSearch,
    ) -> Result<Self, RemoteError> {
        let env_offset = (env as u64).wrapping_sub(java_thread);
        if !(1..1 << 16).contains(&env_offset) {
            return Err(RemoteError::NotAttached);
        }
        let mut facts = Self {
            // SAFETY: the caller promises that this is AsyncGetCallTrace(ASGCT_CallTrace*, jint, void*).
            function: unsafe { std::mem::transmute::<*const c_void, WalkFunction>(function) },
            key: None,
            env_offset,
            // SAFETY: the caller's promise.
            mark: unsafe { agct_mark(function, java_thread) },
            threads,
        };
        if facts.probe(env)? != NOT_A_JAVA_THREAD {
            return Ok(facts);
        }
        facts.key = Some(key_of(java_thread)?);
        match facts.probe(env)? {
            NOT_A_JAVA_THREAD => Err(RemoteError::Refused(NOT_A_JAVA_THREAD)),
            _ => Ok(facts),
        }
    }

    /// Whether the walking thread must hold the walked one in the JVM's key.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.key.is_some()
    }

    /// Whether it is known where a thread says that it is being walked.
    #[must_use]
    pub fn knows_mark(&self) -> bool {
        self.mark.is_some()
    }

    /// What a walk of the calling thread gives that another thread makes.
    fn probe(&self, env: *mut c_void) -> Result<i32, RemoteError> {
        let remote = Remote::new(*self, RemoteMode::Env);
        let env = env as usize;
        let answer = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("walkfuzz-probe".to_owned());
            let probe = builder.spawn_scoped(scope, || answer(&remote, env))?;
            Ok(probe.join().unwrap_or(Err(RemoteError::NotAttached)))
        });
        answer.map_err(RemoteError::Thread)?
    }
}

/// From a `JavaThread` to the byte by which AsyncGetCallTrace says that the thread is being walked, read from its code; `None` where there is none.
///
/// # Safety
/// `function` is AsyncGetCallTrace of the JVM in this process, `java_thread` a thread of its that nobody walks now.
#[must_use]
pub unsafe fn agct_mark(function: *const c_void, java_thread: u64) -> Option<u64> {
    // SAFETY: libjvm's code, of which AsyncGetCallTrace has more than so many bytes.
    let code = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), CODE_BYTES) };
    let unmarked = |offset: &u64| CheckedMemory.read_u8(Address(java_thread + offset)) == Ok(0);
    arch::first_byte_set_to_one(code).filter(unmarked)
}

/// On the probing thread.
fn answer(remote: &Remote, env: usize) -> Result<i32, RemoteError> {
    take_fault_signals_only();
    let slot = register_thread()?;
    let mut trace = TraceBuffer::new();
    let mut fault = Fault::NONE;
    // SAFETY: all-zero is a valid ucontext_t. A thread that is not in Java is walked from its frame anchor.
    let mut context: Box<libc::ucontext_t> = Box::new(unsafe { std::mem::zeroed() });
    let thread = ThreadHandle {
        env: env as *mut c_void,
        tid: 0,
    };
    let start = Start::Context((&raw mut *context).cast());
    let call = remote.prepare(&mut trace, 16, thread, start);
    let ended = call.map(|call| {
        // SAFETY: this thread's slot, and the walker's own call.
        unsafe { walk_guarded(slot, remote, &call, &trace, &mut fault) }.ended
    });
    // A slot that is not given back is reaped once this thread is gone.
    let _ = unregister_thread();
    match ended {
        Some(Ended::Returned(code) | Ended::Overran(code) | Ended::Broke(_, code)) => Ok(code.0),
        Some(Ended::Faulted) => Err(RemoteError::Faulted(Address(fault.pc().0))),
        None => Err(RemoteError::NotAttached),
    }
}

/// The one key in which the calling thread, a Java thread, holds its `JavaThread`.
fn key_of(java_thread: u64) -> Result<libc::pthread_key_t, RemoteError> {
    // SAFETY: glibc answers null for keys that do not exist.
    let holds = |key: &libc::pthread_key_t| unsafe {
        libc::pthread_getspecific(*key) as u64 == java_thread
    };
    let mut keys = (0..KEYS).filter(holds);
    match (keys.next(), keys.count()) {
        (Some(key), 0) => Ok(key),
        (None, _) => Err(RemoteError::Keys(0)),
        (Some(_), more) => Err(RemoteError::Keys(1 + more)),
    }
}
