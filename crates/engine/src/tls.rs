//! Where a thread's frames end and its thread-local storage begins.
//!
//! glibc carves static TLS and its own `struct pthread` out of the top of each thread's stack. They change while a thread is
//! held (a walker may write there, `fork` does), and are nobody's frames.

use std::ffi::c_void;

use crate::arch::{BELOW_THREAD_POINTER, thread_pointer};

/// The end of the calling thread's frames. Call it on a thread that was made by pthread_create.
pub(crate) fn frames_end() -> u64 {
    let mut lowest = thread_pointer() - BELOW_THREAD_POINTER;
    // SAFETY: the callback gets the pointer to `lowest`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(lower), (&raw mut lowest).cast()) };
    lowest as u64
}

/// Lowers the bound to this module's TLS block of the calling thread, if that lies on the stack.
unsafe extern "C" fn lower(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    lowest: *mut c_void,
) -> libc::c_int {
    let here = &raw const lowest as usize;
    // SAFETY: the linker's record of a module, and `frames_end`'s bound.
    unsafe {
        let block = (*info).dlpi_tls_data as usize;
        let lowest = &mut *lowest.cast::<usize>();
        if block > here && block < *lowest {
            *lowest = block;
        }
    }
    0
}
