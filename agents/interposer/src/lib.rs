//! The interposer: an agent that stands before the signal handlers of a *shipped* profiler, which knows nothing of it.
//!
//! ```text
//! java -agentpath:/path/libwalkfuzz_interposer.so=record=r.map,profiler=/path/libasyncProfiler.so,options=start,event=cpu ...
//! java -agentpath:/path/libwalkfuzz_interposer.so=record=r.map,profiler=jfr -XX:StartFlightRecording=... ...
//! ```
//!
//! docs/interposer.md says what it does and how to read what comes of it, a mapped record (`walkfuzz_record`).
//!
//! How the parts work together:
//! - the profiler's library is loaded here, and its imports of `sigaction`, `signal` and `dlsym` are redirected (`imports`, `loading`);
//! - the handlers that it installs are kept, ours are installed in their place (`actions`);
//! - each signal calls the profiler's handler with a copy of the context, and then with perturbed copies, under the guard (`interpose`);
//! - a fault may be the profiler's own business: its fault handler is asked first (`actions`);
//! - what a handler that was left had begun in the profiler's memory is put back (`checkpoint`);
//! - elements of JFR's queue of samples are edited, if that is asked for (`queue`);
//! - AsyncGetCallTrace's answers to the profiler are noted on their way (`agct`).
//!
//! Not here: what the numbers mean, and what is run. The library stays loaded for ever (`-z nodelete`).

mod actions;
mod agct;
mod checkpoint;
mod interpose;
mod keeper;
mod lifecycle;
mod loading;
mod options;
mod queue;
mod threads;
mod turn;

use std::ffi::{CStr, c_char, c_void};

use jvmti_bindings::sys::jni::JavaVM;

pub use options::{OptionError, Options, QueueEdits, Subject};

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
    let text = if options.is_null() {
        String::new()
    } else {
        // SAFETY: the JVM's string.
        unsafe { CStr::from_ptr(options) }
            .to_string_lossy()
            .into_owned()
    };
    // SAFETY: the JVM's arguments.
    match unsafe { lifecycle::load(vm, &text) } {
        Ok(()) => JNI_OK,
        Err(refusal) => {
            eprintln!("walkfuzz-interposer: {refusal}");
            JNI_ERR
        }
    }
}
