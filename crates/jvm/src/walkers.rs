//! What walkers need of a running JVM: what those in libraries are told, and whom RequestStackTrace's asks.
//!
//! Contract: ordinary threads that are attached to the JVM.

use std::ffi::c_void;
use std::ops::Range;

use jvmti_bindings::sys::jni::JavaVM;
use jvmti_bindings::sys::jvmti::{jvmtiEnv, jvmtiError};
use walkfuzz_walkers::{ExtensionCall, Facts, NoRequestStackTrace, RequestStackTrace};

use crate::error::JvmError;
use crate::host::{HostError, libjvm_module};
use crate::jvmti::Jvmti;

/// Why nobody can be told of a JVM, or asked.
#[derive(Debug, thiserror::Error)]
pub enum WalkersError {
    /// It lacks RequestStackTrace.
    #[error(transparent)]
    NoRequest(#[from] NoRequestStackTrace),
    /// Its library.
    #[error(transparent)]
    Host(#[from] HostError),
    /// JVMTI refuses.
    #[error(transparent)]
    Jvm(#[from] JvmError),
}

/// What a walker in a library is told of the JVM of this process.
///
/// # Errors
/// JVMTI refuses, or where the JVM was loaded from cannot be told.
///
/// # Safety
/// `java_vm` is this process's JVM, which the calling thread is attached to.
pub unsafe fn library_facts(
    java_vm: *mut JavaVM,
    feature: u32,
    async_get_call_trace: *const c_void,
    code_cache: Range<u64>,
) -> Result<Facts, WalkersError> {
    let libjvm = libjvm_module()?;
    // SAFETY: the caller's; an environment of the library's own, whose callbacks are not ours.
    let own = unsafe { Jvmti::of(java_vm)? };
    Ok(Facts {
        jvm_version: own.system_property("java.vm.version").unwrap_or_default(),
        feature,
        libjvm: libjvm.path,
        libjvm_base: libjvm.base.0,
        async_get_call_trace,
        java_vm: java_vm.cast(),
        jvmti: own.raw().cast(),
        code_cache,
    })
}

/// As JVMTI declares extension functions.
type ExtensionFunction = unsafe extern "C" fn(*mut jvmtiEnv, ...) -> jvmtiError;

impl Jvmti {
    /// The walker that asks this JVM with RequestStackTrace.
    ///
    /// # Errors
    /// The JVM does not offer it.
    pub fn requester(self) -> Result<RequestStackTrace, WalkersError> {
        let found = self.extension_function(RequestStackTrace::FUNCTION)?;
        let function = found.ok_or(NoRequestStackTrace)?.function;
        // SAFETY: both begin with a pointer, take more behind it and return a 32-bit error.
        let function = unsafe { std::mem::transmute::<ExtensionFunction, ExtensionCall>(function) };
        // SAFETY: this JVM's own, as JVMTI shows it; environment and function stay.
        Ok(unsafe { RequestStackTrace::new(function, self.raw().cast()) })
    }
}
