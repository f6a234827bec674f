//! What protection costs: a guarded call against a direct one, a recovery against the kernel's own signal delivery, all in one
//! run. `cargo bench -p walkfuzz-guard`; the last lines give the two differences that have limits.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

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

/// Median over `rounds` of the time of `body`, which does `count` things, in ns per thing.
fn median(rounds: usize, count: u32, mut body: impl FnMut(u32)) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            body(count);
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

fn main() {
    let protected = pages(1, libc::PROT_NONE);
    let mut criterion = Criterion::default().configure_from_args();
    let null = std::ptr::null_mut();

    // The floor first: the guard stays once it is installed.
    let old = common::set_handler(
        libc::SIGSEGV,
        skip as *const () as usize,
        libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER,
        &[],
    );
    let crash_and_skip = || black_box(common::load(black_box(protected)));
    criterion.bench_function("fault, minimal handler", |b| b.iter(crash_and_skip));
    let floor = median(21, 20_000, |count| {
        for _ in 0..count {
            crash_and_skip();
        }
    });
    // SAFETY: what was there.
    unsafe { libc::sigaction(libc::SIGSEGV, &old, std::ptr::null_mut()) };

    let slot = common::guarded_thread();
    let mut fault = Fault::NONE;
    let f: GuardedFn = black_box(nothing);
    // SAFETY: the callees hold nothing.
    let mut direct = || unsafe { black_box(f)(black_box(null), 1, null) };
    criterion.bench_function("direct call", |b| b.iter(&mut direct));
    let direct_ns = median(51, 1_000_000, |count| {
        for _ in 0..count {
            direct();
        }
    });
    // SAFETY: as above.
    let mut guarded =
        || unsafe { call(slot, black_box(f), black_box(null), 1, null, &mut fault).is_ok() };
    criterion.bench_function("guarded call", |b| b.iter(&mut guarded));
    let guarded_ns = median(51, 1_000_000, |count| {
        for _ in 0..count {
            black_box(guarded());
        }
    });
    let mut recover =
        // SAFETY: as above.
        || unsafe { call(slot, read, black_box(protected) as *mut c_void, 1, null, &mut fault).is_err() };
    criterion.bench_function("fault, recovery", |b| b.iter(&mut recover));
    let recovery_ns = median(21, 20_000, |count| {
        for _ in 0..count {
            assert!(recover());
        }
    });
    let word = 5u64;
    let readable = walkfuzz_context::Address(&raw const word as u64);
    criterion.bench_function("checked read of a word", |b| {
        b.iter(|| black_box(read_word(black_box(readable))))
    });
    criterion.bench_function("sigsetjmp without mask", |b| {
        // SAFETY: nothing jumps.
        b.iter(|| unsafe { setjmp::call_and_return(f, null) });
    });
    criterion.final_summary();

    let verdict = |value: f64, limit: f64| if value <= limit { "within" } else { "OVER" };
    let call_ns = guarded_ns - direct_ns;
    let own_ns = recovery_ns - floor;
    println!(
        "guarded call: {guarded_ns:.2} ns, direct {direct_ns:.2} ns, difference {call_ns:.2} ns ({} {CALL_LIMIT_NS} ns)",
        verdict(call_ns, CALL_LIMIT_NS)
    );
    println!(
        "recovery: {recovery_ns:.0} ns, kernel's floor {floor:.0} ns, difference {own_ns:.0} ns ({} {RECOVERY_LIMIT_NS} ns)",
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
