//! The ASGST library: an agent that gives a stock JVM the functions of AsyncGetStackTrace in all its generations.
//!
//! ```text
//! java -agentpath:/path/libwalkfuzz_asgst_agent.so -agentpath:/path/libyourprofiler.so ...
//! ```
//!
//! A profiler is compiled with the headers of `crates/asgst/include` and linked against this library; docs/asgst.md says how. The functions are those of
//! `walkfuzz_asgst`; here they get their C names, and the JVM is made known to them.
//!
//! The library stays loaded for ever (`-z nodelete`).

mod exports;
mod lifecycle;

use std::ffi::{c_char, c_void};

use jvmti_bindings::sys::jni::JavaVM;

const JNI_OK: i32 = 0;
const JNI_ERR: i32 = -1;

/// Called by a JVM that begins (`-agentpath:`). There are no options.
///
/// # Safety
/// The JVM calls it, with its own arguments.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnLoad(
    vm: *mut JavaVM,
    options: *mut c_char,
    _: *mut c_void,
) -> i32 {
    // SAFETY: the JVM's arguments: null, or a string.
    let has_options = !options.is_null() && unsafe { *options } != 0;
    // SAFETY: as above.
    match unsafe { lifecycle::load(vm, has_options) } {
        Ok(()) => JNI_OK,
        Err(refusal) => {
            eprintln!("walkfuzz-asgst: {refusal}");
            JNI_ERR
        }
    }
}
