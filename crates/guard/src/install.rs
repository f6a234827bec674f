//! Installing the handlers, and keeping them installed beside a JVM and a fuzzer.

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, sigaction};

use crate::action::{self, FAULT_SIGNALS, GENERATIONS};
use crate::alarm;
use crate::error::GuardError;
use crate::handler::{Handler, on_fault};

/// Flags of the fault handlers:
/// - `SA_SIGINFO`: the handler needs the ucontext, which it rewrites;
/// - `SA_ONSTACK`: a stack overflow leaves no room on the thread's own stack;
/// - `SA_NODEFER`: the handler asks the JVM and calls previous handlers, which may fault in turn; were the signal blocked, the
///   kernel would kill the process. Nothing else is blocked either (empty mask), so a handler that is left by a recovery
///   leaves no changed mask behind.
const FAULT_FLAGS: c_int = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;

/// The flags for one fault signal. SIGTRAP stays on the interrupted stack: a single-stepped thread may be held in its SIGTRAP
/// handler while guarded calls are made on its behalf from another stack, and the signal stack must stay free for their faults.
const fn fault_flags(signal: c_int) -> c_int {
    if signal == libc::SIGTRAP {
        FAULT_FLAGS & !libc::SA_ONSTACK
    } else {
        FAULT_FLAGS
    }
}

/// Flags of the alarm's handler: as above, and `SA_RESTART`, because a tick outside guarded calls must not make system
/// calls of the host program fail with EINTR.
const ALARM_FLAGS: c_int = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
/// Flags that must be as they were installed.
const CHECKED_FLAGS: c_int =
    libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART | libc::SA_RESETHAND;

const HANDLERS: [Handler; GENERATIONS] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
];

/// Generations used up, per fault signal.
static GENERATION: [AtomicUsize; FAULT_SIGNALS.len()] =
    [const { AtomicUsize::new(0) }; FAULT_SIGNALS.len()];
/// The alarm's signal, 0 before installation.
static ALARM_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Serialises installers. Handlers never take it.
static INSTALLING: Mutex<()> = Mutex::new(());

/// What [`Guard::install`] can be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuardOptions {
    /// The alarm's signal; `None` is `SIGRTMIN + 5`. (HotSpot uses SIGUSR2 and `SIGRTMAX - 2`.)
    pub alarm_signal: Option<i32>,
}

/// Proof that the handlers are installed. They stay for the life of the process.
#[derive(Clone, Copy, Debug)]
pub struct Guard(());

/// What [`Guard::reassert`] had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reassertion {
    /// Signals whose handler was somebody else's. Faults that are not ours now go to that one.
    pub taken_back: u32,
    /// Signals whose handler was ours, but with other flags or a mask.
    pub repaired: u32,
}

impl Guard {
    /// Installs handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and the alarm's signal, for the whole process, and remembers
    /// the previous ones. Installing again is [`reassert`](Self::reassert).
    ///
    /// Not signal-safe. Best done after the JVM has started: it installs its own, and remembers ours if it finds them. A fault outside guarded
    /// calls would then come back to us from the JVM, go on to whatever was there before us, and leave no crash log.
    ///
    /// # Errors
    /// A system call failed, or the alarm's signal is impossible or other than last time.
    pub fn install(options: GuardOptions) -> Result<Guard, GuardError> {
        let wanted = options.alarm_signal.unwrap_or_else(|| libc::SIGRTMIN() + 5);
        let range = libc::SIGRTMIN()..=libc::SIGRTMAX();
        if !range.contains(&wanted) {
            return Err(GuardError::AlarmSignal {
                signal: wanted,
                reason: "not a real-time signal",
            });
        }
        {
            let _lock = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = ALARM_SIGNAL.load(Acquire);
            if in_use != 0 && in_use != wanted {
                return Err(GuardError::AlarmSignal {
                    signal: wanted,
                    reason: "the guard already uses another one",
                });
            }
            ALARM_SIGNAL.store(wanted, Release);
        }
        let guard = Guard(());
        guard.reassert()?;
        Ok(guard)
    }

