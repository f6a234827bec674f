//! Faults that are not ours go to the previous handler, as the kernel would call it. Each case in a child, for handlers are
//! the process's and some children die.

mod common;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use common::{
    End, Handler, arch, assert_signal, attempt, bit, in_child, nothing, read, set_handler,
};
use libc::{c_int, c_void, siginfo_t};
use walkfuzz_context::Pc;
use walkfuzz_guard::{Guard, GuardError, GuardOptions, Reassertion, register_thread, write_pc};

static CALLS: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicU32 = AtomicU32::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

fn install() -> Guard {
    Guard::install(GuardOptions::default()).expect("installed")
}

/// A previous handler that resumes a [`common::load`] with the fallback 0.
unsafe extern "C" fn resume(signal: c_int, info: *mut siginfo_t, uc: *mut c_void) {
    CALLS.fetch_add(1, Relaxed);
    SIGNAL.store(signal as u32, Relaxed);
    MASK.store(common::blocked(), Relaxed);
    // SAFETY: the kernel's arguments.
    unsafe {
        ADDRESS.store((*info).si_addr() as u64, Relaxed);
        write_pc(uc.cast(), Pc(arch::fetch_continuation as *const () as u64));
    }
}

fn crash_unguarded() {
    assert_eq!(common::load(0x28), 0);
}

