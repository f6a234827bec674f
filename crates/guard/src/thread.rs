//! Threads come under the guard and leave it.
//!
//! Everything here is signal-safe (system calls only), so that a Java thread can be registered by the first handler
//! that meets it, and a forked copy can go on from inside a handler.

use core::sync::atomic::Ordering::*;

use libc::pid_t;

use crate::action::FAULT_SIGNALS;
use crate::error::GuardError;
use crate::install;
use crate::mask::AllSignalsBlocked;
use crate::slot::{self, CHANGING_HANDS, FREE, GuardSlot, SLOTS, this_thread};
use crate::stack::{self, SMALLEST_KEPT};

/// Puts the calling thread under the guard: gives it a slot and, unless it has one of at least 64 KiB, a signal stack of
/// 256 KiB above a guard page. Registering again returns the same slot and repairs a signal stack that was taken away.
///
/// # Errors
/// No slot is free, memory is short, or the thread runs on a small signal stack right now.
pub fn register_thread() -> Result<&'static GuardSlot, GuardError> {
    // A handler that registers the same thread halfway through would take a second slot.
    let _blocked = AllSignalsBlocked::new();
    let tid = this_thread();
    if let Some(slot) = slot::find(tid) {
        if !slot.is_armed() {
            prepare_stacks(slot)?;
        }
        return Ok(slot);
    }
    let slot = match slot::claim(tid) {
        Some(slot) => slot,
        None => {
            reap_dead_threads();
            slot::claim(tid).ok_or(GuardError::NoSlot { slots: SLOTS })?
        }
    };
    if let Err(error) = prepare_stacks(slot) {
        slot.owner_cell().store(FREE, Release);
        return Err(error);
    }
    Ok(slot)
}

/// Takes the calling thread out of the guard: gives back its slot and signal stack. Call it before the thread ends.
///
/// # Errors
/// The thread is not registered, is inside a guarded call, or runs on the signal stack now.
pub fn unregister_thread() -> Result<(), GuardError> {
    let _blocked = AllSignalsBlocked::new();
    let slot = GuardSlot::current().ok_or(GuardError::NotRegistered)?;
    if slot.is_armed() {
        return Err(GuardError::InGuardedCall);
    }
    let mapping = slot.mapping.load(Relaxed);
    if mapping != 0 {
        let ours = stack::lane_in(mapping, 0);
        if stack::query()?.ss_sp == ours.ss_sp {
            // SAFETY: what the thread had before it was registered.
            unsafe { stack::activate(&slot.replaced.get())? };
        }
        slot.mapping.store(0, Relaxed);
        // SAFETY: the thread's signal stack is elsewhere now, and no other thread has this mapping.
        unsafe { stack::unmap(mapping) };
    }
    slot.owner_cell().store(FREE, Release);
    Ok(())
}

/// Blocks all signals on the calling thread but those of faults and the alarm's: no other handler then comes in between.
pub fn take_fault_signals_only() {
    // SAFETY: plain data, written before it is read.
    unsafe {
        let mut mask = core::mem::zeroed();
        libc::sigfillset(&mut mask);
        for signal in FAULT_SIGNALS.into_iter().chain(install::alarm_signal()) {
            libc::sigdelset(&mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, core::ptr::null_mut());
    }
}

/// Frees the slots of threads that ended without [`unregister_thread`]; returns how many. Happens by itself when the
/// table is full.
pub fn reap_dead_threads() -> usize {
    let mut reaped = 0;
    slot::each(|slot, owner| {
        let tid = owner.load(Acquire);
        if tid <= FREE || is_alive(tid) {
            return;
        }
        if owner
            .compare_exchange(tid, CHANGING_HANDS, AcqRel, Relaxed)
            .is_ok()
        {
            // Its stacks stay mapped for the slot's next owner.
            slot.reset();
            owner.store(FREE, Release);
            reaped += 1;
        }
    });
    reaped
}

/// In a forked child, whose only thread is a copy of the one that owned `slot`: makes the child's thread the owner, and
/// frees all other slots, for their threads do not exist here. Guarded calls under way go on being guarded. Timers are not
/// inherited: make a new [`crate::Alarm`].
pub fn after_fork_in_child(slot: &'static GuardSlot) {
    let tid = this_thread();
    slot::each(|_, owner| owner.store(FREE, Release));
    slot.ticked_call.store(0, Relaxed);
    slot.owner_cell().store(tid, Release);
}

/// Gives the slot's thread, the calling one, signal stacks in both lanes.
fn prepare_stacks(slot: &GuardSlot) -> Result<(), GuardError> {
    let now = stack::query()?;
    let mapping = match slot.mapping.load(Relaxed) {
        0 => stack::map()?,
        mapping => mapping,
    };
    slot.mapping.store(mapping, Relaxed);
    let ours = stack::lane_in(mapping, 0);
    if now.ss_sp == ours.ss_sp {
        return Ok(());
    }
    if now.ss_flags & libc::SS_DISABLE == 0 && now.ss_size >= SMALLEST_KEPT {
        slot.lanes[0].set(&now);
    } else {
        if now.ss_flags & libc::SS_ONSTACK != 0 {
            return Err(GuardError::OnSignalStack { size: now.ss_size });
        }
        // SAFETY: mapped for this, and unmapped only after the thread has another one.
        unsafe { stack::activate(&ours)? };
        slot.lanes[0].set(&ours);
        slot.replaced.set(&now);
    }
    slot.lanes[1].set(&stack::lane_in(mapping, 1));
    slot.lane.store(0, Relaxed);
    Ok(())
}

fn is_alive(tid: pid_t) -> bool {
    // SAFETY: signal 0 only asks.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}
