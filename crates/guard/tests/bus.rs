//! SIGBUS inside a guarded call: a mapping that reaches beyond the end of its file.

mod common;

use std::os::fd::AsRawFd;

use common::{assert_signal, attempt, guarded_thread, read};

#[test]
fn beyond_the_end_of_the_file() {
    let slot = guarded_thread();
    // SAFETY: a fresh file and a fresh mapping of it.
    let page = unsafe {
        let file = libc::memfd_create(c"guard-bus".as_ptr(), 0);
        assert!(file >= 0);
        let file: std::fs::File = std::os::fd::FromRawFd::from_raw_fd(file);
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        page as u64
    };
    let fault = assert_signal(attempt(slot, read, page + 8, 0, 0), libc::SIGBUS);
    assert_eq!(fault.address.0, page + 8);
    assert_eq!(fault.code, 2, "BUS_ADRERR");
}
