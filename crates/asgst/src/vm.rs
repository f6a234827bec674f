//! The JVM that the functions answer for: one per process, made known once it has started.
//!
//! Contract: [`Vm::publish`] is not for handlers; [`Vm::get`] and the methods that say so are signal-safe.

use std::ptr;
use std::sync::OnceLock;

use jvmti_bindings::sys::jni::{JNI_VERSION_1_6, JNIEnv, JavaVM};
use walkfuzz_context::Address;
use walkfuzz_jvm::{JvmError, Jvmti};
use walkfuzz_reference::{CheckedMemory, Reference, ReferenceError};
use walkfuzz_vmstructs::{HotSpot, MissingEntry, ThreadSearch};

use crate::methods::MethodTables;
use crate::thread::ThreadFields;

/// See the module.
#[derive(Debug)]
pub struct Vm {
    /// The walker.
    pub reference: Reference,
    /// The JVM's structures.
    pub hotspot: HotSpot,
    /// Looks for threads in its list.
    pub threads: ThreadSearch,
    /// From a `JavaThread` to its `JNIEnv`.
    pub env_offset: u64,
    /// Its JVMTI.
    pub jvmti: Jvmti,
    pub(crate) thread_fields: ThreadFields,
    pub(crate) methods: MethodTables,
    java_vm: *mut JavaVM,
}

// SAFETY: a JavaVM may be used by any thread; everything else is plain data.
unsafe impl Send for Vm {}
// SAFETY: as above.
unsafe impl Sync for Vm {}

static VM: OnceLock<Vm> = OnceLock::new();

/// Why the functions cannot answer for this JVM.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The walker does not understand it.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Its tables lack something.
    #[error(transparent)]
    Missing(#[from] MissingEntry),
    /// The calling thread's `JNIEnv` lies in no `JavaThread`.
    #[error("the calling thread's JNIEnv lies in no JavaThread of this JVM")]
    NotAttached,
}

impl Vm {
    /// Makes the process's JVM known, once it has started. `symbol` is as for [`HotSpot::attach`], `env_offset` leads from a `JavaThread` to its `JNIEnv`.
    /// The guard must have been installed ([`walkfuzz_guard::Guard::install`]). A second call changes nothing.
    ///
    /// # Errors
    /// [`VmError`].
    ///
    /// # Safety
    /// `java_vm` and `jvmti` are this process's JVM's.
    pub unsafe fn publish(
        hotspot: &HotSpot,
        symbol: &dyn Fn(&str) -> Option<u64>,
        java_vm: *mut JavaVM,
        jvmti: Jvmti,
        env_offset: u64,
    ) -> Result<&'static Self, VmError> {
        if !(1..1 << 16).contains(&env_offset) {
            return Err(VmError::NotAttached);
        }
        if VM.get().is_none() {
            let vm = Vm {
                reference: Reference::new(hotspot, &CheckedMemory, symbol)?,
                hotspot: hotspot.clone(),
                thread_fields: ThreadFields::resolve(hotspot.tables())?,
                methods: MethodTables::resolve(hotspot)?,
                threads: ThreadSearch::new(hotspot.threads()),
                env_offset,
                jvmti,
                java_vm,
            };
            VM.get_or_init(|| vm);
        }
        Self::get().ok_or(VmError::NotAttached)
    }

    /// The process's JVM; `None` before it was made known. Signal-safe.
    #[inline]
    pub fn get() -> Option<&'static Self> {
        VM.get()
    }

    /// A JVMTI environment of one's own. Not for handlers.
    ///
    /// # Errors
    /// The JVM offers none.
    pub fn new_jvmti(&self) -> Result<Jvmti, JvmError> {
        // SAFETY: the JVM lives as long as the process.
        unsafe { Jvmti::of(self.java_vm) }
    }

    /// The calling thread's `JNIEnv`; `None` for a thread that is none of Java's. Signal-safe: HotSpot looks at a thread-local variable of its own.
    #[inline]
    #[must_use]
    pub fn own_env(&self) -> Option<*mut JNIEnv> {
        let mut env: *mut JNIEnv = ptr::null_mut();
        // SAFETY: the JVM lives as long as the process; GetEnv writes a JNIEnv for a JNI version.
        let code = unsafe {
            ((**self.java_vm).GetEnv)(
                self.java_vm,
                ptr::from_mut(&mut env).cast(),
                JNI_VERSION_1_6,
            )
        };
        (code == 0 && !env.is_null()).then_some(env)
    }

    /// The calling thread's `JavaThread`; `None` for a thread that is none of Java's. Signal-safe.
    #[inline]
    #[must_use]
    pub fn own_java_thread(&self) -> Option<Address> {
        let env = self.own_env()?;
        Some(Address((env as u64).wrapping_sub(self.env_offset)))
    }
}
