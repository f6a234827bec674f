//! Walkers of a session's JVM for which something must be asked of JVMTI.

use walkfuzz_jvm::{Jvm, Jvmti, library_facts};
use walkfuzz_walkers::{Plugin, PluginPath, RequestStackTrace};

use crate::error::HarnessError;
use crate::world::World;

/// Loads the library, and tells it what is known of the JVM.
///
/// # Errors
/// Why it cannot walk here.
pub(crate) fn load(path: &PluginPath, jvm: &Jvm, world: &World) -> Result<Plugin, HarnessError> {
    let async_get_call_trace = jvm.exported("AsyncGetCallTrace").ok_or_else(|| {
        HarnessError::VmStructs("libjvm does not export AsyncGetCallTrace".to_owned())
    })?;
    let code_cache = world.code_cache()?;
    // Attached, because JVMTI is for such threads alone, in `init` as well.
    jvm.with_env("load a walker", |_| {
        let java_vm = jvm.java_vm().get_raw().cast();
        let feature = jvm.jdk().version.feature();
        // SAFETY: the JVM of this process, which lives as long; this thread is attached.
        let facts = unsafe { library_facts(java_vm, feature, async_get_call_trace, code_cache) };
        Ok(facts
            .map_err(HarnessError::from)
            .and_then(|facts| Ok(Plugin::load(path, &facts)?)))
    })?
}

/// The walker that asks with RequestStackTrace.
///
/// # Errors
/// This JVM does not offer it.
pub(crate) fn requester(jvm: &Jvm) -> Result<RequestStackTrace, HarnessError> {
    jvm.with_env("ask for RequestStackTrace", |_| {
        // SAFETY: the JVM of this process, which lives as long; this thread is attached.
        let jvmti = unsafe { Jvmti::of(jvm.java_vm().get_raw().cast()) };
        Ok(jvmti
            .map_err(HarnessError::from)
            .and_then(|jvmti| Ok(jvmti.requester()?)))
    })?
}
