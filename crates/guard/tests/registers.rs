//! What a callee has to preserve is preserved when it is given up, too.

mod common;

use common::{arch, assert_signal, attempt, guarded_thread};

#[test]
fn callee_saved_registers_and_float_control_survive() {
    let slot = guarded_thread();
    let control = arch::float_control();
    let mut fault = None;
    let lost = arch::lost_registers(&mut || fault = attempt(slot, arch::spoil_and_crash, 0, 0, 0));
    let fault = assert_signal(fault, libc::SIGSEGV);
    assert_eq!(fault.address.0, 8);
    assert_eq!(fault.fp().0, 16, "the fault has the callee's registers");
    assert_eq!(lost, 0);
    assert_eq!(arch::float_control(), control);
    // A direction flag left set would make this copy run backwards.
    let source: Vec<u8> = (0..=255).collect();
    let mut copy = vec![0; 256];
    walkfuzz_guard::read_checked(walkfuzz_context::Address(source.as_ptr() as u64), &mut copy)
        .unwrap();
    assert_eq!(copy, source);
}

#[test]
fn arguments_arrive_and_results_return() {
    let slot = guarded_thread();
    unsafe extern "C" fn store(a: *mut libc::c_void, b: i32, c: *mut libc::c_void) {
        // SAFETY: the test passes an array of three words.
        unsafe { a.cast::<[u64; 2]>().write([b as u64, c as u64]) };
    }
    let mut got = [0u64; 2];
    let lost = arch::lost_registers(&mut || {
        assert_eq!(
            attempt(slot, store, &raw mut got as u64, -7, 0xdead_beef_0123),
            None
        )
    });
    assert_eq!(got, [-7i64 as u64, 0xdead_beef_0123]);
    assert_eq!(lost, 0);
}
