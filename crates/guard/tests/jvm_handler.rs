//! SafeFetch: near misses, and what the JVM's handler may get wrong.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

use common::{arch, assert_signal, attempt, guarded_thread, read};
use libc::{c_int, c_void, siginfo_t};
use walkfuzz_context::Pc;
use walkfuzz_guard::{
    FaultKind, GuardError, JvmHandler, SAFEFETCH_SITES, SafeFetchSite, set_jvm_handler,
    set_poison_page, set_safefetch, write_pc,
};

/// Sites and handler are the process's; the tests take turns.
static TURN: Mutex<()> = Mutex::new(());
static ASKED: AtomicU32 = AtomicU32::new(0);
static ABORT_FLAG: AtomicI32 = AtomicI32::new(-1);

fn site() -> SafeFetchSite {
    SafeFetchSite {
        fault_pc: Pc(arch::fetch as *const () as u64),
        continuation_pc: Pc(arch::fetch_continuation as *const () as u64),
    }
}

fn with_handler(handler: Option<JvmHandler>) {
    ASKED.store(0, Relaxed);
    set_safefetch(&[
        SafeFetchSite {
            fault_pc: Pc(1),
            continuation_pc: Pc(2),
        },
        site(),
    ])
    .expect("two sites fit");
    // SAFETY: the handlers are made for it.
    unsafe { set_jvm_handler(handler) };
}

/// Fetches from `a` with fallback `c`, stores what came at `c`.
unsafe extern "C" fn fetch(a: *mut c_void, _: c_int, c: *mut c_void) {
    // SAFETY: the tests pass a place for the result.
    unsafe {
        c.cast::<u64>()
            .write(arch::fetch(a.cast(), 0, 0x7777 as *mut c_void))
    };
}

unsafe extern "C" fn resume(_: c_int, _: *mut siginfo_t, uc: *mut c_void, abort: c_int) -> c_int {
    ASKED.fetch_add(1, Relaxed);
    ABORT_FLAG.store(abort, Relaxed);
    // SAFETY: the kernel's ucontext.
    unsafe { write_pc(uc.cast(), site().continuation_pc) };
    1
}

#[test]
fn near_miss() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    for handler in [None, Some(resume as JvmHandler)] {
        with_handler(handler);
        let before = (slot.near_misses(), slot.recoveries());
        let mut got = 0u64;
        for _ in 0..10 {
            assert_eq!(attempt(slot, fetch, 8, 0, &raw mut got as u64), None);
            assert_eq!(std::mem::take(&mut got), 0x7777);
        }
        assert_eq!(
            (slot.near_misses(), slot.recoveries()),
            (before.0 + 10, before.1)
        );
    }
    assert_eq!((ASKED.load(Relaxed), ABORT_FLAG.load(Relaxed)), (10, 0));
    // SIGSEGV without an address is a near miss, too.
    let mut got = 0u64;
    assert_eq!(
        attempt(slot, fetch, arch::NON_CANONICAL, 0, &raw mut got as u64),
        None
    );
    assert_eq!(got, 0x7777);
}

/// HotSpot would make the page readable, and the next failed check would end the process.
#[test]
fn a_fetch_of_the_poison_page_is_resumed_without_the_jvm() {
    const PAGE: u64 = 0x10000;
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(shrug));
    set_poison_page(Some(PAGE));
    let near = slot.near_misses();
    for address in [PAGE, PAGE + 4088] {
        let mut got = 0u64;
        assert_eq!(attempt(slot, fetch, address, 0, &raw mut got as u64), None);
        assert_eq!(got, 0x7777);
    }
    assert_eq!((ASKED.load(Relaxed), slot.near_misses()), (0, near + 2));
    // Its neighbours are asked about.
    for address in [PAGE - 8, PAGE + 4096] {
        let mut got = 0u64;
        assert_signal(
            attempt(slot, fetch, address, 0, &raw mut got as u64),
            libc::SIGSEGV,
        );
    }
    assert_eq!(ASKED.load(Relaxed), 2);
    set_poison_page(None);
}

#[test]
fn other_faults_are_not_shown_to_the_jvm() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(resume));
    assert_signal(attempt(slot, arch::spoil_and_crash, 0, 0, 0), libc::SIGSEGV);
    assert_signal(attempt(slot, arch::illegal, 0, 0, 0), libc::SIGILL);
    assert_eq!(ASKED.load(Relaxed), 0);
}

unsafe extern "C" fn shrug(_: c_int, _: *mut siginfo_t, _: *mut c_void, _: c_int) -> c_int {
    ASKED.fetch_add(1, Relaxed);
    0
}

unsafe extern "C" fn jump_elsewhere(
    _: c_int,
    _: *mut siginfo_t,
    uc: *mut c_void,
    _: c_int,
) -> c_int {
    ASKED.fetch_add(1, Relaxed);
    // SAFETY: the kernel's ucontext.
    unsafe { write_pc(uc.cast(), Pc(0x1234)) };
    1
}

