//! ASGST's functions in the JVM of this process.

use walkfuzz_asgst::Vm;
use walkfuzz_jvm::Jvm;

use crate::error::HarnessError;
use crate::world::World;

/// Makes the JVM known to our functions ([`walkfuzz_asgst::Api::own`]). A second call changes nothing.
///
/// # Errors
/// A missing entry of HotSpot's tables, by name.
pub fn publish(world: &World, jvm: &Jvm) -> Result<&'static Vm, HarnessError> {
    let missing = HarnessError::VmStructs;
    let libjvm = world.modules.by_name("libjvm.so");
    let libjvm = libjvm.ok_or_else(|| missing("libjvm.so is not loaded".into()))?;
    let symbol = |name: &str| libjvm.address_of(name);
    let java_vm = jvm.java_vm().get_raw().cast();
    let env_offset = world.env_offset()?;
    // SAFETY: the JVM of this process, and its JVMTI.
    let vm = unsafe { Vm::publish(&world.hotspot, &symbol, java_vm, jvm.jvmti(), env_offset) };
    vm.map_err(|error| missing(format!("ASGST cannot serve this JVM: {error}")))
}
