//! The signals of the clocks and their handler.
//!
//! `SA_RESTART`: system calls that can go on after a signal do. Those that cannot (`nanosleep`, `poll`, `epoll_wait`, `futex` with a time limit, see
//! signal(7)) end with EINTR, as they do under every profiler. No `SA_ONSTACK`: profilers walk on the stack they interrupt, and the alternative stack
//! stays free for the guard. No `SA_NODEFER`, empty mask: a clock's handler is interrupted by other clocks' only. Nothing is chained: a signal
//! that somebody has a handler for is not taken.
//!
//! Contract: [`on_sample`] and [`on_trap`] allocate, lock and format nothing, keep errno, and make no system call but the first time on a thread, when
//! they find that the thread waits, and a fork at the first fault of a place.

use std::io;
use std::sync::atomic::Ordering::*;

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use walkfuzz_guard::{TrapScope, read_pc, set_trap_flag, set_trap_hook};
use walkfuzz_walkers::ticks;

use crate::arch;
use crate::clock::{self, Clock, SIGNALS};
use crate::errno;
use crate::sampler::{Cause, Sampler};
use crate::threads::Thread;

/// So many samples in a row at the same system call mean that the thread waits.
const STILL: u32 = 4;

/// Why a clock has no signal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignalError {
    /// ITIMER_PROF can send SIGPROF only.
    #[error("SIGPROF has a handler already: another profiler is at work")]
    Taken,
    /// Every real-time signal has a handler.
    #[error("no signal is free for the clock {0}")]
    NoneFree(&'static str),
    /// The system refuses.
    #[error("cannot install a signal handler: {0}")]
    System(#[from] io::Error),
}

/// Chooses the clocks' signals. Changes nothing yet.
///
/// # Errors
/// One of them cannot have any.
pub(crate) fn choose(clocks: &[Clock]) -> Result<Vec<(Clock, c_int)>, SignalError> {
    let needs_prof = clocks.contains(&Clock::Itimer);
    let mut real_time = (libc::SIGRTMIN() + 6)..libc::SIGRTMAX() - 2;
    let mut chosen = Vec::new();
    for (at, &clock) in clocks.iter().enumerate() {
        let wants_prof = clock == Clock::Itimer || (at == 0 && !needs_prof);
        let signal = if wants_prof {
            is_free(libc::SIGPROF)
                .then_some(libc::SIGPROF)
                .ok_or(SignalError::Taken)?
        } else {
            real_time
                .find(|signal| is_free(*signal))
                .ok_or(SignalError::NoneFree(clock.name()))?
        };
        chosen.push((clock, signal));
    }
    Ok(chosen)
}

/// Installs the handler for the chosen signals. They stay ours: a late signal must find a handler.
///
/// # Errors
/// The system refuses.
pub(crate) fn install(chosen: &[(Clock, c_int)]) -> Result<(), SignalError> {
    errno::find();
    for clock in Clock::ALL {
        // An earlier sampling may have had the same signals for other clocks.
        SIGNALS[clock as usize].store(0, Release);
    }
    for &(clock, signal) in chosen {
        SIGNALS[clock as usize].store(signal, Release);
        set_handler(signal)?;
        if clock == Clock::Perf && signal >= libc::SIGRTMIN() && is_free(libc::SIGIO) {
            // What the kernel sends when the queue of a real-time signal is full; its default action ends the process.
            set_handler(libc::SIGIO)?;
        }
    }
    Ok(())
}

/// Whether all of them still are ours.
pub(crate) fn are_ours(clocks: &[Clock]) -> bool {
    clocks.iter().all(|clock| {
        let signal = SIGNALS[*clock as usize].load(Acquire);
        current(signal).is_some_and(|action| action.sa_sigaction == on_sample as *const () as usize)
    })
}

/// Whether nobody else has a handler for it.
fn is_free(signal: c_int) -> bool {
    current(signal).is_some_and(|action| {
        action.sa_sigaction == libc::SIG_DFL
            || action.sa_sigaction == libc::SIG_IGN
            || action.sa_sigaction == on_sample as *const () as usize
    })
}

fn current(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: plain data, written by the call.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0).then_some(now)
    }
}

