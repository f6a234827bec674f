//! Faults of walks: pages to be opened, SafeFetch loads, hangs, ends. The handlers run on a stack of their own and allocate nothing.

use std::ptr;

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use walkfuzz_context::Address;

use crate::arch;
use crate::capsule::{Entry, FaultOutcome, Outcome};
use crate::error::{PuppetError, ResidentError};
use crate::outcome::Ended;
use crate::puppet::{SEGV_ACCERR, SEGV_MAPERR};
use crate::resident::memory::{Memory, Place};
use crate::resident::page_of;
use crate::walking::{self, SIGNAL_STACK, Shared, TICK_US, Walking, set_clock, take_signal_stack};

const SIGNALS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGPROF,
];
/// Signals that have numbers.
const NUMBERS: usize = 65;

/// How the call of the walker came back.
#[expect(
    clippy::large_enum_variant,
    reason = "made and taken apart once a walk, without allocation"
)]
pub(crate) enum Walk {
    /// By returning.
    Returned { near_misses: u32 },
    /// Otherwise.
    Ended(Ended),
}

struct State {
    memory: *mut Memory,
    walking: Walking,
    /// Handlers of this program's that run with its thread pointer.
    wrapped: [usize; NUMBERS],
}

static STATE: Shared<State> = Shared::new(State {
    memory: ptr::null_mut(),
    walking: Walking::NONE,
    wrapped: [0; NUMBERS],
});

/// Installs handlers and timer for walks in `memory`, which must live until [`give_back`]. Returns the handlers' stack, for as long.
pub(crate) fn take(memory: &mut Memory) -> Result<Vec<u8>, ResidentError> {
    let mut stack = vec![0_u8; SIGNAL_STACK];
    let state = STATE.get();
    // SAFETY: no walk is under way; the stack's buffer does not move with its vector.
    unsafe {
        (*state).memory = memory;
        take_signal_stack(&mut stack).map_err(|source| PuppetError::System {
            what: "set the signal stack",
            source,
        })?;
        let mut unblocked: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut unblocked);
        for signal in SIGNALS {
            install(signal);
            libc::sigaddset(&mut unblocked, signal);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &unblocked, ptr::null_mut());
    }
    set_clock(TICK_US);
    Ok(stack)
}

/// Gives the signals back.
pub(crate) fn give_back() {
    set_clock(0);
    for signal in SIGNALS {
        // SAFETY: the default, as it was.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    // SAFETY: no handler is running; no walk is under way.
    unsafe {
        libc::sigaltstack(&none, ptr::null_mut());
        (*STATE.get()).memory = ptr::null_mut();
    }
}

/// Lets the handler that this program has for `signal` run with its own thread pointer even if it interrupts a walk.
pub fn with_own_thread_pointer(signal: c_int) {
    // SAFETY: reads and replaces a handler of this process; all-zero is a valid sigaction.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        let own = action.sa_sigaction;
        let ours = arch::handler as *const () as usize;
        let slot = usize::try_from(signal)
            .ok()
            .and_then(|signal| (*STATE.get()).wrapped.get_mut(signal));
        if let Some(slot) = slot
            && ![libc::SIG_DFL, libc::SIG_IGN, ours].contains(&own)
        {
            *slot = own;
            install(signal);
        }
    }
}

/// # Safety
/// The handler's surroundings are in place.
unsafe fn install(signal: c_int) {
    // SAFETY: the action is complete; all-zero is valid for the rest.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = arch::handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// Calls the walker of the shown snapshot.
pub(crate) fn walk(entry: &Entry) -> Walk {
    let state = STATE.get();
    // SAFETY: the snapshot is mapped, and the handlers are installed; one thread walks.
    unsafe {
        let walking = &raw mut (*state).walking;
        match walking::walk(walking, entry) {
            Some(ended) => Walk::Ended(ended),
            None => Walk::Returned {
                near_misses: (*walking).near_misses(),
            },
        }
    }
}

/// Called by [`arch::handler`], with this program's thread pointer.
pub(crate) unsafe extern "C" fn on_signal(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: see `walk`; outside of it nobody holds the state.
    let state = unsafe { &mut *STATE.get() };
    if signal == libc::SIGPROF {
        if state.walking.tick() {
            // SAFETY: the kernel's context, of a walk.
            unsafe { arch::leave(context.cast()) };
        }
        return;
    }
    let wrapped = usize::try_from(signal)
        .ok()
        .and_then(|signal| state.wrapped.get(signal));
    if let Some(&own) = wrapped.filter(|own| **own != 0) {
        // SAFETY: a handler of this program's, with the arguments that the kernel gave.
        unsafe {
            std::mem::transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(own)(
                signal, info, context,
            );
        }
        return;
    }
    if !state.walking.under_way() {
        // A fault of this program's own: the instruction faults again, and the process ends as it would have.
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: set before the handlers were installed; the walk does not use it.
    let memory = unsafe { &mut *state.memory };
    // SAFETY: the kernel's arguments.
    let ended = unsafe { fault(memory, &mut state.walking, signal, info, context.cast()) };
    if let Some(ended) = ended {
        state.walking.end(ended);
        // SAFETY: as above.
        unsafe { arch::leave(context.cast()) };
    }
}

/// How the walk ended; `None` if it goes on.
///
/// # Safety
/// The arguments are a handler's, which interrupted a walk.
unsafe fn fault(
    memory: &mut Memory,
    walking: &mut Walking,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut ucontext_t,
) -> Option<Ended> {
    // SAFETY: the caller's promise.
    let (mut code, address, registers, was_write) = unsafe {
        (
            (*info).si_code,
            (*info).si_addr() as u64,
            walkfuzz_guard::read_registers(context),
            arch::was_write(context),
        )
    };
    if signal == libc::SIGSEGV && matches!(code, SEGV_MAPERR | SEGV_ACCERR) {
        match memory.place(address) {
            Place::Page(protection) if protection.write() && was_write => {
                if memory.open(page_of(address)) {
                    return None;
                }
                // It writes to more pages than are kept.
                return Some(Ended::MissingPage(Address(address)));
            }
            Place::Page(_) => {}
            Place::Forbidden => code = SEGV_ACCERR,
            Place::Missing => return Some(Ended::MissingPage(Address(address))),
            // What is reserved is not mapped in the walked process.
            Place::Unmapped => code = SEGV_MAPERR,
        }
    }
    // SAFETY: the caller's promise.
    if unsafe { walking.go_on(&memory.safefetch, signal, registers.pc(), context) } {
        return None;
    }
    Some(Ended::Outcome(Outcome::Fault(FaultOutcome {
        signal,
        code,
        address: Address(address),
        registers,
        near_misses: walking.near_misses(),
    })))
}
