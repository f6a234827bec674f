//! What a walker in a library is told of the JVM that is sampled.
//!
//! Contract: not for handlers.

use std::ffi::c_void;

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM};
use walkfuzz_jvm::{HostError, HostJvm, Jvmti};
use walkfuzz_symbols::Modules;
use walkfuzz_walkers::Facts;

use crate::lifecycle::Refusal;

/// What a walker in a library is told.
///
/// # Safety
/// `env` is that of the calling thread.
pub(crate) unsafe fn facts(
    jvmti: Jvmti,
    env: *mut JNIEnv,
    vm: &HostJvm,
    async_get_call_trace: *const c_void,
) -> Result<Facts, Refusal> {
    let no_library = || HostError::NoLibrary("it is not among the modules".to_owned());
    let modules =
        Modules::of_this_process().map_err(|error| HostError::NoLibrary(error.to_string()))?;
    let libjvm = modules.by_name("libjvm.so").ok_or_else(no_library)?;
    let mut java_vm: *mut JavaVM = std::ptr::null_mut();
    // SAFETY: the caller's; an environment of the library's own, whose callbacks are not ours.
    let own = unsafe {
        ((**env).GetJavaVM)(env, &raw mut java_vm);
        Jvmti::of(java_vm)?
    };
    Ok(Facts {
        jvm_version: jvmti.system_property("java.vm.version").unwrap_or_default(),
        feature: vm.hotspot.version().feature,
        libjvm: libjvm.path.clone(),
        libjvm_base: libjvm.base.0,
        async_get_call_trace,
        java_vm: java_vm.cast(),
        jvmti: own.raw().cast(),
        code_cache: vm.facts.code.clone(),
    })
}
