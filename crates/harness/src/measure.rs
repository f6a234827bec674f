//! What protection costs in this process: a guarded call against a direct one, a recovery against the least that any handler does.
//!
//! Contract: takes the synchronous signals for a moment; use it in a process that does nothing else.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use walkfuzz_context::Pc;
use walkfuzz_guard::{
    Fault, Guard, GuardOptions, GuardedFn, call, read_pc, register_thread, set_trap_flag, write_pc,
};

use crate::error::HarnessError;

/// Nanoseconds of CPU time a call, the fastest of many rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardCosts {
    /// A call through a pointer.
    pub direct_ns: f64,
    /// The same call under the guard.
    pub guarded_ns: f64,
    /// A fault whose handler only steps over the instruction: the kernel's share.
    pub floor_ns: f64,
    /// A fault that ends a guarded call.
    pub recovery_ns: f64,
}

const ROUNDS: usize = 30;
const CALLS: u32 = 500_000;
const FAULTS: u32 = 5_000;

unsafe extern "C" fn nothing(_: *mut c_void, _: c_int, _: *mut c_void) {}

/// Loads from its first argument: the first instruction, [`LOAD_LENGTH`] bytes long.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn load(_: *mut c_void, _: c_int, _: *mut c_void) {
    std::arch::naked_asm!("mov rax, [rdi]", "ret")
}
#[cfg(target_arch = "x86_64")]
const LOAD_LENGTH: u64 = 3;

/// Loads from its first argument: the first instruction, [`LOAD_LENGTH`] bytes long.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn load(_: *mut c_void, _: c_int, _: *mut c_void) {
    std::arch::naked_asm!("ldr x0, [x0]", "ret")
}
#[cfg(target_arch = "aarch64")]
const LOAD_LENGTH: u64 = 4;

extern "C" fn step_over(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's ucontext; only `load` faults while this handler is installed.
    unsafe {
        let pc = read_pc(context.cast());
        write_pc(context.cast(), Pc(pc.0.wrapping_add(LOAD_LENGTH)));
    }
}

/// The thread's CPU time in nanoseconds: other load on the machine must not count.
pub(crate) fn thread_cpu_ns() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: plain data.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn lap(count: u32, mut body: impl FnMut()) -> f64 {
    let began = thread_cpu_ns();
    for _ in 0..count {
        body();
    }
    (thread_cpu_ns() - began) / f64::from(count)
}

/// Runs `body` with the minimal handler in the place of the guard's.
fn with_minimal_handler(body: impl FnOnce() -> f64) -> f64 {
    // SAFETY: all-zero is a valid sigaction, filled in here; the old one is put back.
    unsafe {
        let (mut action, mut old): (libc::sigaction, libc::sigaction) =
            (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = step_over as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut old);
        let time = body();
        libc::sigaction(libc::SIGSEGV, &raw const old, std::ptr::null_mut());
        time
    }
}

/// Measures.
///
/// # Errors
/// The guard cannot be installed.
pub fn guard_costs() -> Result<GuardCosts, HarnessError> {
    let _guard = Guard::install(GuardOptions::default())?;
    let slot = register_thread()?;
    // Never mapped: below the least address that the kernel hands out.
    let nowhere = std::ptr::without_provenance_mut::<c_void>(8);
    let null = std::ptr::null_mut();
    let callee: GuardedFn = black_box(nothing);
    let crash: GuardedFn = black_box(load);
    let mut fault = Fault::NONE;
    let most = f64::INFINITY;
    let mut best = GuardCosts {
        direct_ns: most,
        guarded_ns: most,
        floor_ns: most,
        recovery_ns: most,
    };
    for _ in 0..ROUNDS {
        // SAFETY: here and below, the callees own nothing that a recovery would lose, and the slot is this thread's.
        best.direct_ns = best.direct_ns.min(lap(CALLS, || unsafe {
            black_box(callee)(black_box(null), 1, null)
        }));
        best.guarded_ns = best.guarded_ns.min(lap(CALLS, || {
            // SAFETY: as above.
            let _ = black_box(unsafe {
                call(
                    slot,
                    black_box(callee),
                    black_box(null),
                    1,
                    null,
                    &mut fault,
                )
            });
        }));
        best.floor_ns = best.floor_ns.min(with_minimal_handler(|| {
            // SAFETY: the handler steps over the load.
            lap(FAULTS, || unsafe {
                black_box(crash)(black_box(nowhere), 1, null)
            })
        }));
        best.recovery_ns = best.recovery_ns.min(lap(FAULTS, || {
            // SAFETY: as above.
            let _ = black_box(unsafe {
                call(
                    slot,
                    black_box(crash),
                    black_box(nowhere),
                    1,
                    null,
                    &mut fault,
                )
            });
        }));
    }
    Ok(best)
}

/// Steps of one round.
const STEPS: u32 = 20_000;
static STEPPED: AtomicU32 = AtomicU32::new(0);

extern "C" fn keep_stepping(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let stepped = STEPPED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's ucontext.
    let _ = unsafe { set_trap_flag(context.cast(), stepped < STEPS) };
}

/// What a single step costs with a handler that does nothing, in nanoseconds of CPU time: no step engine can be faster. In a virtual
/// machine whose monitor intercepts the debug registers it is most of a natural walk. `None` where nothing can step.
#[must_use]
pub fn step_floor_ns() -> Option<f64> {
    if !walkfuzz_engine::can_step() {
        return None;
    }
    let mut best = f64::INFINITY;
    // SAFETY: all-zero is a valid sigaction, filled in here; the old one is put back when no step is under way.
    unsafe {
        let (mut action, mut old): (libc::sigaction, libc::sigaction) =
            (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = keep_stepping as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &raw const action, &raw mut old);
        for _ in 0..5 {
            STEPPED.store(0, Ordering::Relaxed);
            let began = thread_cpu_ns();
            libc::raise(libc::SIGTRAP);
            while STEPPED.load(Ordering::Relaxed) <= STEPS {
                std::hint::spin_loop();
            }
            best = best.min((thread_cpu_ns() - began) / f64::from(STEPS));
        }
        libc::sigaction(libc::SIGTRAP, &raw const old, std::ptr::null_mut());
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_right_size() {
        let costs = guard_costs().unwrap();
        assert!(
            costs.direct_ns > 0.0 && costs.direct_ns < costs.recovery_ns,
            "{costs:?}"
        );
        assert!(
            costs.guarded_ns < costs.floor_ns && costs.floor_ns > 100.0,
            "{costs:?}"
        );
        if let Some(step) = step_floor_ns() {
            assert!(step > 100.0 && step < 1e6, "{step}");
        }
    }
}