#[test]
fn resumed_elsewhere_or_not_at_all_is_a_fault() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    for handler in [shrug as JvmHandler, jump_elsewhere] {
        with_handler(Some(handler));
        let before = slot.near_misses();
        let fault = assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
        assert_eq!(
            fault.pc(),
            site().fault_pc,
            "the registers are those of the fault"
        );
        assert_eq!((ASKED.load(Relaxed), slot.near_misses()), (1, before));
    }
}

/// Blocks signals and crashes.
unsafe extern "C" fn crash(_: c_int, _: *mut siginfo_t, _: *mut c_void, _: c_int) -> c_int {
    ASKED.fetch_add(1, Relaxed);
    // SAFETY: plain data.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
    // At the same SafeFetch instruction, which must not be asked about again.
    common::load(104);
    1
}

#[test]
fn fault_in_the_jvms_handler() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(crash));
    let mask = common::blocked();
    let before = (slot.near_misses(), slot.recoveries());
    for round in 1..=10 {
        let fault = attempt(slot, read, 8, 0, 0).expect("given up");
        assert_eq!(
            (fault.kind, fault.in_jvm_handler),
            (FaultKind::Signal, true)
        );
        assert_eq!(fault.address.0, 104);
        assert_eq!(fault.blocked_signals, mask | common::bit(libc::SIGUSR2));
        assert_eq!(
            common::blocked(),
            mask,
            "the mask is the interrupted thread's"
        );
        assert_eq!(
            (slot.near_misses(), slot.recoveries()),
            (before.0, before.1 + round)
        );
        assert_eq!(ASKED.load(Relaxed), round as u32);
    }
    // The next one is handled as if nothing had been.
    with_handler(Some(resume));
    let mut got = 0u64;
    assert_eq!(attempt(slot, fetch, 8, 0, &raw mut got as u64), None);
    assert_eq!(got, 0x7777);
}

/// Makes a guarded call that crashes, then resumes: the call's fault is not the handler's.
unsafe extern "C" fn walk_and_resume(
    _: c_int,
    _: *mut siginfo_t,
    uc: *mut c_void,
    _: c_int,
) -> c_int {
    let slot = walkfuzz_guard::GuardSlot::current().expect("registered");
    if attempt(slot, arch::spoil_and_crash, 0, 0, 0).is_some_and(|fault| !fault.in_jvm_handler) {
        ASKED.fetch_add(1, Relaxed);
    }
    // SAFETY: the kernel's ucontext.
    unsafe { write_pc(uc.cast(), site().continuation_pc) };
    1
}

#[test]
fn guarded_call_inside_the_jvms_handler() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(walk_and_resume));
    let mut got = 0u64;
    assert_eq!(attempt(slot, fetch, 8, 0, &raw mut got as u64), None);
    assert_eq!((got, ASKED.load(Relaxed)), (0x7777, 1));
}

/// Makes a guarded call that crashes, then crashes itself: that is the handler's own.
unsafe extern "C" fn walk_and_crash(
    _: c_int,
    _: *mut siginfo_t,
    _: *mut c_void,
    _: c_int,
) -> c_int {
    let slot = walkfuzz_guard::GuardSlot::current().expect("registered");
    attempt(slot, arch::spoil_and_crash, 0, 0, 0);
    common::load(112);
    1
}

#[test]
fn fault_in_the_jvms_handler_after_a_guarded_call_in_it() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(walk_and_crash));
    let fault = attempt(slot, read, 8, 0, 0).expect("given up");
    assert_eq!((fault.in_jvm_handler, fault.address.0), (true, 112));
    assert!(!slot.is_armed());
}

unsafe extern "C" fn dawdle(_: c_int, _: *mut siginfo_t, _: *mut c_void, _: c_int) -> c_int {
    loop {
        std::hint::spin_loop();
    }
}

#[test]
fn hang_in_the_jvms_handler() {
    let _turn = TURN.lock();
    let slot = guarded_thread();
    with_handler(Some(dawdle));
    let alarm = walkfuzz_guard::Alarm::new(slot).unwrap();
    alarm.arm(std::time::Duration::from_millis(20)).unwrap();
    let fault = attempt(slot, read, 8, 0, 0).expect("given up");
    assert_eq!((fault.kind, fault.in_jvm_handler), (FaultKind::Hang, true));
    assert_eq!(attempt(slot, common::nothing, 0, 0, 0), None);
}

#[test]
fn too_many_sites() {
    let _turn = TURN.lock();
    let sites = [site(); SAFEFETCH_SITES + 1];
    assert!(matches!(
        set_safefetch(&sites),
        Err(GuardError::TooManySites { given: 9, room: 8 })
    ));
    set_safefetch(&sites[1..]).unwrap();
    set_safefetch(&[]).unwrap();
    let slot = guarded_thread();
    assert_signal(attempt(slot, read, 8, 0, 0), libc::SIGSEGV);
}
