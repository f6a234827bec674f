//! Restartable sequences (`man 2 rseq`): an area in each thread's static TLS that the kernel writes to when the thread is
//! preempted or gets a signal.
//!
//! glibc (2.35 and later) registers it, and puts static TLS on the topmost page of the thread's stack. Whoever takes the right to
//! write away from that page takes the registration away first, or the kernel kills the process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use crate::arch::{RSEQ_SIGNATURE, thread_pointer};

/// The length that glibc registers (the size of the kernel's first `struct rseq`), whatever it says of its size.
const FIRST_LENGTH: usize = 32;
const UNREGISTER: i32 = 1;

static OFFSET: AtomicIsize = AtomicIsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Looks up where glibc has the area. Not signal-safe; without this call, or without glibc's registration, [`suspend`] does nothing.
pub(crate) fn find() {
    // SAFETY: glibc's exported constants: ptrdiff_t and unsigned int, written before main.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        if !offset.is_null() && !size.is_null() {
            OFFSET.store(*offset, Relaxed);
            SIZE.store(*size as usize, Relaxed);
        }
    }
}

/// The calling thread's registration, taken away until dropped.
pub(crate) struct Suspended {
    area: *mut c_void,
    length: usize,
}

/// Takes the calling thread's registration away. `None` when there is none. Signal-safe.
pub(crate) fn suspend() -> Option<Suspended> {
    let size = SIZE.load(Relaxed);
    if size == 0 {
        return None;
    }
    let area = thread_pointer().wrapping_add_signed(OFFSET.load(Relaxed)) as *mut c_void;
    [FIRST_LENGTH, size]
        .into_iter()
        .find(|&length| call(area, length, UNREGISTER))
        .map(|length| Suspended { area, length })
}

impl Drop for Suspended {
    fn drop(&mut self) {
        call(self.area, self.length, 0);
    }
}

fn call(area: *mut c_void, length: usize, flags: i32) -> bool {
    // SAFETY: the area that glibc registered for this thread; the kernel checks the other arguments.
    unsafe { libc::syscall(libc::SYS_rseq, area, length, flags, RSEQ_SIGNATURE) == 0 }
}
