//! From the JVM's first call to the moment when the functions answer.
//!
//! Our JVMTI environment is made before that of a profiler which is loaded later, so our VMInit comes before its own: whatever it does from there on
//! finds the functions ready.
//!
//! Contract: runs in JVMTI's callbacks, on threads of the JVM.

use std::sync::{Mutex, OnceLock, PoisonError};

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM, jclass, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_THREAD_END, JVMTI_EVENT_VM_INIT,
    jvmtiEnv, jvmtiEventCallbacks,
};
use walkfuzz_asgst::{Vm, VmError, queue};
use walkfuzz_context::Address;
use walkfuzz_guard::{Guard, GuardError, GuardOptions};
use walkfuzz_jvm::{HostError, HostJvm, JvmError, Jvmti, Libjvm, libjvm_module};

/// Why the functions cannot be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this agent takes no options")]
    Options,
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Jvm(#[from] JvmError),
    #[error("cannot set up crash protection: {0}")]
    Guard(#[from] GuardError),
    #[error("cannot walk this JVM: {0}")]
    Vm(#[from] VmError),
    #[error("this JVM does not say which thread is which")]
    NoIdentity,
}

/// What was made before the JVM has started.
struct Prepared {
    java_vm: *mut JavaVM,
    libjvm: Libjvm,
}

// SAFETY: both may be used by any thread.
unsafe impl Send for Prepared {}

static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);
static JVMTI: OnceLock<Jvmti> = OnceLock::new();
static GUARD: OnceLock<Guard> = OnceLock::new();

/// At the JVM's start.
///
/// # Safety
/// `vm` is the JVM's, in its OnLoad phase.
pub(crate) unsafe fn load(vm: *mut JavaVM, has_options: bool) -> Result<(), Refusal> {
    if has_options {
        return Err(Refusal::Options);
    }
    // SAFETY: the caller's.
    let (libjvm, jvmti) = unsafe { (Libjvm::of(vm)?, Jvmti::of(vm)?) };
    let mut callbacks = jvmtiEventCallbacks::default();
    callbacks.VMInit = Some(vm_init);
    callbacks.ThreadEnd = Some(thread_end);
    callbacks.ClassLoad = Some(class_load);
    callbacks.ClassPrepare = Some(class_prepare);
    // SAFETY: functions of this library, which stays loaded.
    unsafe { jvmti.set_callbacks(&callbacks)? };
    for event in [
        JVMTI_EVENT_VM_INIT,
        JVMTI_EVENT_THREAD_END,
        JVMTI_EVENT_CLASS_LOAD,
        JVMTI_EVENT_CLASS_PREPARE,
    ] {
        jvmti.enable(event)?;
    }
    let _ = JVMTI.set(jvmti);
    let prepared = Prepared {
        java_vm: vm,
        libjvm,
    };
    *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
    Ok(())
}

/// Begins, in a JVM that has started.
///
/// # Safety
/// `env` is that of the calling thread.
unsafe fn go(jvmti: Jvmti, env: *mut JNIEnv, prepared: &Prepared) -> Result<(), Refusal> {
    // Behind the JVM's handlers, which are in place by now.
    let _ = GUARD.set(Guard::install(GuardOptions::default())?);
    let libjvm = libjvm_module()?;
    let vm = HostJvm::attach(prepared.libjvm, &libjvm, false)?;
    let own = vm.own_java_thread().ok_or(Refusal::NoIdentity)?;
    let symbol = |name: &str| libjvm.address_of(name);
    let env_offset = (env as u64).wrapping_sub(own);
    // SAFETY: this JVM's, and this thread's.
    unsafe {
        let vm = Vm::publish(&vm.hotspot, &symbol, prepared.java_vm, jvmti, env_offset)?;
        jvmti.make_all_ids(env, &mut |_| ())?;
        // Everything else works without; the capability says that it is missing.
        if let Err(error) = queue::prepare(vm, &symbol, Address(own)) {
            eprintln!("walkfuzz-asgst: no safepoint queues: {error}");
        }
    }
    Ok(())
}

unsafe extern "system" fn vm_init(_: *mut jvmtiEnv, env: *mut JNIEnv, _: jthread) {
    let prepared = PREPARED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (Some(prepared), Some(jvmti)) = (prepared, JVMTI.get()) else {
        return;
    };
    // SAFETY: JVMTI's arguments.
    if let Err(refusal) = unsafe { go(*jvmti, env, &prepared) } {
        eprintln!("walkfuzz-asgst: {refusal}");
        // The JVM cannot be told any more, and must not go on as if somebody answered its profiler.
        std::process::exit(1);
    }
}

unsafe extern "system" fn thread_end(_: *mut jvmtiEnv, _: *mut JNIEnv, _: jthread) {
    if let Some(thread) = Vm::get().and_then(Vm::own_java_thread) {
        queue::thread_ended(thread);
    }
}

/// Wanted so that AsyncGetCallTrace works beside us: it answers nothing while nobody listens.
unsafe extern "system" fn class_load(_: *mut jvmtiEnv, _: *mut JNIEnv, _: jthread, _: jclass) {}

unsafe extern "system" fn class_prepare(
    jvmti: *mut jvmtiEnv,
    _: *mut JNIEnv,
    _: jthread,
    class: jclass,
) {
    // SAFETY: JVMTI calls this on an attached thread with its own environment and a valid reference.
    unsafe { Jvmti::from_raw(jvmti).make_ids(class, &mut |_| ()) };
}
