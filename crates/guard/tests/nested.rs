//! Guarded calls inside guarded calls: directly, through handlers, over stacks, and faults on the way back.

mod common;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use common::{
    arch, assert_signal, attempt, attempt_closure, guarded_thread, nothing, pages, read,
    set_handler,
};
use libc::{c_int, c_void, siginfo_t};
use walkfuzz_context::Sp;
use walkfuzz_guard::{Fault, FaultKind, GuardSlot, call_on_stack};

#[test]
fn inner_fault_ends_the_inner_call_only() {
    let slot = guarded_thread();
    let mut inner = None;
    let outer = attempt_closure(slot, &mut || {
        inner = attempt(slot, read, 8, 0, 0);
        assert!(slot.is_armed(), "the outer call is under way");
    });
    assert_signal(inner, libc::SIGSEGV);
    assert_eq!(outer, None);
    assert!(!slot.is_armed());
}

#[test]
fn outer_fault_after_inner_fault() {
    let slot = guarded_thread();
    let outer = attempt_closure(slot, &mut || {
        assert_signal(attempt(slot, read, 16, 0, 0), libc::SIGSEGV);
        assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
        common::load(24);
    });
    assert_eq!(assert_signal(outer, libc::SIGSEGV).address.0, 24);
}

#[test]
fn fifty_deep() {
    fn descend(slot: &GuardSlot, depth: u64, faults: &mut Vec<u64>) {
        let fault = attempt_closure(slot, &mut || {
            if depth < 50 {
                descend(slot, depth + 1, faults);
            }
            common::load(8 * depth);
        });
        faults.push(assert_signal(fault, libc::SIGSEGV).address.0);
    }
    let slot = guarded_thread();
    let mut faults = Vec::with_capacity(64);
    descend(slot, 1, &mut faults);
    assert_eq!(
        faults,
        (1..=50).rev().map(|depth| 8 * depth).collect::<Vec<_>>()
    );
    assert!(!slot.is_armed());
}

