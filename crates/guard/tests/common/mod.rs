//! What the guard's tests share. Every test really crashes.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary and the bench use a part"
)]

pub mod arch;

use std::ptr;

use libc::{c_int, c_void, siginfo_t, sigset_t};
use walkfuzz_guard::{
    Fault, FaultKind, Guard, GuardOptions, GuardSlot, GuardedFn, register_thread,
};

/// The guard installed, the thread registered.
pub fn guarded_thread() -> &'static GuardSlot {
    Guard::install(GuardOptions::default()).unwrap();
    register_thread().unwrap()
}

/// A guarded call; the fault, if there was one.
pub fn attempt(slot: &GuardSlot, f: GuardedFn, a: u64, b: i32, c: u64) -> Option<Fault> {
    let mut fault = Fault::NONE;
    // SAFETY: the tests' functions hold nothing that a recovery would lose.
    unsafe { walkfuzz_guard::call(slot, f, a as *mut c_void, b, c as *mut c_void, &mut fault) }
        .err()
        .copied()
}

/// A guarded call of a closure.
pub fn attempt_closure(slot: &GuardSlot, f: &mut dyn FnMut()) -> Option<Fault> {
    let mut f = f;
    attempt(slot, run_closure, &raw mut f as u64, 0, 0)
}

/// Calls the closure that `f` points to.
pub unsafe extern "C" fn run_closure(f: *mut c_void, _: c_int, _: *mut c_void) {
    // SAFETY: `attempt_closure` passes this.
    unsafe { (*f.cast::<&mut dyn FnMut()>())() }
}

/// Reads a word at `address`.
pub unsafe extern "C" fn read(address: *mut c_void, _: c_int, _: *mut c_void) {
    // SAFETY: crashes, as it should.
    unsafe { std::arch::asm!("/* {0} */", in(reg) load(address as u64)) };
}

/// A load that the compiler knows nothing about.
#[inline(never)]
pub fn load(address: u64) -> u64 {
    // SAFETY: crashes, as it should. `fetch` is one bare load.
    unsafe { arch::fetch(address as *const u64, 0, ptr::null_mut()) }
}

/// Returns at once.
pub unsafe extern "C" fn nothing(_: *mut c_void, _: c_int, _: *mut c_void) {}

/// `kind` is Signal and `signal` the one given.
#[track_caller]
pub fn assert_signal(fault: Option<Fault>, signal: c_int) -> Fault {
    let fault = fault.expect("the call should have been given up");
    assert_eq!(
        (fault.kind, fault.signal),
        (FaultKind::Signal, signal),
        "{fault:?}"
    );
    assert!(!fault.in_jvm_handler);
    fault
}

/// Pages of `protection`.
pub fn pages(count: usize, protection: c_int) -> u64 {
    // SAFETY: a fresh mapping.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            count * 4096,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    base as u64
}

/// Installs a handler of the kernel's shape.
pub fn set_handler(signal: c_int, handler: usize, flags: c_int, mask: &[c_int]) -> libc::sigaction {
    // SAFETY: plain data.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        for &signal in mask {
            libc::sigaddset(&mut action.sa_mask, signal);
        }
        let mut old = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, &action, &mut old), 0);
        old
    }
}

/// A signal handler.
pub type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The blocked signals of this thread as a bit set.
pub fn blocked() -> u64 {
    // SAFETY: plain data; the kernel's set is the first word.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut set);
        (&raw const set).cast::<u64>().read()
    }
}

/// The bit of `signal` in [`blocked`].
pub fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// This thread's signal stack: address, size, flags.
pub fn signal_stack() -> (usize, usize, c_int) {
    // SAFETY: plain data.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(ptr::null(), &mut now), 0);
        (now.ss_sp as usize, now.ss_size, now.ss_flags)
    }
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Exit(c_int),
    Signal(c_int),
}

/// Runs `body` in a forked child, where it may die.
pub fn in_child(body: impl FnOnce() -> c_int) -> End {
    // SAFETY: the child runs only this thread, and leaves by _exit.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::alarm(60);
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
            libc::_exit(code);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if libc::WIFSIGNALED(status) {
            End::Signal(libc::WTERMSIG(status))
        } else {
            End::Exit(libc::WEXITSTATUS(status))
        }
    }
}
