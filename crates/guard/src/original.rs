//! Telling a process from its forked copies.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering::Release};
use std::io;

/// A word that is 1 here and 0 in every forked copy of this process, in which the kernel wipes the page. For handlers that write into memory which a
/// copy shares, and must not write there.
///
/// # Errors
/// The kernel gives no page, or none that it wipes.
pub fn wiped_in_copies() -> io::Result<&'static AtomicU32> {
    const PAGE: usize = 4096;
    // SAFETY: a fresh mapping of its own, which stays; zero is a valid word.
    unsafe {
        let page = libc::mmap(
            null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED || libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            return Err(io::Error::last_os_error());
        }
        let word = &*page.cast::<AtomicU32>();
        word.store(1, Release);
        Ok(word)
    }
}
