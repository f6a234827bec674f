//! Threads come under the guard, leave it, die without leaving it, and fork.

mod common;

use std::sync::Barrier;

use common::{End, assert_signal, attempt, guarded_thread, in_child, nothing, read, signal_stack};
use walkfuzz_guard::{
    GuardError, GuardSlot, SLOTS, after_fork_in_child, register_thread, unregister_thread,
};

fn in_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"))
}

#[test]
fn signal_stack_comes_and_goes() {
    in_thread(|| {
        let before = signal_stack();
        let slot = guarded_thread();
        let during = signal_stack();
        assert!(during.1 >= 64 * 1024 && during.2 == 0, "{during:?}");
        assert!(
            std::ptr::eq(register_thread().unwrap(), slot),
            "again is the same"
        );
        assert!(std::ptr::eq(GuardSlot::current().unwrap(), slot));
        unregister_thread().unwrap();
        assert_eq!(signal_stack(), before);
        assert!(GuardSlot::current().is_none());
        assert!(matches!(
            unregister_thread(),
            Err(GuardError::NotRegistered)
        ));
    });
}

#[test]
fn big_signal_stack_is_kept() {
    in_thread(|| {
        let stack = common::pages(32, libc::PROT_READ | libc::PROT_WRITE);
        let own = libc::stack_t {
            ss_sp: stack as *mut _,
            ss_flags: 0,
            ss_size: 32 * 4096,
        };
        let mut std = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: 0,
            ss_size: 0,
        };
        // SAFETY: fresh memory; given back below.
        unsafe { libc::sigaltstack(&own, &mut std) };
        let slot = guarded_thread();
        assert_eq!(signal_stack().0 as u64, stack);
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        unregister_thread().unwrap();
        assert_eq!(signal_stack().0 as u64, stack);
        // SAFETY: what the thread had.
        unsafe { libc::sigaltstack(&std, std::ptr::null_mut()) };
    });
}

#[test]
fn no_leaving_inside_a_guarded_call() {
    in_thread(|| {
        let slot = guarded_thread();
        let mut result = Ok(());
        assert_eq!(
            common::attempt_closure(slot, &mut || result = unregister_thread()),
            None
        );
        assert!(matches!(result, Err(GuardError::InGuardedCall)));
        unregister_thread().unwrap();
    });
}

#[test]
fn many_threads_at_once_each_get_their_own_faults() {
    const THREADS: u64 = 64;
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for number in 1..=THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                let slot = guarded_thread();
                barrier.wait();
                for round in 0..200 {
                    let address = 8 * (number + round % 2);
                    let fault = assert_signal(attempt(slot, read, address, 0, 0), libc::SIGSEGV);
                    assert_eq!(fault.address.0, address);
                    assert_eq!(attempt(slot, nothing, 0, 0, 0), None);
                }
                unregister_thread().unwrap();
            });
        }
    });
}

#[test]
fn dead_threads_make_room() {
    // In a child, where the table is this test's alone.
    let end = in_child(|| {
        let slot = guarded_thread();
        after_fork_in_child(slot);
        // Each takes a slot to its grave.
        for _ in 0..SLOTS + 100 {
            in_thread(|| {
                let slot = register_thread().expect("a slot of a dead thread");
                assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
            });
        }
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        7
    });
    assert_eq!(end, End::Exit(7));
}

#[test]
fn full_table_is_an_error() {
    let end = in_child(|| {
        let slot = guarded_thread();
        after_fork_in_child(slot);
        let (all, done) = (Barrier::new(SLOTS), Barrier::new(SLOTS));
        std::thread::scope(|scope| {
            for _ in 1..SLOTS {
                std::thread::Builder::new()
                    .stack_size(64 * 1024)
                    .spawn_scoped(scope, || {
                        register_thread().expect("a slot");
                        all.wait();
                        done.wait();
                        unregister_thread().expect("its slot");
                    })
                    .expect("a thread");
            }
            all.wait();
            let error = in_thread(|| register_thread().map(|_| ()).expect_err("no slot is left"));
            assert!(
                matches!(error, GuardError::NoSlot { slots: SLOTS }),
                "{error}"
            );
            done.wait();
        });
        in_thread(|| {
            register_thread().expect("a slot again");
            unregister_thread().expect("its slot");
        });
        7
    });
    assert_eq!(end, End::Exit(7));
}

#[test]
fn come_and_go_without_leaking_mappings() {
    let end = in_child(|| {
        after_fork_in_child(guarded_thread());
        let mappings = || {
            std::fs::read_to_string("/proc/self/maps")
                .expect("maps")
                .lines()
                .count()
        };
        in_thread(|| ());
        let before = mappings();
        for _ in 0..200 {
            in_thread(|| {
                let slot = register_thread().expect("a slot");
                assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
                unregister_thread().expect("its slot");
            });
        }
        let after = mappings();
        assert!(
            after <= before + 4,
            "{before} mappings before, {after} after"
        );
        7
    });
    assert_eq!(end, End::Exit(7));
}

#[test]
fn child_goes_on_as_the_owner() {
    let slot = guarded_thread();
    let parent = slot.owner();
    let end = in_child(|| {
        assert!(GuardSlot::current().is_none());
        after_fork_in_child(slot);
        assert_ne!(slot.owner(), parent);
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        7
    });
    assert_eq!(end, End::Exit(7));
    assert_eq!(slot.owner(), parent);
    assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
}
