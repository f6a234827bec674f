//! Stack overflow inside the callee: the handler has a stack of its own.

mod common;

use std::hint::black_box;

use common::{assert_signal, attempt, guarded_thread, nothing};
use libc::{c_int, c_void};

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX {
        0
    } else {
        recurse(depth + 1) + frame[(depth % 64) as usize]
    }
}

unsafe extern "C" fn endless(_: *mut c_void, _: c_int, _: *mut c_void) {
    black_box(recurse(black_box(0)));
}

#[test]
fn recursion_into_the_guard_page() {
    // Twice each in a thread with a small stack and in the test's own.
    for _ in 0..2 {
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(|| {
                let slot = guarded_thread();
                for _ in 0..2 {
                    let fault = assert_signal(attempt(slot, endless, 0, 0, 0), libc::SIGSEGV);
                    assert!(fault.sp().0.abs_diff(fault.address.0) < 8192, "{fault:?}");
                    assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
                }
                walkfuzz_guard::unregister_thread().unwrap();
            })
            .unwrap()
            .join()
            .unwrap();
    }
    let slot = guarded_thread();
    assert_signal(attempt(slot, endless, 0, 0, 0), libc::SIGSEGV);
}
