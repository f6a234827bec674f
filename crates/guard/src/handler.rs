//! The fault handler: whose fault is it, and what becomes of it.
//!
//! Allocates nothing, locks nothing, formats nothing, cannot panic. Inside a guarded call it makes one system call (gettid) and
//! returns by rewriting pc and sp in the signal's ucontext, so the kernel restores mask and signal stack as after any handler.
//! The idea is that of JIT runtimes (wasmtime, `crates/wasmtime/src/runtime/vm/sys/unix/signals.rs`).

use core::sync::atomic::Ordering::Relaxed;

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use walkfuzz_context::{Address, Registers};

use crate::action;
use crate::arch;
use crate::call::RecoveryFrame;
use crate::checked_read;
use crate::fault::{Fault, FaultKind};
use crate::fault_hook;
use crate::kept_stack;
use crate::safefetch;
use crate::slot::GuardSlot;
use crate::trap::{self, TrapScope};
use crate::ucontext;

/// What the kernel calls.
pub(crate) type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Handler of the five fault signals. Each time that the guard has to take a signal back from somebody it installs the
/// next `GENERATION`. That somebody may have remembered our earlier handler and may chain to it; being another function, it
/// passes the fault on to what was there before that somebody, and never in a circle.
pub(crate) unsafe extern "C" fn on_fault<const GENERATION: usize>(
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut c_void,
) {
    let uc = uc.cast::<ucontext_t>();
    // SAFETY: the kernel's arguments (or those of one who chains to us, which are the same), here and below.
    let pc = unsafe { arch::pc(uc) };
    if let Some(continuation) = checked_read::continuation(signal, pc) {
        // SAFETY: see above.
        unsafe { arch::set_pc(uc, continuation) };
        return;
    }
    // SAFETY: see above.
    let foreign = unsafe { sent_by_another_process(info) };
    match GuardSlot::current() {
        Some(slot) if slot.is_armed() && !foreign => {
            // SAFETY: see above; the slot is this thread's.
            unsafe { guarded_fault(slot, signal, info, uc) };
        }
        _ => {
            // SAFETY: see above.
            unsafe {
                if signal == libc::SIGTRAP && trap::ask(TrapScope::Unguarded, info, uc) {
                    return;
                }
                action::chain(GENERATION, signal, info, uc);
            }
        }
    }
}

/// A fault inside a guarded call.
///
/// # Safety
/// As [`on_fault`]; `slot` is the calling thread's and armed.
unsafe fn guarded_fault(
    slot: &GuardSlot,
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
) {
    let in_jvm_handler = safefetch::is_asking(slot);
    // SAFETY: the kernel's arguments, here and below.
    unsafe {
        if signal == libc::SIGTRAP && trap::ask(TrapScope::Guarded, info, uc) {
            return;
        }
        let may_be_fetch = signal == libc::SIGSEGV || signal == libc::SIGBUS;
        if may_be_fetch && !in_jvm_handler && safefetch::resume(slot, signal, info, uc) {
            return;
        }
        if may_be_fetch && !in_jvm_handler && fault_hook::ask(slot, signal, info, uc) {
            return;
        }
        let (trap_number, error_code) = arch::trap_and_error(uc);
        give_up(
            slot,
            uc,
            Fault {
                kind: FaultKind::Signal,
                in_jvm_handler,
                signal,
                code: (*info).si_code,
                address: Address((*info).si_addr() as u64),
                registers: Registers::zeroed(walkfuzz_context::Arch::NATIVE),
                trap_number,
                error_code,
                blocked_signals: 0,
            },
        );
    }
}

/// Ends the innermost guarded call of `slot` with `fault` (whose registers and mask are filled in here): when the handler
/// returns, the call returns.
///
/// # Safety
/// Called by a handler on the slot's thread, with its ucontext; the slot is armed.
pub(crate) unsafe fn give_up(slot: &GuardSlot, uc: *mut ucontext_t, mut fault: Fault) {
    let recovery_sp = slot.recovery_sp.load(Relaxed);
    // SAFETY: an armed slot's recovery sp is the address of a frame that its thread has not left.
    let frame = unsafe { (recovery_sp as *const RecoveryFrame).read() };
    if !frame.fault.is_null() {
        // SAFETY: the kernel's ucontext; the frame's fault outlives the call.
        unsafe {
            fault.registers = arch::read_registers(uc);
            fault.blocked_signals = ucontext::blocked_signals(uc);
            frame.fault.write(fault);
            kept_stack::keep(fault.registers.sp(), recovery_sp as u64);
        }
    }
    if fault.in_jvm_handler {
        // `uc` interrupted a handler. What it returns to is the thread, with the thread's mask.
        // SAFETY: the kernel's ucontext.
        unsafe { ucontext::set_blocked_signals(uc, slot.asking_mask.load(Relaxed)) };
        slot.asking_call.store(0, Relaxed);
    }
    // Disarmed here and not at the landing: a second tick of the alarm there finds nothing to give up.
    slot.recovery_sp.store(frame.enclosing_sp, Relaxed);
    slot.current_call.store(frame.enclosing_call, Relaxed);
    slot.recoveries.fetch_add(1, Relaxed);
    // SAFETY: see above.
    unsafe { arch::land(uc, recovery_sp) };
}

/// `kill -SEGV` from outside is nobody's fault. What the thread does to itself (`raise`) counts as its own.
///
/// # Safety
/// `info` is the kernel's.
unsafe fn sent_by_another_process(info: *const siginfo_t) -> bool {
    // SAFETY: see above; with these codes the kernel has filled in the sender.
    unsafe {
        let code = (*info).si_code;
        code <= 0 && (*info).si_pid() != libc::getpid()
    }
}
