//! A session whose walker walks threads from another one.
//!
//! Threads are held in each mode, so that what a walk finds is of its context and can be repeated. Where the walker lets threads run on, torn contexts are
//! made of registers that threads had at other moments. In forked copies, which have no other thread, the held thread makes the walk itself.

use std::ffi::c_void;

use walkfuzz_context::WalkMode;
use walkfuzz_engine::Live;
use walkfuzz_jvm::Jvm;
use walkfuzz_vmstructs::ThreadSearch;
use walkfuzz_walkers::{Manner, PluginError, PluginPath, Remote, RemoteFacts, RemoteMode, Walker};

use crate::error::HarnessError;
use crate::plugin;
use crate::start::Subject;
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
    go_outside(world, live, mode.holds())?;
    Ok(Box::new(Remote::new(facts, mode)))
}

/// The walker of a library, and its thread.
///
/// # Errors
/// Why the library cannot walk here, or not from another thread.
pub(crate) fn library(
    subject: &mut Subject,
    manner: Manner,
    path: &PluginPath,
) -> Result<Box<dyn Walker>, HarnessError> {
    let plugin = plugin::load(path, &subject.jvm, &subject.world)?;
    let walker = plugin.remote(manner).ok_or_else(|| PluginError::NoRemote {
        path: path.path.clone(),
    })?;
    go_outside(
        &mut subject.world,
        &mut subject.live,
        manner == Manner::Held,
    )?;
    Ok(Box::new(walker))
}

/// From now on another thread walks, while the walked one waits or runs on.
fn go_outside(world: &mut World, live: &mut Live, holds: bool) -> Result<(), HarnessError> {
    world.walk_mode = match holds {
        true => WalkMode::OtherThreadBlocked,
        false => WalkMode::OtherThreadRunning,
    };
    Ok(live.walk_from_outside()?)
}