static HANDLER_FAULTS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn walk_in_handler(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let slot = GuardSlot::current().expect("registered");
    for _ in 0..10 {
        let fault = attempt(slot, read, 32, 0, 0);
        if fault.is_some_and(|fault| fault.address.0 == 32)
            && attempt(slot, nothing, 0, 0, 0).is_none()
        {
            HANDLER_FAULTS.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn handler_on_top_of_a_guarded_call() {
    let slot = guarded_thread();
    set_handler(
        libc::SIGUSR1,
        walk_in_handler as *const () as usize,
        libc::SA_SIGINFO,
        &[],
    );
    let mask = common::blocked();
    let outer = attempt_closure(slot, &mut || {
        // SAFETY: no memory involved.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(common::blocked(), mask);
        common::load(40);
    });
    assert_eq!(HANDLER_FAULTS.load(Relaxed), 10);
    assert_eq!(assert_signal(outer, libc::SIGSEGV).address.0, 40);
    assert_eq!(common::blocked(), mask);
}

#[test]
fn handler_during_each_instruction_of_call_and_recovery() {
    // Another thread interrupts as fast as it can; guarded calls and recoveries go on below and in the handler.
    static FLOOD: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn flood(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
        let slot = GuardSlot::current().expect("registered");
        if attempt(slot, read, 48, 0, 0).is_some_and(|fault| fault.address.0 == 48) {
            FLOOD.fetch_add(1, Relaxed);
        }
    }
    let slot = guarded_thread();
    set_handler(
        libc::SIGUSR2,
        flood as *const () as usize,
        libc::SA_SIGINFO | libc::SA_RESTART,
        &[],
    );
    let mask = common::blocked();
    let victim = slot.owner();
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let sender = std::thread::spawn({
        let done = done.clone();
        move || {
            let mut sent = 0u64;
            while !done.load(Relaxed) {
                // SAFETY: a thread of this process.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), victim, libc::SIGUSR2) };
                sent += 1;
                std::hint::spin_loop();
            }
            sent
        }
    });
    let start = std::time::Instant::now();
    let mut rounds = 0u64;
    // Long enough to hit every instruction; an emulator takes longer.
    while start.elapsed().as_millis() < 1500
        || (FLOOD.load(Relaxed) <= 100 && start.elapsed().as_secs() < 30)
    {
        let fault = assert_signal(attempt(slot, read, 56, 0, 0), libc::SIGSEGV);
        assert_eq!(fault.address.0, 56);
        assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
        assert!(!slot.is_armed());
        rounds += 1;
    }
    done.store(true, Relaxed);
    let sent = sender.join().unwrap();
    assert!(
        FLOOD.load(Relaxed) > 100,
        "{rounds} rounds, {sent} sent, {} handled",
        FLOOD.load(Relaxed)
    );
    assert_eq!(common::blocked(), mask);
}

unsafe extern "C" fn report_sp(into: *mut c_void, _: c_int, _: *mut c_void) {
    let local = 0u8;
    // SAFETY: the tests pass a word.
    unsafe { into.cast::<u64>().write(&raw const local as u64) };
}

fn on_stack(
    slot: &GuardSlot,
    top: u64,
    f: walkfuzz_guard::GuardedFn,
    a: *mut c_void,
) -> Option<Fault> {
    let mut fault = Fault::NONE;
    // SAFETY: the tests' stacks are their own.
    unsafe { call_on_stack(slot, Sp(top), f, a, 0, std::ptr::null_mut(), &mut fault) }
        .err()
        .copied()
}

#[test]
fn other_stack() {
    let slot = guarded_thread();
    let stack = pages(16, libc::PROT_READ | libc::PROT_WRITE);
    let top = stack + 16 * 4096;
    let mut sp = 0u64;
    let lost = arch::lost_registers(&mut || {
        // An odd top is rounded down.
        assert_eq!(
            on_stack(slot, top - 3, report_sp, (&raw mut sp).cast()),
            None
        );
    });
    assert!((stack..top).contains(&sp));
    assert_eq!(lost, 0);
    let mut fault = None;
    let lost = arch::lost_registers(&mut || {
        fault = on_stack(slot, top, arch::spoil_and_crash, std::ptr::null_mut())
    });
    let fault = assert_signal(fault, libc::SIGSEGV);
    assert!((stack..=top).contains(&fault.sp().0));
    assert_eq!(lost, 0);
}

/// What a handler on the signal stack saw.
static RETURNED: AtomicU32 = AtomicU32::new(0);
static FAULTED: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicU32 = AtomicU32::new(0);
static TOP: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn crash_then_come_back(_: *mut c_void, _: c_int, _: *mut c_void) {
    let slot = GuardSlot::current().expect("registered");
    // A nested call on this stack, given up: its handler runs on the second signal stack.
    assert_signal(attempt(slot, read, 64, 0, 0), libc::SIGSEGV);
    common::load(72);
}

unsafe extern "C" fn leave_signal_stack(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let slot = GuardSlot::current().expect("registered");
    let canary = std::hint::black_box([0x5au8; 4096]);
    let top = TOP.load(Relaxed);
    for _ in 0..100 {
        if on_stack(slot, top, nothing, std::ptr::null_mut()).is_none() {
            RETURNED.fetch_add(1, Relaxed);
        }
        let fault = on_stack(slot, top, crash_then_come_back, std::ptr::null_mut());
        // Back on the first signal stack, and the kernel knows.
        let back = common::signal_stack().2 == libc::SS_ONSTACK;
        if fault.is_some_and(|fault| fault.address.0 == 72) && back && canary == [0x5a; 4096] {
            FAULTED.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn leaving_the_signal_stack_keeps_what_waits_on_it() {
    let slot = guarded_thread();
    let stack = pages(64, libc::PROT_READ | libc::PROT_WRITE);
    TOP.store(stack + 64 * 4096, Relaxed);
    let before = common::signal_stack();
    set_handler(
        libc::SIGHUP,
        leave_signal_stack as *const () as usize,
        libc::SA_SIGINFO | libc::SA_ONSTACK,
        &[],
    );
    // SAFETY: no memory involved.
    unsafe { libc::raise(libc::SIGHUP) };
    assert_eq!((RETURNED.load(Relaxed), FAULTED.load(Relaxed)), (100, 100));
    assert_eq!(common::signal_stack(), before);
    assert!(!slot.is_armed());
}

unsafe extern "C" fn leave_twice(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    unsafe extern "C" fn again(_: *mut c_void, _: c_int, _: *mut c_void) {
        // This handler runs on the second signal stack.
        // SAFETY: no memory involved.
        unsafe { libc::raise(libc::SIGINT) };
    }
    let slot = GuardSlot::current().expect("registered");
    on_stack(slot, TOP.load(Relaxed), again, std::ptr::null_mut());
}

unsafe extern "C" fn second_leave(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let slot = GuardSlot::current().expect("registered");
    let fault = on_stack(
        slot,
        TOP.load(Relaxed) - 65536,
        nothing,
        std::ptr::null_mut(),
    );
    if fault.is_some_and(|fault| fault.kind == FaultKind::NoHandlerStack) {
        REFUSED.fetch_add(1, Relaxed);
    }
}

#[test]
fn leaving_a_third_signal_stack_is_refused() {
    let _slot = guarded_thread();
    let stack = pages(64, libc::PROT_READ | libc::PROT_WRITE);
    TOP.store(stack + 64 * 4096, Relaxed);
    let before = common::signal_stack();
    set_handler(
        libc::SIGTERM,
        leave_twice as *const () as usize,
        libc::SA_SIGINFO | libc::SA_ONSTACK,
        &[],
    );
    set_handler(
        libc::SIGINT,
        second_leave as *const () as usize,
        libc::SA_SIGINFO | libc::SA_ONSTACK,
        &[],
    );
    // SAFETY: no memory involved.
    unsafe { libc::raise(libc::SIGTERM) };
    assert_eq!(REFUSED.load(Relaxed), 1);
    assert_eq!(common::signal_stack(), before);
}
