//! A context that is held still, and walks from it.

use std::time::Duration;

use walkfuzz_context::Registers;
use walkfuzz_guard::{Alarm, Fault, GuardSlot, copy_context, read_registers, write_registers};
use walkfuzz_walkers::{Call, Start, ThreadHandle, TraceBuffer, Walked, Walker, walk_guarded};

use crate::hand::Hand;
use crate::worker::Worker;

/// Where a moment is walked that no thread of this process is held in.
pub trait Elsewhere {
    /// Walks from `registers`; fills `trace`, and `fault` if there is one. `None` for a walk of which nobody knows what comes.
    fn walk(
        &mut self,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
        fault: &mut Fault,
    ) -> Option<Walked>;
}

/// A walk of the held thread from the registers that it has, made by another thread while it runs on to where it is held next.
pub struct Behind<'a> {
    /// The code under test, which walks threads from others.
    pub walker: &'a dyn Walker,
    /// As many frames as are asked for.
    pub depth: i32,
    /// Where the frames go.
    pub trace: &'a mut TraceBuffer,
    /// Where a fault goes.
    pub fault: &'a mut Fault,
    /// Sees the moment before its thread is let go, if it is.
    pub begin: &'a dyn Fn(&Moment),
}

/// A held context: the registers of a thread that does not move until the moment is left.
pub struct Moment {
    /// The registers as the kernel delivered them.
    pub untouched: Registers,
    /// Which worker is held.
    pub worker: usize,
    /// How walkers name the thread.
    pub thread: ThreadHandle,
    /// Address of the thread's `JavaThread`.
    pub java_thread: u64,
    /// Where the thread's frames end.
    pub frames_end: u64,
    /// Counts moments of this process from 1: equal numbers mean the same held context.
    pub serial: u64,
    /// Whether the thread was brought here by a single step.
    pub stepped: bool,
    slot: &'static GuardSlot,
    alarm_period: Duration,
    child_alarm: Option<Alarm>,
    fault: Box<Fault>,
    elsewhere: Option<Box<dyn Elsewhere>>,
    /// Who makes the walks; not in a forked copy.
    pub(crate) hand: Option<&'static Hand>,
    scratch: Box<libc::ucontext_t>,
}

impl Moment {
    pub(crate) fn new(alarm_period: Duration, slot: &'static GuardSlot) -> Self {
        Self {
            untouched: Registers::zeroed(walkfuzz_context::Arch::NATIVE),
            worker: 0,
            thread: ThreadHandle {
                env: std::ptr::null_mut(),
                tid: 0,
            },
            java_thread: 0,
            frames_end: 0,
            serial: 0,
            stepped: false,
            slot,
            alarm_period,
            child_alarm: None,
            fault: Box::new(Fault::NONE),
            elsewhere: None,
            hand: None,
            // SAFETY: all-zero is a valid ucontext_t.
            scratch: Box::new(unsafe { std::mem::zeroed() }),
        }
    }

    /// A moment that is walked elsewhere: no guard, no alarm.
    pub(crate) fn elsewhere(place: Box<dyn Elsewhere>, slot: &'static GuardSlot) -> Self {
        Self {
            elsewhere: Some(place),
            ..Self::new(Duration::ZERO, slot)
        }
    }

    /// Takes over the context of a worker that was just parked.
    ///
    /// # Safety
    /// `context` is the kernel's and stays valid while the worker is parked.
    pub(crate) unsafe fn hold(
        &mut self,
        worker: &Worker,
        context: *const libc::ucontext_t,
        stepped: bool,
    ) {
        // SAFETY: the caller vouches for `context`.
        unsafe {
            copy_context(context, &mut self.scratch);
            self.untouched = read_registers(context);
        }
        self.worker = worker.index;
        self.thread = worker.thread;
        self.java_thread = worker.java_thread;
        self.frames_end = worker.frames_end;
        self.slot = worker.slot;
        self.stepped = stepped;
        self.serial += 1;
    }

    /// Walks the held thread from `registers` under the guard. `None` when the walker cannot begin from a context.
    ///
    /// Allocates nothing and locks nothing.
    pub fn walk(
        &mut self,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<Walked> {
        if let Some(elsewhere) = &mut self.elsewhere {
            return elsewhere.walk(registers, depth, trace, &mut self.fault);
        }
        let prepared = self.prepare(walker, registers, depth, trace)?;
        if let Some(hand) = self.hand {
            return hand.walk(walker, &prepared, trace, &mut self.fault);
        }
        // SAFETY: the calling thread is the slot's owner (it is parked and carries this flow).
        Some(unsafe { walk_guarded(self.slot, walker, &prepared, trace, &mut self.fault) })
    }

    /// The call that [`walk`](Self::walk) would make, for those who make it elsewhere. Its context is this moment's: the next walk changes it.
    pub fn prepare(
        &mut self,
        walker: &dyn Walker,
        registers: &Registers,
        depth: i32,
        trace: &mut TraceBuffer,
    ) -> Option<Call> {
        let context: *mut libc::ucontext_t = &raw mut *self.scratch;
        // SAFETY: the scratch context is ours.
        unsafe { write_registers(context, registers) };
        walker.prepare(trace, depth, self.thread, Start::Context(context.cast()))
    }

    /// The fault of the last walk that ended with [`Ended::Faulted`](crate::Ended::Faulted).
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The guard slot of the held thread, for checked reads.
    #[must_use]
    pub fn slot(&self) -> &'static GuardSlot {
        self.slot
    }

    /// Makes the guard and the alarm work in a forked copy. Call once, first thing in the child.
    pub(crate) fn adopt_after_fork(&mut self) {
        walkfuzz_guard::after_fork_in_child(self.slot);
        self.hand = None;
        // Timers are not inherited: without a new one a hanging walk would only be ended by the copy's deadline.
        self.child_alarm = Alarm::new(self.slot).ok();
        if let Some(alarm) = &self.child_alarm {
            let _ = alarm.arm(self.alarm_period);
        }
    }
}
