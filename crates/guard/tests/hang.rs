//! Calls that never return are ended by the alarm.

mod common;

use std::time::{Duration, Instant};

use common::{End, attempt, attempt_closure, guarded_thread, in_child, nothing};
use libc::{c_int, c_void};
use walkfuzz_guard::{Alarm, FaultKind, GuardSlot, after_fork_in_child};

const PERIOD: Duration = Duration::from_millis(20);

unsafe extern "C" fn spin(_: *mut c_void, _: c_int, _: *mut c_void) {
    loop {
        std::hint::spin_loop();
    }
}

unsafe extern "C" fn sleep(_: *mut c_void, _: c_int, _: *mut c_void) {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

fn assert_hang(slot: &GuardSlot, f: walkfuzz_guard::GuardedFn) {
    let start = Instant::now();
    let fault = attempt(slot, f, 0, 0, 0).expect("given up");
    assert_eq!(fault.kind, FaultKind::Hang);
    assert_ne!(fault.pc().0, 0);
    assert!(
        start.elapsed() >= PERIOD / 2,
        "not before a fair part of a period has passed"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn endless_loop_and_endless_wait() {
    let slot = guarded_thread();
    let alarm = Alarm::new(slot).unwrap();
    alarm.arm(PERIOD).unwrap();
    let mask = common::blocked();
    for _ in 0..3 {
        assert_hang(slot, spin);
        assert_hang(slot, sleep);
        assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
    }
    assert_eq!(common::blocked(), mask);
    alarm.disarm().unwrap();
}

#[test]
fn calls_that_end_are_left_alone() {
    let slot = guarded_thread();
    let alarm = Alarm::new(slot).unwrap();
    alarm.arm(Duration::from_millis(2)).unwrap();
    let end = Instant::now() + Duration::from_millis(300);
    let mut calls = 0u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
            calls += 1;
        }
    }
    assert!(calls > 10_000);
    // Nor is a thread outside guarded calls, nor a call while the alarm is off.
    alarm.disarm().unwrap();
    let slept = attempt_closure(slot, &mut || std::thread::sleep(Duration::from_millis(50)));
    assert_eq!(slept, None);
}

#[test]
fn inner_hang_ends_the_inner_call() {
    let slot = guarded_thread();
    let alarm = Alarm::new(slot).unwrap();
    let mut inner = None;
    let mut after = 0;
    let outer = attempt_closure(slot, &mut || {
        alarm.arm(PERIOD).unwrap();
        inner = attempt(slot, spin, 0, 0, 0);
        alarm.disarm().unwrap();
        after += 1;
    });
    assert_eq!(inner.map(|fault| fault.kind), Some(FaultKind::Hang));
    assert_eq!((outer, after), (None, 1));
}

#[test]
fn handler_that_walks_does_not_hide_a_hang() {
    unsafe extern "C" fn walk(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
        let slot = GuardSlot::current().expect("registered");
        attempt(slot, nothing, 0, 0, 0);
    }
    let slot = guarded_thread();
    common::set_handler(
        libc::SIGUSR1,
        walk as *const () as usize,
        libc::SA_SIGINFO,
        &[],
    );
    let victim = slot.owner();
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let sender = std::thread::spawn({
        let done = done.clone();
        move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                // SAFETY: a thread of this process.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), victim, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let alarm = Alarm::new(slot).unwrap();
    alarm.arm(PERIOD).unwrap();
    assert_hang(slot, spin);
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    sender.join().unwrap();
}

#[test]
fn forked_child_has_its_own() {
    // In a child first, so that the inherited timer and the own one have the same id, the process's first.
    let end = in_child(|| {
        let slot = guarded_thread();
        after_fork_in_child(slot);
        let alarm = Alarm::new(slot).expect("a timer");
        alarm.arm(Duration::from_secs(1000)).expect("armed");
        let end = in_child(|| {
            after_fork_in_child(slot);
            let own = Alarm::new(slot).expect("a timer in the child");
            own.arm(PERIOD).expect("armed");
            alarm
                .arm(Duration::from_secs(1000))
                .expect("does nothing here");
            drop(alarm);
            for _ in 0..2 {
                assert_hang(slot, spin);
            }
            common::assert_signal(attempt(slot, common::read, 8, 0, 0), libc::SIGSEGV);
            7
        });
        if end == End::Exit(7) { 7 } else { 8 }
    });
    assert_eq!(end, End::Exit(7));
}

#[test]
fn fork_inside_a_guarded_call() {
    let slot = guarded_thread();
    let mut end = None;
    let outer = attempt_closure(slot, &mut || {
        end = Some(in_child(|| {
            after_fork_in_child(slot);
            assert!(slot.is_armed());
            // Ends the guarded call that began in the parent: `in_child` is left, and the child goes on below.
            common::load(8);
            9
        }));
    });
    match outer {
        // The child.
        Some(fault) => {
            // SAFETY: leaves the child.
            unsafe { libc::_exit(if fault.address.0 == 8 { 7 } else { 8 }) }
        }
        None => assert_eq!(end, Some(End::Exit(7))),
    }
}
