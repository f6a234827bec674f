//! Leads a loaded library's imports of allocating and locking functions through [`watch`](super::watch)'s forwarders.
//!
//! Contract: ordinary threads, before the library's code runs in walks. Only that library's global offset table changes.

use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering;

use walkfuzz_imports::Library;

use super::watch::WATCHED;

/// Redirects the watched imports of the library that holds `address`; how many there were. Doing it again changes nothing.
pub(super) fn redirect(address: *const c_void) -> Result<u32, String> {
    let library = Library::of(address).ok_or("the loader does not say where it is mapped")?;
    let mut instead = |name: &CStr, bound: u64| {
        let watched = WATCHED
            .iter()
            .find(|watched| name.to_bytes() == watched.symbol.as_bytes())?;
        let forwarder = watched.forwarder as *const () as u64;
        if bound != forwarder && bound != 0 {
            watched.real.store(bound as usize, Ordering::Relaxed);
        }
        // What the loader did not find stays away.
        (bound != 0).then_some(forwarder)
    };
    // SAFETY: the forwarders call what was bound.
    let redirected = unsafe { library.redirect_each(&mut instead) };
    redirected.map_err(|error| format!("its imports cannot be watched: {error}"))
}
