//! Protected zones keep their protection: the JVM, which would lift it, is never asked about them.

mod common;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use common::{assert_signal, attempt, guarded_thread, pages, read};
use libc::{c_int, c_void, siginfo_t};

static ASKED: AtomicU32 = AtomicU32::new(0);

/// As HotSpot does with the yellow zone: lifts the protection and says that all is well.
unsafe extern "C" fn unprotect(_: c_int, info: *mut siginfo_t, _: *mut c_void, _: c_int) -> c_int {
    ASKED.fetch_add(1, Relaxed);
    // SAFETY: the kernel's info; the page is the test's.
    unsafe {
        let page = (*info).si_addr() as usize & !4095;
        libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
    1
}

#[test]
fn zones_keep_their_protection() {
    let slot = guarded_thread();
    // SAFETY: made for it.
    unsafe { walkfuzz_guard::set_jvm_handler(Some(unprotect)) };
    let zone = pages(4, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the test's own pages.
    unsafe { libc::mprotect((zone + 4096) as *mut _, 4096, libc::PROT_NONE) };
    for round in 0..100 {
        let fault = assert_signal(
            attempt(slot, read, zone + 4096 + 8 * round, 0, 0),
            libc::SIGSEGV,
        );
        assert_eq!(fault.address.0, zone + 4096 + 8 * round);
    }
    assert_eq!(ASKED.load(Relaxed), 0);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.starts_with(&format!("{:x}-", zone + 4096)))
        .expect("its own mapping");
    assert!(line.contains("---p"), "{line}");
}
