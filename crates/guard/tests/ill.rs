//! SIGILL inside a guarded call.

mod common;

use common::{arch, assert_signal, attempt, guarded_thread};

#[test]
fn undefined_instruction() {
    let slot = guarded_thread();
    let fault = assert_signal(attempt(slot, arch::illegal, 0, 0, 0), libc::SIGILL);
    assert_eq!(fault.pc().0, arch::illegal as *const () as u64);
    assert_eq!(fault.address.0, fault.pc().0);
}