    /// Checks that each handler is in place with its flags, and puts it back where it is not, in front of the one that
    /// replaced it. That one is called for faults outside guarded calls from now on; if it chains to the handler that it
    /// replaced (ours), the fault goes on to what was there before.
    ///
    /// Not signal-safe.
    ///
    /// # Errors
    /// A system call failed, or a signal had to be taken back too often.
    pub fn reassert(&self) -> Result<Reassertion, GuardError> {
        let _lock = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = Reassertion::default();
        for (signal, generation) in FAULT_SIGNALS.into_iter().zip(&GENERATION) {
            let now = current(signal)?;
            if let Some(ours) = our_handler(&now) {
                if !is_sound(&now, fault_flags(signal)) {
                    replace(signal, ours, fault_flags(signal))?;
                    done.repaired += 1;
                }
                continue;
            }
            let next = generation.load(Acquire);
            let (Some(&handler), Some(previous)) =
                (HANDLERS.get(next), action::previous(next, signal))
            else {
                return Err(GuardError::HandlerWar {
                    signal,
                    times: next,
                });
            };
            previous.remember(&now);
            generation.store(next + 1, Release);
            let replaced = replace(signal, handler, fault_flags(signal))?;
            if our_handler(&replaced).is_none() {
                // Usually the same as `now`; another one if somebody was quick.
                previous.remember(&replaced);
            }
            done.taken_back += 1;
        }
        let signal = ALARM_SIGNAL.load(Acquire);
        let now = current(signal)?;
        if now.sa_sigaction != alarm::on_alarm as *const () as usize {
            alarm::PREVIOUS.remember(&now);
            replace(signal, alarm::on_alarm, ALARM_FLAGS)?;
            done.taken_back += 1;
        } else if !is_sound(&now, ALARM_FLAGS) {
            replace(signal, alarm::on_alarm, ALARM_FLAGS)?;
            done.repaired += 1;
        }
        Ok(done)
    }

    /// Whether every handler is in place with its flags. Signal-safe; six system calls.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let faults = FAULT_SIGNALS.into_iter().all(|signal| {
            current(signal)
                .is_ok_and(|now| our_handler(&now).is_some() && is_sound(&now, fault_flags(signal)))
        });
        faults
            && current(ALARM_SIGNAL.load(Acquire)).is_ok_and(|now| {
                now.sa_sigaction == alarm::on_alarm as *const () as usize
                    && is_sound(&now, ALARM_FLAGS)
            })
    }
}

/// The alarm's signal, if the guard is installed.
pub(crate) fn alarm_signal() -> Option<c_int> {
    match ALARM_SIGNAL.load(Acquire) {
        0 => None,
        signal => Some(signal),
    }
}

fn our_handler(action: &sigaction) -> Option<Handler> {
    HANDLERS
        .into_iter()
        .find(|&handler| action.sa_sigaction == handler as *const () as usize)
}

/// Whether an action of ours has the flags and the empty mask that it was installed with.
fn is_sound(action: &sigaction, flags: c_int) -> bool {
    // SAFETY: the kernel's 64-bit set is the first word of libc's.
    let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
    action.sa_flags & CHECKED_FLAGS == flags && mask == 0
}

fn current(signal: c_int) -> Result<sigaction, GuardError> {
    // SAFETY: plain data, written by the call.
    unsafe {
        let mut now: sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut now) != 0 {
            return Err(GuardError::last("sigaction"));
        }
        Ok(now)
    }
}

/// Installs `handler`; returns what was there.
fn replace(signal: c_int, handler: Handler, flags: c_int) -> Result<sigaction, GuardError> {
    // SAFETY: plain data; the handlers are made for being called at any time.
    unsafe {
        let mut new: sigaction = core::mem::zeroed();
        new.sa_sigaction = handler as *const () as usize;
        new.sa_flags = flags;
        libc::sigemptyset(&mut new.sa_mask);
        let mut old: sigaction = core::mem::zeroed();
        if libc::sigaction(signal, &new, &mut old) != 0 {
            return Err(GuardError::last("sigaction"));
        }
        Ok(old)
    }
}
