//! Ends guarded calls that never return.
//!
//! A POSIX timer per thread ticks in wall-clock time. A guarded call that a later tick finds still under way is given up as a hang
//! if the thread has used half a period of CPU time since the first tick, or (it waits for something) after
//! [`PATIENCE`] ticks. Wall-clock time alone would not do: on a busy machine a thread that comes back from one tick's handler may
//! lose its processor at that very instruction until the next tick is due.
//!
//! Calls that nest have numbers of their own, so a handler that makes guarded calls on top of a hanging one does not hide it.

use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use libc::{c_int, c_void, itimerspec, pid_t, siginfo_t, timespec, ucontext_t};
use walkfuzz_context::{Address, Arch, Registers};

use crate::action::PreviousAction;
use crate::error::GuardError;
use crate::fault::{Fault, FaultKind};
use crate::handler;
use crate::install;
use crate::safefetch;
use crate::slot::{self, GuardSlot};

/// Whoever had the alarm's signal before us.
pub(crate) static PREVIOUS: PreviousAction = PreviousAction::new();

/// Ticks in one call, after the first, that are proof enough without CPU time.
const PATIENCE: u64 = 8;

/// The timer of one thread. One thread needs one.
///
/// Making, arming, disarming and dropping are signal-safe (system calls only). Timers are not inherited by a forked child: there an
/// inherited `Alarm` does nothing, and a new one must be made after [`crate::after_fork_in_child`].
#[derive(Debug)]
pub struct Alarm {
    slot: &'static GuardSlot,
    timer: c_int,
    process: pid_t,
}

impl Alarm {
    /// Makes a timer for the thread that owns `slot`; it does not tick yet.
    ///
    /// # Errors
    /// The guard is not installed, or the kernel refuses a timer.
    pub fn new(slot: &'static GuardSlot) -> Result<Self, GuardError> {
        let signal = install::alarm_signal().ok_or(GuardError::AlarmSignal {
            signal: 0,
            reason: "the guard is not installed",
        })?;
        let mut timer: c_int = 0;
        // The bare system call: glibc's wrapper has allocated in some versions.
        // SAFETY: plain data; the kernel writes the timer's id.
        let result = unsafe {
            let mut event: libc::sigevent = core::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_value.sival_ptr = core::ptr::from_ref(slot).cast_mut().cast();
            event.sigev_notify_thread_id = slot.owner();
            libc::syscall(
                libc::SYS_timer_create,
                libc::CLOCK_MONOTONIC,
                &raw mut event,
                &raw mut timer,
            )
        };
        if result != 0 {
            return Err(GuardError::last("timer_create"));
        }
        Ok(Self {
            slot,
            timer,
            process: this_process(),
        })
    }

    /// Ticks every `period` from now on. A zero period disarms. An endless loop is ended after one to two periods on an idle
    /// machine, an endless wait after at most nine.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn arm(&self, period: Duration) -> Result<(), GuardError> {
        self.slot.ticked_call.store(0, Relaxed);
        let period_ns = period.as_nanos().try_into().unwrap_or(u64::MAX);
        self.slot.alarm_period.store(period_ns, Relaxed);
        self.set(period)
    }

    /// Stops ticking.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disarm(&self) -> Result<(), GuardError> {
        self.set(Duration::ZERO)
    }

    fn set(&self, period: Duration) -> Result<(), GuardError> {
        if !self.is_ours() {
            return Ok(());
        }
        let period = timespec {
            tv_sec: period.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: period.subsec_nanos().into(),
        };
        let setting = itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: a timer of this process, and plain data.
        let result = unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                self.timer,
                0,
                &raw const setting,
                core::ptr::null_mut::<itimerspec>(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(GuardError::last("timer_settime"))
        }
    }

    /// In a forked child the id may be that of another timer.
    fn is_ours(&self) -> bool {
        self.process == this_process()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: a timer of this process, deleted once.
            unsafe { libc::syscall(libc::SYS_timer_delete, self.timer) };
        }
    }
}

/// CPU time of this thread in ns.
fn cpu_time() -> u64 {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: plain data.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

fn this_process() -> pid_t {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }
}

/// Handler of the alarm's signal.
pub(crate) unsafe extern "C" fn on_alarm(signal: c_int, info: *mut siginfo_t, uc: *mut c_void) {
    let uc = uc.cast::<ucontext_t>();
    // SAFETY: the kernel's arguments, here and below.
    let slot = unsafe {
        if (*info).si_code == libc::SI_TIMER {
            slot::at((*info).si_value().sival_ptr as usize)
        } else {
            None
        }
    };
    match slot {
        // The timer of a thread that has just been unregistered may still tick, for a slot that is another's now.
        Some(slot) if slot.owner() == slot::this_thread() => {
            // SAFETY: see above.
            unsafe { tick(slot, signal, uc) };
        }
        Some(_) => {}
        // SAFETY: see above.
        None => unsafe {
            if !PREVIOUS.is_default() {
                PREVIOUS.run(signal, info, uc);
            }
        },
    }
}

/// # Safety
/// As [`on_alarm`]; `slot` is the calling thread's.
unsafe fn tick(slot: &GuardSlot, signal: c_int, uc: *mut ucontext_t) {
    if !slot.is_armed() {
        return;
    }
    let call = slot.current_call.load(Relaxed);
    let now = cpu_time();
    if slot.ticked_call.swap(call, Relaxed) != call {
        slot.first_tick.store(now, Relaxed);
        slot.later_ticks.store(0, Relaxed);
        return;
    }
    let later_ticks = slot.later_ticks.load(Relaxed) + 1;
    slot.later_ticks.store(later_ticks, Relaxed);
    let used = now.saturating_sub(slot.first_tick.load(Relaxed));
    if used < slot.alarm_period.load(Relaxed) / 2 && later_ticks < PATIENCE {
        return;
    }
    slot.ticked_call.store(0, Relaxed);
    let fault = Fault {
        kind: FaultKind::Hang,
        in_jvm_handler: safefetch::is_asking(slot),
        signal,
        code: libc::SI_TIMER,
        address: Address(0),
        registers: Registers::zeroed(Arch::NATIVE),
        trap_number: None,
        error_code: None,
        blocked_signals: 0,
    };
    // SAFETY: see above.
    unsafe { handler::give_up(slot, uc, fault) };
}
