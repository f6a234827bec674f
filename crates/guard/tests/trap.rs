//! SIGTRAP: a fault inside guarded calls unless a hook takes it; single steps outside them.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use common::{arch, assert_signal, attempt, guarded_thread};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use walkfuzz_guard::{
    GuardError, TrapScope, read_pc, set_breakpoint_hook, set_trap_flag, set_trap_hook, write_pc,
};

/// Hooks are the process's; the tests take turns.
static TURN: Mutex<()> = Mutex::new(());
static SEEN: AtomicU32 = AtomicU32::new(0);

#[test]
fn breakpoint_is_a_fault() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    let fault = assert_signal(attempt(slot, arch::breakpoint, 0, 0, 0), libc::SIGTRAP);
    let int3 = arch::breakpoint as *const () as u64;
    assert!((int3..=int3 + 1).contains(&fault.pc().0));
}

#[test]
fn guarded_hook_resumes() {
    unsafe fn resume(_: *mut siginfo_t, uc: *mut ucontext_t) -> bool {
        SEEN.fetch_add(1, Relaxed);
        // SAFETY: the kernel's ucontext.
        unsafe {
            write_pc(
                uc,
                walkfuzz_context::Pc(read_pc(uc).0 + arch::BEHIND_BREAKPOINT),
            )
        };
        true
    }
    unsafe fn refuse(_: *mut siginfo_t, _: *mut ucontext_t) -> bool {
        SEEN.fetch_add(1, Relaxed);
        false
    }
    let _turn = TURN.lock();
    let slot = guarded_thread();
    SEEN.store(0, Relaxed);
    // SAFETY: the hooks touch nothing but an atomic and the ucontext.
    unsafe { set_trap_hook(TrapScope::Guarded, Some(resume)) };
    assert_eq!(attempt(slot, arch::breakpoint, 0, 0, 0), None);
    // SAFETY: as above.
    unsafe { set_trap_hook(TrapScope::Guarded, Some(refuse)) };
    assert_signal(attempt(slot, arch::breakpoint, 0, 0, 0), libc::SIGTRAP);
    // SAFETY: as above.
    unsafe { set_trap_hook(TrapScope::Guarded, None) };
    assert_signal(attempt(slot, arch::breakpoint, 0, 0, 0), libc::SIGTRAP);
    assert_eq!(SEEN.load(Relaxed), 2);
}

static INSIDE: AtomicU32 = AtomicU32::new(0);

#[test]
fn breakpoints_are_asked_first_and_anywhere() {
    unsafe fn pass_over(_: *mut siginfo_t, uc: *mut ucontext_t, guarded: bool) -> bool {
        SEEN.fetch_add(1, Relaxed);
        INSIDE.fetch_add(u32::from(guarded), Relaxed);
        // SAFETY: the kernel's ucontext.
        unsafe {
            write_pc(
                uc,
                walkfuzz_context::Pc(read_pc(uc).0 + arch::BEHIND_BREAKPOINT),
            )
        };
        true
    }
    unsafe fn never(_: *mut siginfo_t, _: *mut ucontext_t) -> bool {
        SEEN.fetch_add(100, Relaxed);
        true
    }
    let _turn = TURN.lock();
    let slot = guarded_thread();
    SEEN.store(0, Relaxed);
    INSIDE.store(0, Relaxed);
    // SAFETY: the hooks touch nothing but atomics and the ucontext.
    unsafe {
        set_trap_hook(TrapScope::Guarded, Some(never));
        set_trap_hook(TrapScope::Unguarded, Some(never));
        set_breakpoint_hook(Some(pass_over));
    }
    assert_eq!(attempt(slot, arch::breakpoint, 0, 0, 0), None);
    // A thread that the guard does not know.
    let other = std::thread::spawn(|| {
        // SAFETY: the hook passes over it.
        unsafe { arch::breakpoint(std::ptr::null_mut(), 0, std::ptr::null_mut()) }
    });
    other.join().expect("it goes on");
    // SAFETY: as above.
    unsafe {
        set_breakpoint_hook(None);
        set_trap_hook(TrapScope::Guarded, None);
        set_trap_hook(TrapScope::Unguarded, None);
    }
    assert_signal(attempt(slot, arch::breakpoint, 0, 0, 0), libc::SIGTRAP);
    assert_eq!((SEEN.load(Relaxed), INSIDE.load(Relaxed)), (2, 1));
}

static DISTINCT: AtomicU64 = AtomicU64::new(0);
static LAST_PC: AtomicU64 = AtomicU64::new(0);
static CRASHES: AtomicU32 = AtomicU32::new(0);
static STEPPING: AtomicBool = AtomicBool::new(false);

/// A step, with a guarded call that crashes at each of them, as the single-step engine would have.
unsafe fn step(_: *mut siginfo_t, uc: *mut ucontext_t) -> bool {
    // SAFETY: the kernel's ucontext.
    let pc = unsafe { read_pc(uc) }.0;
    if LAST_PC.swap(pc, Relaxed) != pc {
        DISTINCT.fetch_add(1, Relaxed);
    }
    let slot = walkfuzz_guard::GuardSlot::current().expect("registered");
    if attempt(slot, common::read, 8, 0, 0).is_some() {
        CRASHES.fetch_add(1, Relaxed);
    }
    if SEEN.fetch_add(1, Relaxed) + 1 == 1000 {
        // SAFETY: as above.
        let _ = unsafe { set_trap_flag(uc, false) };
    }
    true
}

unsafe extern "C" fn start_stepping(_: c_int, _: *mut siginfo_t, uc: *mut c_void) {
    // SAFETY: the kernel's ucontext.
    let result = unsafe { set_trap_flag(uc.cast(), true) };
    match result {
        Ok(()) => STEPPING.store(true, Relaxed),
        Err(error) => assert!(matches!(error, GuardError::NoTrapFlag)),
    }
}

#[test]
fn single_steps() {
    let _turn = TURN.lock();
    let _slot = guarded_thread();
    SEEN.store(0, Relaxed);
    common::set_handler(
        libc::SIGUSR1,
        start_stepping as *const () as usize,
        libc::SA_SIGINFO,
        &[],
    );
    // SAFETY: the hook is made for it.
    unsafe { set_trap_hook(TrapScope::Unguarded, Some(step)) };
    // SAFETY: no memory involved.
    unsafe { libc::raise(libc::SIGUSR1) };
    let mut sum = 0u64;
    for i in 0..10_000u64 {
        sum = std::hint::black_box(sum + i);
    }
    assert_eq!(sum, 49_995_000);
    // SAFETY: as above.
    unsafe { set_trap_hook(TrapScope::Unguarded, None) };
    assert_eq!(STEPPING.load(Relaxed), arch::CAN_STEP);
    if arch::CAN_STEP {
        assert_eq!((SEEN.load(Relaxed), CRASHES.load(Relaxed)), (1000, 1000));
        assert!(DISTINCT.load(Relaxed) > 900);
    }
}
