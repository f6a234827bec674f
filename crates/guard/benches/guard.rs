//! What protection costs: a guarded call against a direct one, a recovery against the kernel's own signal delivery, all in one
//! run. `cargo bench -p walkfuzz-guard`; the last lines give the two differences that have limits.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{arch, nothing, pages, read};
use criterion::Criterion;
use libc::{c_int, c_void, siginfo_t};
use walkfuzz_context::Pc;
use walkfuzz_guard::{Fault, GuardedFn, call, read_word, write_pc};

/// Most that a guarded call may cost over a direct one.
const CALL_LIMIT_NS: f64 = 5.0;
/// Most that a recovery may cost over the kernel's delivery.
const RECOVERY_LIMIT_NS: f64 = 3000.0;

/// The least that any recovery does: rewrite the pc.
unsafe extern "C" fn skip(_: c_int, _: *mut siginfo_t, uc: *mut c_void) {
    // SAFETY: the kernel's ucontext.
    unsafe { write_pc(uc.cast(), Pc(arch::fetch_continuation as *const () as u64)) };
}

/// The thread's CPU time in ns: other load on the machine must not count.
fn cpu_time() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: plain data.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// The fastest of `rounds` rounds of each body, taken in turn, in ns per call of the body.
fn fastest<const N: usize>(
    rounds: usize,
    count: u32,
    bodies: &mut [&mut dyn FnMut(u32); N],
) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..rounds {
        for (body, best) in bodies.iter_mut().zip(&mut best) {
            let start = cpu_time();
            body(count);
            *best = best.min((cpu_time() - start) / f64::from(count));
        }
    }
    best
}

/// Runs `body` with the minimal handler in the place of the guard's.
fn with_minimal_handler(body: impl FnOnce()) {
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    let old = common::set_handler(libc::SIGSEGV, skip as *const () as usize, flags, &[]);
    body();
    // SAFETY: what was there.
    unsafe { libc::sigaction(libc::SIGSEGV, &old, std::ptr::null_mut()) };
}

fn main() {
    let slot = common::guarded_thread();
    let protected = pages(1, libc::PROT_NONE);
    let null = std::ptr::null_mut();
    let f: GuardedFn = black_box(nothing);
    let mut fault = Fault::NONE;
    let mut other_fault = Fault::NONE;
    // SAFETY: here and below, the callees hold nothing that a recovery would lose.
    let mut direct = || unsafe { black_box(f)(black_box(null), 1, null) };
    // SAFETY: as above.
    let mut guarded =
        || unsafe { call(slot, black_box(f), black_box(null), 1, null, &mut fault).is_ok() };
    let mut recover =
        // SAFETY: as above.
        || unsafe { call(slot, read, black_box(protected) as *mut c_void, 1, null, &mut other_fault).is_err() };
    let crash_and_skip = || black_box(common::load(black_box(protected)));

    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("direct call", |b| b.iter(&mut direct));
    criterion.bench_function("guarded call", |b| b.iter(&mut guarded));
    criterion.bench_function("sigsetjmp without mask, call", |b| {
        // SAFETY: nothing jumps.
        b.iter(|| unsafe { setjmp::call_and_return(black_box(f), null) });
    });
    with_minimal_handler(|| {
        criterion.bench_function("fault, minimal handler", |b| b.iter(crash_and_skip));
    });
    criterion.bench_function("fault, recovery", |b| b.iter(&mut recover));
    let word = 5u64;
    let readable = walkfuzz_context::Address(&raw const word as u64);
    criterion.bench_function("checked read of a word", |b| {
        b.iter(|| black_box(read_word(black_box(readable))))
    });
    criterion.final_summary();

    let [direct_ns, guarded_ns] = fastest(
        40,
        500_000,
        &mut [
            &mut |count| (0..count).for_each(|_| direct()),
            &mut |count| (0..count).for_each(|_| assert!(guarded())),
        ],
    );
    let [floor_ns, recovery_ns] = fastest(
        40,
        10_000,
        &mut [
            &mut |count| {
                with_minimal_handler(|| {
                    for _ in 0..count {
                        crash_and_skip();
                    }
                });
            },
            &mut |count| (0..count).for_each(|_| assert!(recover())),
        ],
    );
    let verdict = |value: f64, limit: f64| if value <= limit { "within" } else { "OVER" };
    let call_ns = guarded_ns - direct_ns;
    let own_ns = recovery_ns - floor_ns;
    println!(
        "guarded call: {guarded_ns:.2} ns, direct {direct_ns:.2} ns, difference {call_ns:.2} ns ({} {CALL_LIMIT_NS} ns)",
        verdict(call_ns, CALL_LIMIT_NS)
    );
    println!(
        "recovery: {recovery_ns:.0} ns, kernel's floor {floor_ns:.0} ns, difference {own_ns:.0} ns ({} {RECOVERY_LIMIT_NS} ns)",
        verdict(own_ns, RECOVERY_LIMIT_NS)
    );
}

/// What the guard replaces.
mod setjmp {
    use libc::{c_int, c_void};
    use walkfuzz_guard::GuardedFn;

    unsafe extern "C" {
        /// glibc's sigsetjmp. Rust cannot express its second return; here it never does return twice.
        fn __sigsetjmp(buffer: *mut c_void, save_mask: c_int) -> c_int;
    }

    /// Sets a jump point and calls `f`.
    ///
    /// # Safety
    /// `f` may be called, and nobody jumps.
    pub(crate) unsafe fn call_and_return(f: GuardedFn, a: *mut c_void) {
        let mut buffer = [0u64; 64];
        // SAFETY: the buffer is bigger than any jmp_buf; the caller's promise.
        unsafe {
            __sigsetjmp(buffer.as_mut_ptr().cast(), 0);
            f(a, 1, a);
        }
        std::hint::black_box(&buffer);
    }
}
