//! One walk: the call, and how it ended.
//!
//! Signal-safe: allocates nothing, locks nothing.

use walkfuzz_guard::{Fault, FaultKind, GuardSlot, call};
use walkfuzz_record::{Breach, Code, FaultRecord, WalkOutcome};

use crate::ticks::ticks;
use crate::trace::TraceBuffer;
use crate::walker::{Call, Walker};

/// How one walk ended.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    /// The walker returned this frame count or code.
    Returned(Code),
    /// It wrote behind the last frame that it was allowed to write.
    Overran(Code),
    /// It returned, and was seen to break its contract while it ran.
    Broke(Breach, Code),
    /// It faulted, or hung and was ended.
    Faulted,
}

/// One walk.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// How it ended.
    pub ended: Ended,
    /// Faults at SafeFetch instructions that the JVM resumed.
    pub near_misses: u32,
    /// Time-stamp counter ticks between call and return.
    pub ticks: u64,
}

impl Walked {
    /// What the guard and the walker say, as one outcome. `fault` is that of the walk, if it has one; `depth` what it was allowed.
    #[inline]
    #[must_use]
    pub fn outcome(&self, fault: &Fault, depth: i32) -> WalkOutcome {
        match self.ended {
            Ended::Returned(code) if code.0 > depth => WalkOutcome::Breach(Breach::Depth),
            Ended::Returned(code) => WalkOutcome::from_num_frames(code.0),
            Ended::Broke(breach, code) if code.0 <= depth => WalkOutcome::Breach(breach),
            Ended::Broke(..) => WalkOutcome::Breach(Breach::Depth),
            Ended::Overran(_) => WalkOutcome::Breach(Breach::Canary),
            Ended::Faulted => match fault.kind {
                FaultKind::Hang => WalkOutcome::Hang,
                _ => WalkOutcome::Fault(fault_record(fault)),
            },
        }
    }
}

/// What the record keeps of a fault.
#[must_use]
pub fn fault_record(fault: &Fault) -> FaultRecord {
    FaultRecord {
        signal: fault.signal,
        code: fault.code,
        pc: fault.pc(),
        address: fault.address,
    }
}

/// Makes a prepared call under the guard.
///
/// # Safety
/// `slot` is the calling thread's, and `call` was prepared by `walker` for it and for `trace`.
#[inline]
pub unsafe fn walk_guarded(
    slot: &GuardSlot,
    walker: &(impl Walker + ?Sized),
    prepared: &Call,
    trace: &TraceBuffer,
    fault: &mut Fault,
) -> Walked {
    let near_before = slot.near_misses();
    let asked = walker.passes_for_another().then(|| slot.ask_jvm(false));
    let began = ticks();
    // SAFETY: the caller's promise; the walker's contract says that nothing in the call owns a Rust resource.
    let result = unsafe {
        call(
            slot,
            prepared.function,
            prepared.first,
            prepared.depth,
            prepared.last,
            fault,
        )
    };
    let ticks = ticks().wrapping_sub(began);
    if let Some(asked) = asked {
        slot.ask_jvm(asked);
    }
    Walked {
        ended: match result {
            Err(_) => {
                walker.left(trace);
                Ended::Faulted
            }
            Ok(()) => returned(walker, trace),
        },
        near_misses: slot.near_misses().wrapping_sub(near_before) as u32,
        ticks,
    }
}

/// Makes a prepared call without protection: a fault is the process's.
///
/// # Safety
/// As [`walk_guarded`].
#[inline]
pub unsafe fn walk_bare(
    walker: &(impl Walker + ?Sized),
    prepared: &Call,
    trace: &TraceBuffer,
) -> Walked {
    let began = ticks();
    // SAFETY: the caller's promise.
    unsafe { (prepared.function)(prepared.first, prepared.depth, prepared.last) };
    let ticks = ticks().wrapping_sub(began);
    Walked {
        ended: returned(walker, trace),
        near_misses: 0,
        ticks,
    }
}

#[inline]
fn returned(walker: &(impl Walker + ?Sized), trace: &TraceBuffer) -> Ended {
    let code = walker.finish(trace);
    match trace.breach() {
        _ if !trace.canary_intact() => Ended::Overran(code),
        Some(breach) => Ended::Broke(breach, code),
        None => Ended::Returned(code),
    }
}
