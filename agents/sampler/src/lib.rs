//! The sampler: an agent that samples a JVM's threads as profilers do, walks each sample and records what came of it.
//!
//! ```text
//! java -agentpath:/path/libwalkfuzz_sampler.so=record=r.map,clock=timer,interval=100us ...
//! jcmd PID JVMTI.agent_load /path/libwalkfuzz_sampler.so record=r.map,clock=tick,interval=100us
//! jcmd PID JVMTI.agent_load /path/libwalkfuzz_sampler.so stop
//! ```
//!
//! docs/sampler.md has the options. What comes of it is a mapped record (`walkfuzz_record`) and, after an orderly end, `RECORD.json`.
//!
//! How the parts work together:
//! - JVMTI's events tell which threads there are (`threads`) and make method ids, without which AsyncGetCallTrace gives no frames;
//! - clocks (`clock`) send signals, whose handler (`signals`) walks (`sampler`), under crash protection (`protect`) or bare;
//! - where walks are made from outside (`remote`), the handler waits for them, or lets them run after it;
//! - where samples are completed at safepoints (`queue`), the handler only puts them into a queue;
//! - the first fault at each place becomes a capsule (`capsules`), of copies that the handler made;
//! - the keeper (`keeper`) stops the clocks of threads that wait, accounts for CPU time, makes clocks anew.
//!
//! Not here: what the numbers mean, and what is run. The library stays loaded for ever (`-z nodelete`).

mod arch;
mod asgst;
mod capsules;
mod chosen;
mod clock;
mod control;
mod errno;
mod keeper;
mod lifecycle;
mod options;
mod planted;
mod protect;
mod queue;
#[cfg(test)]
mod quiet_tests;
mod refusal;
mod remote;
mod sampler;
mod sampling;
mod signals;
mod spread;
mod summary;
mod threads;
mod timing;

use std::ffi::{CStr, c_char, c_void};

use jvmti_bindings::sys::jni::JavaVM;

pub use asgst::AsgstWalk;
pub use chosen::WalkerChoice;
pub use clock::{Clock, kernel_tick_hz};
pub use options::{Choice, OptionError, Options, Plant, Wanted};
pub use summary::SCHEMA;

const JNI_OK: i32 = 0;
const JNI_ERR: i32 = -1;

/// Called by a JVM that begins (`-agentpath:`).
///
/// # Safety
/// The JVM calls it, with its own arguments.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnLoad(
    vm: *mut JavaVM,
    options: *mut c_char,
    _: *mut c_void,
) -> i32 {
    // SAFETY: the JVM's arguments.
    answer(unsafe { lifecycle::load(vm, &text(options)) })
}

/// Called by a running JVM (`jcmd PID JVMTI.agent_load`, the attach API).
///
/// # Safety
/// As [`Agent_OnLoad`], on an attached thread.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnAttach(
    vm: *mut JavaVM,
    options: *mut c_char,
    _: *mut c_void,
) -> i32 {
    // SAFETY: the JVM's arguments.
    answer(unsafe { lifecycle::attach(vm, &text(options)) })
}

/// # Safety
/// Null or a string.
unsafe fn text(options: *const c_char) -> String {
    if options.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(options) }
        .to_string_lossy()
        .into_owned()
}

fn answer(result: Result<(), refusal::Refusal>) -> i32 {
    match result {
        Ok(()) => JNI_OK,
        Err(refusal) => {
            eprintln!("walkfuzz-sampler: {refusal}");
            JNI_ERR
        }
    }
}
