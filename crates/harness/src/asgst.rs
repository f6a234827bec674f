//! ASGST's walks from frames in a session's JVM: the JVM's own functions where it exports them, else walkfuzz's.

use walkfuzz_asgst::{Api, FrameWalk, FrameWalker, Vm};

use crate::error::HarnessError;
use crate::start::Subject;

/// The walker. Findings of the JVM's own functions have a name that says so; what has walkfuzz's name is a self-test.
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
    publish(subject)?;
    FrameWalker::new(&Api::own(), walk, walk.name())
        .ok_or_else(|| HarnessError::VmStructs(format!("there is no {}", walk.name())))
}

/// Makes the JVM known to walkfuzz's own functions.
///
/// # Errors
/// What its tables lack for them.
fn publish(subject: &Subject) -> Result<&'static Vm, HarnessError> {
    let missing = |what: String| HarnessError::VmStructs(what);
    let world = &subject.world;
    let libjvm = world.modules.by_name("libjvm.so");
    let libjvm = libjvm.ok_or_else(|| missing("libjvm.so is not loaded".into()))?;
    let symbol = |name: &str| libjvm.address_of(name);
    let java_vm = subject.jvm.java_vm().get_raw().cast();
    let (jvmti, offset) = (subject.jvm.jvmti(), world.env_offset()?);
    // SAFETY: the JVM of this process, whose method ids were seen to when it was started.
    let vm = unsafe { Vm::publish(&world.hotspot, &symbol, java_vm, jvmti, offset) };
    vm.map_err(|error| missing(format!("ASGST cannot be had on this JVM: {error}")))
}
