//! SIGSEGV inside a guarded call.

mod common;

use common::{arch, assert_signal, attempt, guarded_thread, nothing, pages, read};

#[test]
fn null_page() {
    let slot = guarded_thread();
    let before = (slot.calls(), slot.recoveries());
    let fault = assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
    assert_eq!(fault.address.0, 8);
    assert_eq!(fault.code, 1, "SEGV_MAPERR");
    assert_eq!(
        fault.pc().0,
        arch::fetch as *const () as u64,
        "the load is the first instruction"
    );
    assert_eq!(fault.blocked_signals, common::blocked());
    assert!(!slot.is_armed());
    assert_eq!(
        (slot.calls(), slot.recoveries()),
        (before.0 + 1, before.1 + 1)
    );
    // And again, and life goes on.
    assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
    assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
}

#[test]
fn non_canonical() {
    let slot = guarded_thread();
    let fault = assert_signal(
        attempt(slot, read, arch::NON_CANONICAL, 0, 0),
        libc::SIGSEGV,
    );
    assert!(
        arch::NON_CANONICAL_SI_ADDRS.contains(&fault.address.0),
        "{fault:?}"
    );
}

#[test]
fn protected_page() {
    let slot = guarded_thread();
    let page = pages(1, libc::PROT_NONE);
    let fault = assert_signal(attempt(slot, read, page + 16, 0, 0), libc::SIGSEGV);
    assert_eq!(fault.address.0, page + 16);
    assert_eq!(fault.code, 2, "SEGV_ACCERR");
    assert_eq!(fault.trap_number, arch::PAGE_FAULT);
}

#[test]
fn wild_jump() {
    let slot = guarded_thread();
    let page = pages(1, libc::PROT_READ);
    // SAFETY: calling it is the crash that is wanted.
    let wild = unsafe { std::mem::transmute::<u64, walkfuzz_guard::GuardedFn>(page) };
    let fault = assert_signal(attempt(slot, wild, 0, 0, 0), libc::SIGSEGV);
    assert_eq!(fault.pc().0, page);
}

#[test]
fn wild_stack_pointer() {
    let slot = guarded_thread();
    let page = pages(1, libc::PROT_NONE);
    let mut fault = walkfuzz_guard::Fault::NONE;
    // SAFETY: the stack cannot be written: that is the crash that is wanted.
    let result = unsafe {
        walkfuzz_guard::call_on_stack(
            slot,
            walkfuzz_context::Sp(page + 4096),
            common::run_closure,
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
            &mut fault,
        )
    };
    assert_signal(result.err().copied(), libc::SIGSEGV);
    assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
}
