//! A session whose walker walks threads from another one.
//!
//! Threads are held in each mode, so that what a walk finds is of its context and can be repeated. Where the walker lets threads run on, torn contexts are
//! made of registers that threads had at other moments. In forked copies, which have no other thread, the held thread makes the walk itself.

use std::ffi::c_void;

use walkfuzz_context::WalkMode;
use walkfuzz_engine::Live;
use walkfuzz_jvm::Jvm;
use walkfuzz_vmstructs::ThreadSearch;
use walkfuzz_walkers::{Remote, RemoteFacts, RemoteMode, Walker};

use crate::error::HarnessError;
use crate::world::World;

/// The walker of a started JVM, and its thread.
pub(crate) fn walker(
    jvm: &Jvm,
    world: &mut World,
    live: &mut Live,
    mode: RemoteMode,
) -> Result<Box<dyn Walker>, HarnessError> {
    let missing = |what: String| HarnessError::VmStructs(what);
    let function = jvm
        .exported("AsyncGetCallTrace")
        .ok_or_else(|| missing("libjvm does not export AsyncGetCallTrace".to_owned()))?;
    let threads = ThreadSearch::new(world.hotspot.threads());
    let offset = world.env_offset()?;
    let mut facts = None;
    jvm.with_env("finding how threads are walked from others", |env| {
        let env: *mut c_void = env.get_raw().cast();
        let java_thread = (env as u64).wrapping_sub(offset);
        // SAFETY: this JVM's own function and this thread's environment; it is in native code.
        facts = Some(unsafe { RemoteFacts::find(function, env, java_thread, threads) });
        Ok(())
    })?;
    let facts = facts
        .ok_or_else(|| missing("no thread could be attached".to_owned()))?
        .map_err(|error| missing(error.to_string()))?;
    world.walk_mode = match mode {
        RemoteMode::Env | RemoteMode::Tid => WalkMode::OtherThreadBlocked,
        RemoteMode::Running => WalkMode::OtherThreadRunning,
    };
    live.walk_from_outside()?;
    Ok(Box::new(Remote::new(facts, mode)))
}
