//! Waiting and waking on a word, usable in signal handlers.

use std::sync::atomic::AtomicU32;

/// Waits until `word` is no longer `expected`, or somebody wakes it, or `milliseconds` pass, or a signal arrives.
pub fn wait(word: &AtomicU32, expected: u32, milliseconds: u32) {
    let timeout = libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    // SAFETY: the word outlives the call; the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        );
    }
}

/// Wakes everybody who waits on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}
