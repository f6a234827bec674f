//! ASGST's functions as walkers of samples: walkfuzz's own, in the sampled JVM.
//!
//! Contract: not for handlers; the walkers are.

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM};
use walkfuzz_asgst::api::{IteratorApi, Jep435Api};
use walkfuzz_asgst::{IteratorWalker, Jep435Walker, Vm, queue};
use walkfuzz_context::Address;
use walkfuzz_jvm::{HostJvm, Jvmti};
use walkfuzz_record::Generation;
use walkfuzz_symbols::Module;
use walkfuzz_walkers::Walker;

use crate::queue::EnqueueWalker;
use crate::refusal::Refusal;

/// Which of them walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsgstWalk {
    /// `RunWithIterator`.
    Iterator,
    /// `AsyncGetStackTrace` of JEP 435, late ABI.
    Jep435,
    /// `Enqueue`, and iterators at the next safepoint.
    Queue,
}

impl AsgstWalk {
    const ALL: [AsgstWalk; 3] = [AsgstWalk::Iterator, AsgstWalk::Jep435, AsgstWalk::Queue];

    /// The one of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|walk| walk.name() == name)
    }

    /// The walker's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AsgstWalk::Iterator => "asgst-iterator",
            AsgstWalk::Jep435 => "asgst-jep435",
            AsgstWalk::Queue => "asgst-queue",
        }
    }

    /// Whose codes it speaks.
    pub(crate) const fn generation(self) -> Generation {
        match self {
            AsgstWalk::Iterator | AsgstWalk::Queue => Generation::AsgstIterator,
            AsgstWalk::Jep435 => Generation::AsgstLate,
        }
    }

    /// The walker, once the JVM was [`publish`]ed.
    pub(crate) fn walker(self) -> &'static dyn Walker {
        match self {
            AsgstWalk::Iterator => Box::leak(Box::new(IteratorWalker::new(IteratorApi::own()))),
            AsgstWalk::Jep435 => Box::leak(Box::new(Jep435Walker::new(Jep435Api::own()))),
            AsgstWalk::Queue => &EnqueueWalker,
        }
    }
}

/// Makes the JVM known to the functions, and queues possible if `walk` wants them. A second call changes nothing.
///
/// # Safety
/// `env` is that of the calling thread, and `jvmti` its JVM's; the guard is installed.
pub(crate) unsafe fn publish(
    walk: AsgstWalk,
    vm: &HostJvm,
    libjvm: &Module,
    jvmti: Jvmti,
    env: *mut JNIEnv,
) -> Result<(), Refusal> {
    let own = vm.own_java_thread().ok_or(Refusal::NoIdentity)?;
    let symbol = |name: &str| libjvm.address_of(name);
    let env_offset = (env as u64).wrapping_sub(own);
    let mut java_vm: *mut JavaVM = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        ((**env).GetJavaVM)(env, &raw mut java_vm);
        let published = Vm::publish(&vm.hotspot, &symbol, java_vm, jvmti, env_offset)?;
        if walk == AsgstWalk::Queue {
            queue::prepare(published, &symbol, Address(own))?;
        }
    }
    Ok(())
}