#[test]
fn siginfo_handler_sees_what_the_kernel_sent() {
    let end = in_child(|| {
        set_handler(
            libc::SIGSEGV,
            resume as *const () as usize,
            libc::SA_SIGINFO,
            &[libc::SIGUSR1],
        );
        install();
        let mask = common::blocked();
        // Unregistered threads first, then registered, then between guarded calls.
        crash_unguarded();
        let slot = register_thread().expect("registered");
        crash_unguarded();
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        crash_unguarded();
        assert_eq!(CALLS.load(Relaxed), 3);
        assert_eq!(
            (SIGNAL.load(Relaxed), ADDRESS.load(Relaxed)),
            (libc::SIGSEGV as u32, 0x28)
        );
        // sa_mask and, without SA_NODEFER, the signal itself.
        assert_eq!(
            MASK.load(Relaxed),
            mask | bit(libc::SIGUSR1) | bit(libc::SIGSEGV)
        );
        assert_eq!(common::blocked(), mask);
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn nodefer_leaves_the_signal_unblocked() {
    let end = in_child(|| {
        let flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        set_handler(
            libc::SIGSEGV,
            resume as *const () as usize,
            flags,
            &[libc::SIGUSR2],
        );
        install();
        let mask = common::blocked();
        crash_unguarded();
        assert_eq!(MASK.load(Relaxed), mask | bit(libc::SIGUSR2));
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn resethand_handler_runs_once() {
    let end = in_child(|| {
        set_handler(
            libc::SIGSEGV,
            resume as *const () as usize,
            libc::SA_SIGINFO | libc::SA_RESETHAND,
            &[],
        );
        install();
        crash_unguarded();
        if CALLS.load(Relaxed) != 1 {
            return 1;
        }
        crash_unguarded();
        2
    });
    assert_eq!(end, End::Signal(libc::SIGSEGV));
}

#[test]
fn plain_handler() {
    unsafe extern "C" fn plain(signal: c_int) {
        if signal == libc::SIGFPE {
            CALLS.fetch_add(1, Relaxed);
        }
    }
    let end = in_child(|| {
        set_handler(libc::SIGFPE, plain as *const () as usize, 0, &[]);
        install();
        // SAFETY: no memory involved.
        unsafe { libc::raise(libc::SIGFPE) };
        CALLS.load(Relaxed) as c_int
    });
    assert_eq!(end, End::Exit(1));
}

#[test]
fn default_action_kills() {
    let crashes: [(c_int, fn()); 5] = [
        (libc::SIGSEGV, crash_unguarded),
        // SAFETY: here and below, dying of it is the test.
        (libc::SIGILL, || unsafe {
            arch::illegal(std::ptr::null_mut(), 0, std::ptr::null_mut())
        }),
        // SAFETY: as above.
        (libc::SIGFPE, || unsafe {
            arch::divide(std::ptr::null_mut(), 0, std::ptr::null_mut())
        }),
        // SAFETY: as above.
        (libc::SIGTRAP, || unsafe {
            arch::breakpoint(std::ptr::null_mut(), 0, std::ptr::null_mut())
        }),
        (libc::SIGBUS, || {
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGBUS) };
        }),
    ];
    for (signal, crash) in crashes {
        let end = in_child(|| {
            set_handler(signal, libc::SIG_DFL, 0, &[]);
            install();
            let slot = register_thread().expect("registered");
            if attempt(slot, nothing, 0, 0, 0).is_some() {
                return 1;
            }
            crash();
            2
        });
        assert_eq!(end, End::Signal(signal));
    }
}

#[test]
fn ignored_signals_are_ignored_but_faults_are_not() {
    let end = in_child(|| {
        set_handler(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
        install();
        // SAFETY: no memory involved.
        unsafe { libc::raise(libc::SIGSEGV) };
        3
    });
    assert_eq!(end, End::Exit(3));
    let end = in_child(|| {
        set_handler(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
        install();
        crash_unguarded();
        4
    });
    assert_eq!(end, End::Signal(libc::SIGSEGV));
}

#[test]
fn signal_from_another_process_is_nobodys_fault() {
    if walkfuzz_record::machine::emulator().is_some() {
        println!("skip: an emulator may take a SIGSEGV that somebody sends for its own, and die");
        return;
    }
    let end = in_child(|| {
        unsafe extern "C" fn count(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
            CALLS.fetch_add(1, Relaxed);
        }
        set_handler(
            libc::SIGSEGV,
            count as *const () as usize,
            libc::SA_SIGINFO,
            &[],
        );
        install();
        let slot = register_thread().expect("registered");
        // SAFETY: no memory involved.
        let me = unsafe { libc::getpid() };
        let fault = common::attempt_closure(slot, &mut || {
            // SAFETY: the grandchild sends one signal and leaves.
            unsafe {
                let sender = libc::fork();
                if sender == 0 {
                    libc::kill(me, libc::SIGSEGV);
                    libc::_exit(0);
                }
                while CALLS.load(Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                libc::waitpid(sender, std::ptr::null_mut(), 0);
            }
        });
        assert_eq!(fault, None);
        CALLS.load(Relaxed) as c_int
    });
    assert_eq!(end, End::Exit(1));
}

static USURPED: AtomicU32 = AtomicU32::new(0);
static OLD: AtomicUsize = AtomicUsize::new(0);

/// As the JVM does with the handler that it found: asks it about what it does not know itself.
unsafe extern "C" fn usurper(signal: c_int, info: *mut siginfo_t, uc: *mut c_void) {
    USURPED.fetch_add(1, Relaxed);
    // SAFETY: the tests store a handler of this shape.
    unsafe {
        let old: Handler = std::mem::transmute(OLD.load(Relaxed));
        old(signal, info, uc);
    }
}

#[test]
fn usurper_that_chains_to_us_makes_no_circle() {
    let end = in_child(|| {
        set_handler(
            libc::SIGSEGV,
            resume as *const () as usize,
            libc::SA_SIGINFO,
            &[],
        );
        let guard = install();
        let slot = register_thread().expect("registered");
        assert!(guard.is_in_place());
        let ours = set_handler(
            libc::SIGSEGV,
            usurper as *const () as usize,
            libc::SA_SIGINFO,
            &[],
        );
        OLD.store(ours.sa_sigaction, Relaxed);
        assert!(!guard.is_in_place());
        assert_eq!(
            guard.reassert().expect("taken back"),
            Reassertion {
                taken_back: 1,
                repaired: 0
            }
        );
        assert!(guard.is_in_place());
        assert_eq!(
            guard.reassert().expect("nothing to do"),
            Reassertion::default()
        );
        crash_unguarded();
        // Once each: ours, the usurper, our first one, the original.
        assert_eq!((USURPED.load(Relaxed), CALLS.load(Relaxed)), (1, 1));
        // A guarded fault is ours alone.
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        assert_eq!((USURPED.load(Relaxed), CALLS.load(Relaxed)), (1, 1));
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn changed_flags_are_repaired() {
    let end = in_child(|| {
        let guard = install();
        let slot = register_thread().expect("registered");
        for (signal, flags, mask) in [
            // As libFuzzer leaves it.
            (libc::SIGSEGV, libc::SA_SIGINFO | libc::SA_ONSTACK, &[][..]),
            (libc::SIGBUS, libc::SA_SIGINFO | libc::SA_NODEFER, &[]),
            (
                libc::SIGILL,
                libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESETHAND,
                &[],
            ),
            (
                libc::SIGFPE,
                libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER,
                &[libc::SIGUSR1],
            ),
        ] {
            // SAFETY: plain data.
            let ours = unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut now);
                now.sa_sigaction
            };
            set_handler(signal, ours, flags, mask);
            assert!(!guard.is_in_place());
            assert_eq!(
                guard.reassert().expect("repaired"),
                Reassertion {
                    taken_back: 0,
                    repaired: 1
                }
            );
            assert!(guard.is_in_place());
        }
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn endless_war_is_given_up() {
    let end = in_child(|| {
        let guard = install();
        for _ in 1..8 {
            set_handler(
                libc::SIGBUS,
                resume as *const () as usize,
                libc::SA_SIGINFO,
                &[],
            );
            assert_eq!(guard.reassert().expect("taken back").taken_back, 1);
        }
        set_handler(
            libc::SIGBUS,
            resume as *const () as usize,
            libc::SA_SIGINFO,
            &[],
        );
        let error = guard.reassert().expect_err("given up");
        assert!(
            matches!(
                error,
                GuardError::HandlerWar {
                    signal: libc::SIGBUS,
                    times: 8
                }
            ),
            "{error}"
        );
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn alarm_signal_is_checked() {
    let end = in_child(|| {
        let bad = Guard::install(GuardOptions {
            alarm_signal: Some(libc::SIGUSR1),
        });
        assert!(matches!(
            bad,
            Err(GuardError::AlarmSignal {
                signal: libc::SIGUSR1,
                ..
            })
        ));
        install();
        let other = Guard::install(GuardOptions {
            alarm_signal: Some(libc::SIGRTMIN() + 7),
        });
        assert!(matches!(other, Err(GuardError::AlarmSignal { .. })));
        install();
        0
    });
    assert_eq!(end, End::Exit(0));
}
