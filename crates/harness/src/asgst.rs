//! ASGST's functions in the JVM of this process.

use walkfuzz_asgst::{Api, FrameWalk, FrameWalker, Vm, queue};
use walkfuzz_jvm::Jvm;
use walkfuzz_vmstructs::java_threads;

use crate::error::HarnessError;
use crate::start::Subject;
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

/// The walker of walks from frames: over the JVM's own functions where it exports them, else over walkfuzz's. Findings of the JVM's own functions have a name that
/// says so; what has walkfuzz's name is a self-test.
///
/// # Errors
/// What the JVM's tables lack for it.
pub(crate) fn walker(subject: &Subject, walk: FrameWalk) -> Result<FrameWalker, HarnessError> {
    let jvm = &subject.jvm;
    // SAFETY: what a libjvm exports under ASGST's names has ASGST's types.
    let of_jvm = unsafe { Api::of_library(&|name| jvm.exported(name)) };
    let name = match walk {
        FrameWalk::Iterator => "jvm-asgst-iterator-frame",
        FrameWalk::Minimal => "jvm-asgst-minimal-frame",
    };
    if let Some(walker) = FrameWalker::new(&of_jvm, walk, name) {
        return Ok(walker);
    }
    publish(&subject.world, jvm)?;
    FrameWalker::new(&Api::own(), walk, walk.name())
        .ok_or_else(|| HarnessError::VmStructs(format!("there is no {}", walk.name())))
}

/// Makes safepoint queues possible, of a JVM that was [`publish`]ed. It plants breakpoints in libjvm, and takes the hook of
/// [blocks](crate::blocks): a session has one of them.
///
/// # Errors
/// Why there are none.
pub fn prepare_queues(world: &World, vm: &'static Vm) -> Result<(), HarnessError> {
    let missing = HarnessError::VmStructs;
    let libjvm = world.modules.by_name("libjvm.so");
    let libjvm = libjvm.ok_or_else(|| missing("libjvm.so is not loaded".into()))?;
    let symbol = |name: &str| libjvm.address_of(name);
    let threads = java_threads(&world.hotspot, world.memory());
    let (threads, _) = threads.map_err(|error| missing(error.to_string()))?;
    let any = threads.first().map(|thread| thread.address);
    let any = any.ok_or_else(|| missing("the JVM has no threads".into()))?;
    // SAFETY: the JVM's oldest thread does not end; a session's guard is installed.
    let prepared = unsafe { queue::prepare(vm, &symbol, any) };
    prepared.map_err(|error| missing(format!("no safepoint queues: {error}")))
}
