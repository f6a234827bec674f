//! How a replayed walk ended, and whether that is what it must do.

use serde::Serialize;
use walkfuzz_context::Address;

use crate::capsule::{FaultOutcome, FramesOutcome, Outcome};

/// A frame that a replayed walk gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnedFrame {
    /// Bytecode index; below 0 a code of the walker's.
    pub bci: i32,
    /// `jmethodID`.
    pub method: u64,
}

/// How a replayed walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the handler of the fast lane makes one: it cannot allocate"
)]
pub enum Ended {
    /// It came to an end that a capsule can expect.
    Outcome(Outcome),
    /// It did not come to an end.
    Hang,
    /// It wanted to make this system call, and was refused.
    SystemCall(i64),
    /// It accessed a page that the process had and the capsule has not: what comes of it, nobody knows.
    #[serde(serialize_with = "page")]
    MissingPage(Address),
}

fn page<S: serde::Serializer>(address: &Address, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(address)
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Outcome(outcome) => outcome.fmt(f),
            Self::Hang => f.write_str("the walk does not end"),
            Self::SystemCall(number) => write!(f, "the walk wants to make system call {number}"),
            Self::MissingPage(address) => {
                write!(f, "the walk reads {address}, which is not in the capsule")
            }
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fault(FaultOutcome {
                signal,
                code,
                address,
                registers,
                near_misses,
            }) => write!(
                f,
                "signal {signal}, code {code}, address {address}, pc {}, {near_misses} near misses",
                registers.pc()
            ),
            Self::Frames(FramesOutcome {
                frames,
                hash,
                near_misses,
            }) => write!(
                f,
                "{frames} frames, hash {hash:#018x}, {near_misses} near misses"
            ),
        }
    }
}

impl Outcome {
    /// Whether `other` is the same, to the last register.
    #[must_use]
    pub fn is(&self, other: &Ended) -> bool {
        *other == Ended::Outcome(*self)
    }

    /// What of `other` is not as it is here, each as a line; nothing if they are the same.
    #[must_use]
    pub fn differences(&self, other: &Ended) -> Vec<String> {
        let Ended::Outcome(other) = other else {
            return vec![format!("expected {self}, but {other}")];
        };
        let mut lines = Vec::new();
        let mut compare = |name: &str, expected: String, found: String| {
            if expected != found {
                lines.push(format!("{name}: expected {expected}, got {found}"));
            }
        };
        match (self, other) {
            (Self::Fault(expected), Self::Fault(found)) => {
                let pair = |one: i32, other: i32| (one.to_string(), other.to_string());
                let (one, two) = pair(expected.signal, found.signal);
                compare("signal", one, two);
                let (one, two) = pair(expected.code, found.code);
                compare("code", one, two);
                let (one, two) = (expected.address.to_string(), found.address.to_string());
                compare("address", one, two);
                let words = expected.registers.words.iter().zip(found.registers.words);
                let names = expected.registers.arch.register_names().iter();
                for (name, (one, two)) in names.zip(words) {
                    compare(name, format!("{one:#x}"), format!("{two:#x}"));
                }
                let (one, two) = (expected.near_misses, found.near_misses);
                compare("near misses", one.to_string(), two.to_string());
            }
            (Self::Frames(expected), Self::Frames(found)) => {
                let (one, two) = (expected.frames, found.frames);
                compare("frames", one.to_string(), two.to_string());
                let (one, two) = (expected.hash, found.hash);
                compare("hash", format!("{one:#x}"), format!("{two:#x}"));
                let (one, two) = (expected.near_misses, found.near_misses);
                compare("near misses", one.to_string(), two.to_string());
            }
            (expected, found) => compare("outcome", expected.to_string(), found.to_string()),
        }
        lines
    }
}
