//! SIGFPE inside a guarded call.

mod common;

use common::{arch, assert_signal, attempt, guarded_thread};

#[test]
fn division_by_zero() {
    let slot = guarded_thread();
    let fault = assert_signal(attempt(slot, arch::divide, 0, 0, 0), libc::SIGFPE);
    let code = if arch::DIVISION_FAULTS {
        1 /* FPE_INTDIV */
    } else {
        libc::SI_TKILL
    };
    assert_eq!(fault.code, code);
    assert_eq!(attempt(slot, arch::divide, 0, 1, 0), None);
}
