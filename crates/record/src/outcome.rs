//! What came of one walk, and what became of a process.
//!
//! Contract: [`WalkOutcome`] is `Copy` and free of pointers, so that handlers can build and record it.

use serde::{Deserialize, Serialize};
use walkfuzz_context::{Address, Pc};

use crate::codes::Code;
use crate::contradiction::Contradiction;

/// A synchronous signal inside a guarded walk, as the guard saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FaultRecord {
    /// Signal number (`SIGSEGV` ...).
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// Where the fault happened.
    pub pc: Pc,
    /// `si_addr`: what was accessed.
    pub address: Address,
}

/// How a walker broke its contract although it came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breach {
    /// It wrote behind the frame buffer.
    Canary,
    /// It allocated.
    Allocation,
    /// It took a lock, and gave it back.
    Lock,
    /// It returned more frames than it was asked for.
    Depth,
    /// It left the signal mask or the alternate stack changed.
    SignalState,
    /// It left a lock held.
    LockHeld,
}

impl Breach {
    /// Every breach, in the order of its numbers in mapped files.
    pub const ALL: [Breach; 6] = [
        Breach::Canary,
        Breach::Allocation,
        Breach::Lock,
        Breach::Depth,
        Breach::SignalState,
        Breach::LockHeld,
    ];
}

/// What came of one walk. Near misses are no outcome: a walk can have many and still give frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOutcome {
    /// So many frames (at least one).
    Frames(u32),
    /// No frames, and a code that says why.
    Error(Code),
    /// A synchronous signal; the guard recovered.
    Fault(FaultRecord),
    /// It did not come back and an alarm ended it.
    Hang,
    /// Frames that another walker contradicts.
    WrongFrames(Contradiction),
    /// It came back, and broke its contract.
    Breach(Breach),
    /// It came back, and had written to the stack of the walked thread: the instruction that did, found by repeating the walk on
    /// protected memory.
    Wrote(FaultRecord),
}

impl WalkOutcome {
    /// Reads a trace's `num_frames`, where positive is frames and the rest is a code.
    #[inline]
    #[must_use]
    pub const fn from_num_frames(num_frames: i32) -> Self {
        if num_frames > 0 {
            WalkOutcome::Frames(num_frames.unsigned_abs())
        } else {
            WalkOutcome::Error(Code(num_frames))
        }
    }

    /// Whether the guard had to end the walk.
    #[inline]
    #[must_use]
    pub const fn was_ended(&self) -> bool {
        matches!(self, WalkOutcome::Fault(_) | WalkOutcome::Hang)
    }

    /// The kind of outcome as a stable word, as it stands in findings.
    #[must_use]
    pub const fn kind(&self) -> OutcomeKind {
        match self {
            WalkOutcome::Frames(_) => OutcomeKind::Frames,
            WalkOutcome::Error(_) => OutcomeKind::Error,
            WalkOutcome::Fault(_) => OutcomeKind::Fault,
            WalkOutcome::Hang => OutcomeKind::Hang,
            WalkOutcome::WrongFrames(_) => OutcomeKind::WrongFrames,
            WalkOutcome::Breach(_) => OutcomeKind::Breach,
            WalkOutcome::Wrote(_) => OutcomeKind::Wrote,
        }
    }
}

/// [`WalkOutcome`] without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum OutcomeKind {
    /// See [`WalkOutcome::Frames`].
    Frames = 1,
    /// See [`WalkOutcome::Error`].
    Error = 2,
    /// See [`WalkOutcome::Fault`].
    Fault = 3,
    /// See [`WalkOutcome::Hang`].
    Hang = 4,
    /// See [`WalkOutcome::WrongFrames`].
    WrongFrames = 5,
    /// See [`WalkOutcome::Breach`].
    Breach = 6,
    /// The process died during the walk or because of it: a finding of the driver, never of a handler.
    ProcessDeath = 7,
    /// See [`WalkOutcome::Wrote`].
    Wrote = 8,
}

impl OutcomeKind {
    /// The kind with this number in the mapped file.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => OutcomeKind::Frames,
            2 => OutcomeKind::Error,
            3 => OutcomeKind::Fault,
            4 => OutcomeKind::Hang,
            5 => OutcomeKind::WrongFrames,
            6 => OutcomeKind::Breach,
            7 => OutcomeKind::ProcessDeath,
            8 => OutcomeKind::Wrote,
            _ => return None,
        })
    }
}

/// What became of a JVM process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessOutcome {
    /// It ended as it should.
    Clean,
    /// The driver retired it after too many recoveries.
    Retired,
    /// `abort` or a failed `guarantee` inside a walk.
    AbortInWalk,
    /// It crashed while a walk was open.
    CrashInWalk,
    /// It crashed outside any walk, after a recovery.
    CrashAfterRecovery,
    /// It crashed outside any walk and without a recovery before.
    CrashElsewhere,
    /// It stood still.
    Hang,
    /// It used up its time.
    TimeOut,
    /// Java's or the kernel's out of memory.
    OutOfMemory,
    /// It ended with a failure and left no crash log.
    ExitWithoutLog,
    /// The user interrupted it.
    Interrupted,
}

impl ProcessOutcome {
    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ProcessOutcome::Clean => "clean",
            ProcessOutcome::Retired => "retired",
            ProcessOutcome::AbortInWalk => "abort-in-walk",
            ProcessOutcome::CrashInWalk => "crash-in-walk",
            ProcessOutcome::CrashAfterRecovery => "crash-after-recovery",
            ProcessOutcome::CrashElsewhere => "crash-elsewhere",
            ProcessOutcome::Hang => "hang",
            ProcessOutcome::TimeOut => "time-out",
            ProcessOutcome::OutOfMemory => "out-of-memory",
            ProcessOutcome::ExitWithoutLog => "exit-without-log",
            ProcessOutcome::Interrupted => "interrupted",
        }
    }

    /// Whether the process ended the way the driver wanted.
    #[must_use]
    pub const fn is_orderly(self) -> bool {
        match self {
            ProcessOutcome::Clean | ProcessOutcome::Retired | ProcessOutcome::Interrupted => true,
            ProcessOutcome::AbortInWalk
            | ProcessOutcome::CrashInWalk
            | ProcessOutcome::CrashAfterRecovery
            | ProcessOutcome::CrashElsewhere
            | ProcessOutcome::Hang
            | ProcessOutcome::TimeOut
            | ProcessOutcome::OutOfMemory
            | ProcessOutcome::ExitWithoutLog => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn num_frames_splits_at_zero() {
        assert_eq!(WalkOutcome::from_num_frames(3), WalkOutcome::Frames(3));
        assert_eq!(WalkOutcome::from_num_frames(0), WalkOutcome::Error(Code(0)));
        assert_eq!(
            WalkOutcome::from_num_frames(i32::MIN),
            WalkOutcome::Error(Code(i32::MIN))
        );
    }

    #[test]
    fn breaches_stand_in_the_order_of_their_numbers() {
        for (number, breach) in Breach::ALL.into_iter().enumerate() {
            assert_eq!(breach as usize, number);
        }
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for number in 0..=u8::MAX {
            if let Some(kind) = OutcomeKind::from_number(number) {
                assert_eq!(kind as u8, number);
            }
        }
        assert_eq!(
            OutcomeKind::from_number(WalkOutcome::Hang.kind() as u8),
            Some(OutcomeKind::Hang)
        );
    }
}
