//! The profiler's library: loaded as the JVM loads an agent, with its imports redirected before it is told to begin.
//!
//! Contract: not for handlers.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use jvmti_bindings::sys::jni::JavaVM;

use crate::actions::{on_jvm_sigaction, on_sigaction, on_signal_import};
use crate::agct::on_dlsym;
use walkfuzz_imports::Library;

/// Why the profiler cannot be stood before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The loader refuses.
    #[error("cannot load the profiler: {0}")]
    Refused(String),
    /// It is no agent.
    #[error("{0} has no Agent_OnLoad: it is no agent")]
    NoAgent(String),
    /// It installs no handlers by the functions that are redirected.
    #[error("{0} does not import sigaction or signal: there is nothing to stand before")]
    NoImport(String),
    /// The kernel does not let an import be written.
    #[error("cannot redirect an import: {0}")]
    Import(#[from] std::io::Error),
    /// It says no.
    #[error("the profiler refuses its options: its Agent_OnLoad answers {0}")]
    Answer(i32),
}

type OnLoad = unsafe extern "system" fn(*mut JavaVM, *mut c_char, *mut c_void) -> i32;

/// Loads the profiler and lets it begin.
///
/// # Errors
/// It is no profiler, or refuses.
///
/// # Safety
/// `vm` is the JVM's, in its OnLoad phase.
pub(crate) unsafe fn load(
    vm: *mut JavaVM,
    path: &Path,
    options: &str,
) -> Result<Library, LoadError> {
    let shown = path.display().to_string();
    let no_agent = || LoadError::NoAgent(shown.clone());
    let name = CString::new(shown.clone()).map_err(|_| no_agent())?;
    // SAFETY: a path; the library's constructors run, as the JVM would let them.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    if handle.is_null() {
        return Err(LoadError::Refused(loaders_words()));
    }
    // SAFETY: a handle that is never closed.
    let on_load = unsafe { libc::dlsym(handle, c"Agent_OnLoad".as_ptr()) };
    if on_load.is_null() {
        return Err(no_agent());
    }
    let library = Library::of(on_load).ok_or_else(no_agent)?;
    // SAFETY: they do what those do whose place they take.
    let redirected = unsafe {
        library.redirect(c"dlsym", on_dlsym as *const c_void)?;
        library.redirect(c"sigaction", on_sigaction as *const c_void)?
            + library.redirect(c"signal", on_signal_import as *const c_void)?
    };
    if redirected == 0 {
        return Err(LoadError::NoImport(shown));
    }
    // The JVM's agents may keep what they are told.
    let text = CString::new(options).unwrap_or_default().into_raw();
    // SAFETY: an agent's function, called as the JVM calls it.
    let answer = unsafe {
        let on_load: OnLoad = std::mem::transmute(on_load);
        on_load(vm, text, std::ptr::null_mut())
    };
    if answer == 0 {
        Ok(library)
    } else {
        Err(LoadError::Answer(answer))
    }
}

/// Stands before the JVM's own sampler. `function` is any of libjvm's.
///
/// # Errors
/// libjvm's imports cannot be redirected.
pub(crate) fn stand_before_jvm(function: *const c_void) -> Result<(), LoadError> {
    let no_import = || LoadError::NoImport("libjvm.so".to_owned());
    let library = Library::of(function).ok_or_else(no_import)?;
    // SAFETY: it does what `sigaction` does.
    match unsafe { library.redirect(c"sigaction", on_jvm_sigaction as *const c_void)? } {
        0 => Err(no_import()),
        _ => Ok(()),
    }
}

fn loaders_words() -> String {
    // SAFETY: what the loader says, or null.
    unsafe {
        let words = libc::dlerror();
        if words.is_null() {
            return "the loader does not say why".to_owned();
        }
        CStr::from_ptr(words).to_string_lossy().into_owned()
    }
}
