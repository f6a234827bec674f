//! The way to a safepoint on a stock JVM, and being called there.
//!
//! [`arm`] writes the armed value into a thread's own poll words ([`polls`]). The next poll of that thread, in compiled code, in the interpreter or on its way
//! back from native code, then goes into the JVM, which finds nothing to do and takes the value back. Breakpoints at the few functions that it gets to
//! first ([`hooks`]) hand the thread over to us there: it stands at a safepoint, in its own frames, holds no lock of libc's, and what it is made to call may
//! allocate and lock.
//!
//! Contract: [`install`] is not for handlers. [`arm`] is signal-safe. What [`install`] was given runs on the armed thread (and on any other that gets to
//! a safepoint), outside signal handlers.

mod arch;
mod hooks;
mod polls;

use std::sync::OnceLock;

use walkfuzz_context::Address;
use walkfuzz_vmstructs::HotSpot;

pub use hooks::HookError;
pub use polls::PollError;
use polls::Polls;

/// Called at a safepoint of the thread whose `JavaThread` it is given, on that thread.
pub(crate) type AtSafepoint = extern "C" fn(u64);

/// Why threads of this JVM cannot be brought to a safepoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SafepointError {
    /// Their poll words.
    #[error(transparent)]
    Polls(#[from] PollError),
    /// The places to be called at.
    #[error(transparent)]
    Hooks(#[from] HookError),
}

static POLLS: OnceLock<Polls> = OnceLock::new();

/// Finds everything, and has `called` called at every safepoint from now on. `java_thread` is any thread, `symbol` finds libjvm's symbols.
///
/// # Errors
/// [`SafepointError`]: nothing was changed.
///
/// # Safety
/// The guard is installed; `java_thread` lives; `called` can be called at any safepoint for ever.
pub(crate) unsafe fn install(
    hotspot: &HotSpot,
    symbol: &dyn Fn(&str) -> Option<u64>,
    java_thread: Address,
    called: AtSafepoint,
) -> Result<(), SafepointError> {
    let polls = Polls::find(hotspot, symbol, java_thread)?;
    let _ = POLLS.set(polls);
    // SAFETY: the caller's promises.
    unsafe { hooks::plant(symbol, called)? };
    Ok(())
}

/// Makes `java_thread` go to a safepoint at its next poll. Signal-safe.
///
/// # Safety
/// It is the calling thread, or one that stands still.
#[inline]
pub(crate) unsafe fn arm(java_thread: Address) {
    if let Some(polls) = POLLS.get() {
        // SAFETY: the caller's promise.
        unsafe { polls.arm(java_thread) };
    }
}

/// Takes the armed value back where the JVM does not do it itself. Signal-safe.
///
/// # Safety
/// It is the calling thread, at a safepoint.
#[inline]
pub(crate) unsafe fn disarm(java_thread: Address) {
    if let Some(polls) = POLLS.get() {
        // SAFETY: the caller's promise.
        unsafe { polls.disarm(java_thread) };
    }
}

/// Whether threads can be brought to a safepoint. Signal-safe.
#[inline]
pub(crate) fn is_installed() -> bool {
    hooks::are_planted()
}
