//! Crash protection around one walk.
//!
//! A walker is code that may crash, and the process that it crashes in (a JVM, with a fuzzer around it) must go on. The guard calls
//! it so that a SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP or a hang inside it becomes a returned [`Fault`].
//!
//! ```no_run
//! use std::time::Duration;
//! use walkfuzz_guard::{Alarm, Fault, Guard, GuardOptions, call, register_thread};
//! # unsafe extern "C" fn walker(_: *mut libc::c_void, _: i32, _: *mut libc::c_void) {}
//! # fn example(trace: *mut libc::c_void, depth: i32, ucontext: *mut libc::c_void) -> Result<(), walkfuzz_guard::GuardError> {
//! let guard = Guard::install(GuardOptions::default())?; // once per process
//! // ... the JVM starts, and installs handlers of its own ...
//! guard.reassert()?;
//!
//! let slot = register_thread()?; // once per thread
//! let alarm = Alarm::new(slot)?;
//! alarm.arm(Duration::from_millis(200))?;
//! let mut fault = Fault::NONE;
//! // SAFETY: the slot is this thread's; the walker may be left halfway.
//! match unsafe { call(slot, walker, trace, depth, ucontext, &mut fault) } {
//!     Ok(()) => println!("returned"),
//!     Err(fault) => println!("{:?}: signal {} at {}", fault.kind, fault.signal, fault.pc()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # How
//! A naked trampoline saves the callee-saved registers on the stack and publishes its sp in the thread's [`GuardSlot`]. The fault
//! handler finds the slot by thread id, writes the fault down and rewrites pc and sp in the signal's ucontext; the kernel's own
//! return from the handler does the rest, and restores signal mask and signal stack on the way. There is no sigsetjmp, no
//! thread-local storage, no allocation and no lock. An undisturbed call costs a few nanoseconds.
//!
//! # Whose fault is it
//! | the fault | what happens |
//! |---|---|
//! | at a load of [`read_checked`] or [`read_word`] | the read fails, nothing else |
//! | in a guarded call, at a [SafeFetch](set_safefetch) instruction | the JVM's handler ([or the guard](GuardSlot::ask_jvm)) resumes it: a near miss, counted |
//! | in a guarded call, in the JVM's handler that was asked | the call's fault, marked [`Fault::in_jvm_handler`] |
//! | in a guarded call, SIGTRAP that the [guarded trap hook](TrapScope::Guarded) takes | the call goes on |
//! | SIGTRAP that the [breakpoint hook](set_breakpoint_hook) takes, anywhere | the thread goes on; asked before the trap hooks |
//! | in a guarded call, SIGSEGV or SIGBUS that the [fault hook](set_fault_hook) deals with | the call goes on |
//! | in a guarded call, any other | the call is given up. The JVM is not asked: for an address in a yellow or reserved zone or on the poll page it would unprotect the zone or jump into a stub |
//! | SIGTRAP that the [unguarded trap hook](TrapScope::Unguarded) takes | the thread goes on |
//! | anywhere else, or sent by another process | the previous handler, with its flags and mask, as the kernel would call it |
//!
//! # Duties of the user
//! - After a recovery nothing that the callee had begun is finished: destructors, locks, JVM thread states. Run a control walk,
//!   and retire the process after a bounded number of recoveries.
//! - The callee must not change its signal mask or signal stack; [`Fault::blocked_signals`] shows if it did.
//! - Handlers that may interrupt a guarded call must not fault outside guarded calls of their own: their fault would count as that of
//!   the interrupted call, and would leave their mask behind. They may make guarded calls.
//! - The alarm's signal must not be blocked where hangs are to be noticed, and should be in the `sa_mask` of handlers that may interrupt a
//!   guarded call without being part of it.
//! - Call [`Guard::reassert`] after anything that installs handlers (JVM, fuzzer), and [`unregister_thread`] before a
//!   registered thread ends (forgotten ones are reaped when the table is full).
//! - Under AddressSanitizer the callee must not be instrumented: frames that are left this way leave poison behind.
//!
//! # What it is not
//! It isolates nothing: a callee that writes to the wrong place has written there. It does not catch abort, exit, C++ exceptions
//! or a killed thread. It does not work with user shadow stacks (x86 CET, arm64 GCS), which forbid leaving frames this way. Linux only.

mod action;
mod alarm;
mod arch;
mod call;
mod checked_read;
mod error;
mod fault;
mod fault_hook;
pub mod futex;
mod handler;
mod install;
mod kept_stack;
mod mask;
mod original;
mod safefetch;
mod slot;
mod stack;
mod thread;
mod trap;
mod ucontext;

pub use alarm::Alarm;
pub use call::{GuardedFn, call, call_on_stack};
pub use checked_read::{read_checked, read_word};
pub use error::{GuardError, Unreadable};
pub use fault::{Fault, FaultKind};
pub use fault_hook::{FaultHook, set_fault_hook};
pub use install::{Guard, GuardOptions, Reassertion};
pub use kept_stack::{KeptStack, keep_stacks, kept_stack};
pub use mask::with_signals_blocked;
pub use original::wiped_in_copies;
pub use safefetch::{
    JvmHandler, SAFEFETCH_SITES, SafeFetchSite, set_jvm_handler, set_poison_page, set_safefetch,
};
pub use slot::{GuardSlot, SLOTS};
pub use thread::{
    after_fork_in_child, reap_dead_threads, register_thread, take_fault_signals_only,
    unregister_thread,
};
pub use trap::{BreakpointHook, TrapHook, TrapScope, set_breakpoint_hook, set_trap_hook};
pub use ucontext::{
    copy_context, has_trap_flag, read_pc, read_registers, register_offsets, set_trap_flag,
    write_pc, write_registers,
};
