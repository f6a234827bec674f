//! `errno` of the calling thread without a call into libc, whose pages a handler would have to bring to its core twice.
//!
//! It lies at the same distance from the thread pointer on every thread: libc is loaded with the process, so that its thread-local variables have
//! fixed places (Drepper, ELF Handling For Thread-Local Storage, 3).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::arch;

/// From the thread pointer to `errno`, wrapping.
static DISTANCE: AtomicU64 = AtomicU64::new(0);

/// Measures the distance; before the first handler.
pub(crate) fn find() {
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::__errno_location() } as u64;
    DISTANCE.store(own.wrapping_sub(arch::thread_pointer()), Relaxed);
}

/// Where the calling thread's is. Signal-safe.
#[inline]
pub(crate) fn location() -> *mut i32 {
    arch::thread_pointer().wrapping_add(DISTANCE.load(Relaxed)) as *mut i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_its_own() {
        find();
        let own = || {
            // SAFETY: no arguments, cannot fail.
            assert_eq!(location(), unsafe { libc::__errno_location() });
            // SAFETY: as above.
            assert_eq!(arch::own_pthread(), unsafe { libc::pthread_self() } as u64);
            location() as u64
        };
        let other = std::thread::spawn(own).join().unwrap();
        assert_ne!(own(), other);
    }
}
