//! Guarded calls and recoveries allocate nothing and lock nothing: counted, and enforced by seccomp, which leaves a child only
//! gettid (whose fault is it), rt_sigreturn (back), write and exit. A lock that had to wait would need futex.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::{End, arch, attempt, guarded_thread, in_child, nothing, read};
use libc::{c_int, c_void, siginfo_t, sock_filter};
use walkfuzz_context::{Address, Pc};
use walkfuzz_guard::{
    SafeFetchSite, read_checked, read_word, set_jvm_handler, set_safefetch, write_pc,
};

/// Whose fault is it, back from the handler, and the child's end.
const ALLOWED: [libc::c_long; 5] = [
    libc::SYS_rt_sigreturn,
    libc::SYS_gettid,
    libc::SYS_write,
    libc::SYS_exit_group,
    libc::SYS_exit,
];

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Kills the process at any system call but these.
fn allow_only(calls: &[libc::c_long]) {
    const LOAD_NR: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt| sock_filter { code, jt, jf: 0, k };
    let mut program = vec![step(LOAD_NR, 0, 0)];
    for (index, &call) in calls.iter().enumerate() {
        program.push(step(
            JUMP_IF_EQUAL,
            call as u32,
            (calls.len() - index) as u8,
        ));
    }
    program.push(step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0));
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter
            ),
            0
        );
    }
}

/// Whether there is seccomp here. User-mode emulators have none.
fn seccomp_exists() -> bool {
    // SAFETY: no memory involved.
    let exists = unsafe { libc::prctl(libc::PR_GET_SECCOMP) } >= 0;
    if !exists {
        println!("skip: no seccomp here; allocations are counted all the same");
    }
    exists
}

/// Resumes as the JVM's handler does.
unsafe extern "C" fn resume(_: c_int, _: *mut siginfo_t, uc: *mut c_void, _: c_int) -> c_int {
    // SAFETY: the kernel's ucontext.
    unsafe { write_pc(uc.cast(), Pc(arch::fetch_continuation as *const () as u64)) };
    1
}

/// Everything that handlers do with the guard.
fn work(slot: &walkfuzz_guard::GuardSlot, stack_top: u64) -> bool {
    let mut well = true;
    let mut bytes = [0u8; 100];
    for round in 0..1000 {
        well &= attempt(slot, nothing, 0, 0, 0).is_none();
        well &= attempt(slot, arch::spoil_and_crash, 0, 0, 0)
            .is_some_and(|fault| fault.signal == libc::SIGSEGV);
        well &=
            attempt(slot, arch::illegal, 0, 0, 0).is_some_and(|fault| fault.signal == libc::SIGILL);
        well &= attempt(slot, arch::breakpoint, 0, 0, 0)
            .is_some_and(|fault| fault.signal == libc::SIGTRAP);
        // A near miss.
        well &= attempt(slot, read, 8, 0, 0).is_none();
        well &= read_word(Address(8)).is_err();
        well &= read_checked(Address(&raw const round as u64), &mut bytes[..4]).is_ok();
        let mut fault = walkfuzz_guard::Fault::NONE;
        // SAFETY: the stack is the test's own.
        well &= unsafe {
            walkfuzz_guard::call_on_stack(
                slot,
                walkfuzz_context::Sp(stack_top),
                arch::spoil_and_crash,
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
                &mut fault,
            )
        }
        .is_err();
    }
    well
}

#[test]
fn nothing_is_allocated_and_no_other_system_call_made() {
    let slot = guarded_thread();
    set_safefetch(&[SafeFetchSite {
        fault_pc: Pc(arch::fetch as *const () as u64),
        continuation_pc: Pc(arch::fetch_continuation as *const () as u64),
    }])
    .unwrap();
    // SAFETY: the handler is made for it.
    unsafe { set_jvm_handler(Some(resume)) };
    let stack_top = common::pages(16, libc::PROT_READ | libc::PROT_WRITE) + 16 * 4096;
    let end = in_child(|| {
        walkfuzz_guard::after_fork_in_child(slot);
        if seccomp_exists() {
            allow_only(&ALLOWED);
        }
        let before = ALLOCATIONS.load(Relaxed);
        let well = work(slot, stack_top);
        let allocated = ALLOCATIONS.load(Relaxed) - before;
        match (well, allocated) {
            (true, 0) => 7,
            (true, _) => 8,
            (false, _) => 9,
        }
    });
    assert_eq!(end, End::Exit(7));
}

#[test]
fn the_filter_bites() {
    if !seccomp_exists() {
        return;
    }
    let end = in_child(|| {
        allow_only(&ALLOWED);
        // SAFETY: no memory involved.
        unsafe { libc::syscall(libc::SYS_getppid) };
        7
    });
    assert_eq!(end, End::Signal(libc::SIGSYS));
}
