//! What the child says of its walks: plain numbers in shared memory, of which any value can be read.

use walkfuzz_context::{Address, Arch, MAX_REGISTERS, Registers};

use crate::capsule::{FaultOutcome, FramesOutcome, Outcome};
use crate::error::InProcessError;
use crate::in_process::Status;
use crate::outcome::Ended;

/// The child came to its end.
pub(crate) const DONE: u32 = 1;
/// A page could not be mapped: `address`.
pub(crate) const COLLISION: u32 = 2;
/// The filter was not taken.
pub(crate) const NO_FILTER: u32 = 3;

const FAULT: u32 = 1;
const FRAMES: u32 = 2;
const HANG: u32 = 3;
const SYSTEM_CALL: u32 = 4;
const MISSING_PAGE: u32 = 5;

/// In shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// How far the child came: 0, [`DONE`] ...
    pub(crate) state: u32,
    /// For [`COLLISION`].
    pub(crate) address: u64,
    pub(crate) walks: u64,
    pub(crate) identical: u64,
    /// The first walk that ended otherwise; its kind is 0 if there was none.
    other: Raw,
}

/// An end of a walk as numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Raw {
    kind: u32,
    signal: i32,
    code: i32,
    near_misses: u32,
    address: u64,
    words: [u64; MAX_REGISTERS],
}

impl Report {
    /// Notes the first walk that ended otherwise.
    pub(crate) fn note(&mut self, ended: &Ended) {
        if self.other.kind != 0 {
            return;
        }
        let raw = &mut self.other;
        match *ended {
            Ended::Outcome(Outcome::Fault(fault)) => {
                raw.kind = FAULT;
                (raw.signal, raw.code) = (fault.signal, fault.code);
                raw.near_misses = fault.near_misses;
                raw.address = fault.address.0;
                raw.words = fault.registers.words;
            }
            Ended::Outcome(Outcome::Frames(frames)) => {
                raw.kind = FRAMES;
                raw.code = frames.frames;
                raw.address = frames.hash;
                raw.near_misses = frames.near_misses;
            }
            Ended::Hang => raw.kind = HANG,
            Ended::SystemCall(number) => {
                raw.kind = SYSTEM_CALL;
                raw.address = number.cast_unsigned();
            }
            Ended::MissingPage(address) => {
                raw.kind = MISSING_PAGE;
                raw.address = address.0;
            }
        }
    }

    /// The first walk that ended otherwise.
    pub(crate) fn first_other(&self) -> Option<Ended> {
        let raw = &self.other;
        Some(match raw.kind {
            FAULT => Ended::Outcome(Outcome::Fault(FaultOutcome {
                signal: raw.signal,
                code: raw.code,
                address: Address(raw.address),
                registers: Registers {
                    arch: Arch::NATIVE,
                    words: raw.words,
                },
                near_misses: raw.near_misses,
            })),
            FRAMES => Ended::Outcome(Outcome::Frames(FramesOutcome {
                frames: raw.code,
                hash: raw.address,
                near_misses: raw.near_misses,
            })),
            HANG => Ended::Hang,
            SYSTEM_CALL => Ended::SystemCall(raw.address.cast_signed()),
            MISSING_PAGE => Ended::MissingPage(Address(raw.address)),
            _ => return None,
        })
    }

    /// Whether the child came to its end.
    pub(crate) fn check(&self, status: &Status) -> Result<(), InProcessError> {
        match (self.state, status) {
            (DONE, Status::Exited(0)) => Ok(()),
            (COLLISION, Status::Exited(_)) => Err(InProcessError::Collision {
                address: self.address,
            }),
            (NO_FILTER, Status::Exited(_)) => Err(InProcessError::Seccomp(
                "the kernel refuses the filter".to_owned(),
            )),
            (_, Status::TimedOut) => Err(InProcessError::Ended("it took too long".to_owned())),
            // From outside, the memory killer's included.
            (_, Status::Killed(signal @ (libc::SIGKILL | libc::SIGTERM))) => {
                Err(InProcessError::Ended(format!("signal {signal}")))
            }
            // The child itself ends in one of the ways above.
            (_, Status::Killed(signal)) => Err(InProcessError::Refused {
                how: format!("signal {signal}"),
            }),
            (_, Status::Exited(code)) => Err(InProcessError::Refused {
                how: format!("exit code {code}"),
            }),
        }
    }
}
