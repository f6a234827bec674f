//! A walker from a shared library, in a session's JVM.

use walkfuzz_jvm::{Jvm, Jvmti};
use walkfuzz_walkers::{Facts, Plugin, PluginPath};

use crate::error::HarnessError;
use crate::world::World;

/// Loads the library, and tells it what is known of the JVM.
///
/// # Errors
/// Why it cannot walk here.
pub(crate) fn load(path: &PluginPath, jvm: &Jvm, world: &World) -> Result<Plugin, HarnessError> {
    // Attached, because JVMTI is for such threads alone, in `init` as well.
    jvm.with_env("load a walker", |_| {
        // SAFETY: the JVM of this process, which lives as long; this thread is attached.
        let jvmti = unsafe { Jvmti::of(jvm.java_vm().get_raw().cast()) };
        Ok(jvmti.map_err(HarnessError::from).and_then(|jvmti| {
            let facts = facts(jvm, jvmti, world)?;
            Ok(Plugin::load(path, &facts)?)
        }))
    })?
}

fn facts(jvm: &Jvm, jvmti: Jvmti, world: &World) -> Result<Facts, HarnessError> {
    let lacks = |what: &str| HarnessError::VmStructs(format!("libjvm has no {what}"));
    let libjvm = world
        .modules
        .by_name("libjvm.so")
        .ok_or_else(|| lacks("mapping"))?;
    let version = &jvm.jdk().version;
    Ok(Facts {
        jvm_version: version.to_string(),
        feature: version.feature(),
        libjvm: libjvm.path.clone(),
        libjvm_base: libjvm.base.0,
        async_get_call_trace: jvm
            .exported("AsyncGetCallTrace")
            .ok_or_else(|| lacks("AsyncGetCallTrace"))?,
        java_vm: jvm.java_vm().get_raw().cast(),
        jvmti: jvmti.raw().cast(),
        code_cache: world.code_cache()?,
    })
}