fn set_handler(signal: c_int) -> io::Result<()> {
    // SAFETY: plain data; the handler is made for being called at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sample as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes single steps. The guard must be installed.
pub(crate) fn hook_traps() {
    errno::find();
    // SAFETY: the hook is signal-safe on any thread.
    unsafe { set_trap_hook(TrapScope::Unguarded, Some(on_trap)) };
}

/// What the kernel calls when a clock fires.
pub(crate) unsafe extern "C" fn on_sample(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let Some(sampler) = Sampler::current() else {
        return;
    };
    let timing = sampler.timing.as_ref().map(|timing| (timing, ticks()));
    let Some(thread) = Thread::current() else {
        sampler.strays.fetch_add(1, Relaxed);
        return;
    };
    let errno_place = errno::location();
    // SAFETY: the thread's own.
    let errno = unsafe { *errno_place };
    let Some(clock) = Clock::of_signal(signal) else {
        return;
    };
    if clock == Clock::Tick {
        thread.pending.store(false, Relaxed);
    }
    // SAFETY: the kernel's.
    let overrun = unsafe { arch::overrun(info) };
    let context = context.cast::<ucontext_t>();
    // SAFETY: the kernel's context of this thread.
    unsafe {
        let sampled = sampler.sample(thread, context, Cause::Sample(clock), overrun);
        if sampled.in_java {
            thread.still.store(0, Relaxed);
            if sampler.options.steps != 0
                && thread.steps_left.load(Relaxed) == 0
                && sampler.vm.code.contains(&read_pc(context).0)
                && set_trap_flag(context, true).is_ok()
            {
                thread.steps_left.store(sampler.options.steps, Relaxed);
            }
        } else if matches!(clock, Clock::Timer | Clock::Tick) {
            watch_for_idleness(thread, context);
        }
        *errno_place = errno;
        if let Some((timing, began)) = timing {
            timing.note(ticks().wrapping_sub(began).saturating_sub(sampled.walking));
        }
    }
}

/// Stops wall-clock samples of a thread that waits in a system call: it would be woken 10,000 times a second for nothing.
///
/// # Safety
/// `context` is the handler's.
unsafe fn watch_for_idleness(thread: &'static Thread, context: *const ucontext_t) {
    // SAFETY: the caller's promise.
    let (at_call, sp) = unsafe { arch::at_system_call(context) };
    if !at_call || thread.still_sp.load(Relaxed) != sp {
        thread.still_sp.store(sp, Relaxed);
        thread.still.store(0, Relaxed);
        return;
    }
    let still = thread.still.load(Relaxed) + 1;
    thread.still.store(still, Relaxed);
    if still == STILL {
        let now = clock::cpu_nanoseconds(thread.tid.load(Relaxed)).unwrap_or(0);
        thread.cpu_seen.store(now, Relaxed);
        thread.idle.store(true, Release);
        clock::stop_thread_from_handler(thread);
    }
}

/// What the guard calls at a SIGTRAP outside guarded calls.
///
/// A step that nobody waits for is ours all the same: HotSpot's stubs save the flags with `pushf`, the trap flag among them, and `popf` brings it
/// back when the thread is no longer stepped. It is cleared then.
unsafe fn on_trap(info: *mut siginfo_t, context: *mut ucontext_t) -> bool {
    /// The kernel's si_code of a single step.
    const TRAP_TRACE: c_int = 2;
    // SAFETY: the kernel's pointers, and the thread's own errno.
    unsafe {
        if info.is_null() || (*info).si_code != TRAP_TRACE {
            return false;
        }
        let errno = *errno::location();
        let left = Thread::current().map_or(0, |thread| step(thread, context));
        // It can only fail where no step could be taken.
        let _ = set_trap_flag(context, left != 0);
        *errno::location() = errno;
    }
    true
}

/// Walks at a step. Returns how many are left.
///
/// # Safety
/// `context` is that of the calling thread's trap.
unsafe fn step(thread: &'static Thread, context: *mut ucontext_t) -> u32 {
    let left = thread.steps_left.load(Relaxed);
    // SAFETY: the caller's promise.
    let pc = unsafe { read_pc(context) };
    let left = match Sampler::current() {
        // Outside the code cache there may be code that blocks SIGTRAP, and the next step would end the process.
        Some(sampler) if left != 0 && sampler.vm.code.contains(&pc.0) => {
            let number = sampler.options.steps.saturating_sub(left - 1);
            // SAFETY: as above.
            unsafe { sampler.sample(thread, context, Cause::Step(number), 0) };
            left - 1
        }
        _ => 0,
    };
    thread.steps_left.store(left, Relaxed);
    left
}
