//! What a walker's number means. Codes are keyed by the walker's generation, never by the number alone: -10 is
//! `ticks_safepoint` for AsyncGetCallTrace and `THREAD_NOT_JAVA` for JEP 435.
//!
//! Contract: pure, signal-safe. Not here: which code is acceptable (that is the stress suite's grading).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result code of a walk that gave no frames: 0 or negative, in the words of its walker's [`Generation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub i32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! generations {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A family of walkers that share one table of codes.
        ///
        /// The numbers are part of the mapped file's format: add at the end, never renumber.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Generation {
            $($(#[$doc])* #[serde(rename = $name)] $variant = $number,)*
        }

        impl Generation {
            /// Every generation, in the order of their numbers.
            pub const ALL: &'static [Generation] = &[$(Generation::$variant),*];

            /// The short stable name used in reports and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Generation::$variant => $name,)*
                }
            }

            /// The generation with this number in the mapped file.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Generation::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

generations! {
    /// AsyncGetCallTrace of stock HotSpot (`forte.cpp`).
    Agct = 1, "agct";
    /// AsyncGetCallTrace2, prototypes of 2022.
    Agct2 = 2, "agct2";
    /// JEP 435 AsyncGetStackTrace, the first ABI (24-byte trace).
    AsgstEarly = 3, "asgst-early";
    /// JEP 435 AsyncGetStackTrace, the later ABI (32-byte trace).
    AsgstLate = 4, "asgst-late";
    /// Iterator and queue (`profile2.h`, 2023).
    AsgstIterator = 5, "asgst-iterator";
    /// Minimal ASGST (2024).
    AsgstMinimal = 6, "asgst-minimal";
    /// walkfuzz's own reference walker; it uses AsyncGetCallTrace's codes.
    Reference = 7, "reference";
    /// A walker from a plug-in, which brings its own names.
    Plugin = 8, "plugin";
    /// JFR's samplers, whose samples are read back from a recording.
    Jfr = 9, "jfr";
    /// JVMTI's extension function RequestStackTrace, which leaves the walk to JFR.
    RequestStackTrace = 10, "request-stack-trace";
    /// A shipped profiler's handler, called as a whole: AsyncGetCallTrace's codes where it asked that, else [`RETURNED`].
    Profiler = 11, "profiler";
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A profiler's handler came back, and nobody but itself knows what it found.
pub const RETURNED: Code = Code(-12);

/// What `code` is called in `generation`; `"unnamed"` where that generation gives the number no name.
#[must_use]
pub const fn code_name(generation: Generation, code: Code) -> &'static str {
    match generation {
        Generation::Agct | Generation::Reference => agct(code.0),
        Generation::Agct2 => agct2(code.0),
        Generation::AsgstEarly => asgst_early(code.0),
        Generation::AsgstLate => asgst_late(code.0),
        Generation::AsgstIterator => asgst_iterator(code.0),
        Generation::AsgstMinimal => asgst_minimal(code.0),
        Generation::Plugin => UNNAMED,
        Generation::Profiler if code.0 == RETURNED.0 => "returned",
        Generation::Profiler => agct(code.0),
        Generation::Jfr => jfr(code.0),
        Generation::RequestStackTrace => request(code.0),
    }
}

// Ours: JFR has no codes. A lost sample never became an event.
const fn jfr(code: i32) -> &'static str {
    match code {
        0 => "no stack",
        -1 => "failed",
        -2 => "lost",
        _ => UNNAMED,
    }
}

// Ours: JVMTI's errors are positive.
const fn request(code: i32) -> &'static str {
    match code {
        0 => "requested",
        -1 => "NOT_AVAILABLE",
        -2 => "INVALID_THREAD",
        -3 => "another error",
        _ => UNNAMED,
    }
}

const UNNAMED: &str = "unnamed";

// forte.cpp; -11 is not HotSpot's: profilers use it for a sample that they skipped.
const fn agct(code: i32) -> &'static str {
    match code {
        0 => "ticks_no_Java_frame",
        -1 => "ticks_no_class_load",
        -2 => "ticks_GC_active",
        -3 => "ticks_unknown_not_Java",
        -4 => "ticks_not_walkable_not_Java",
        -5 => "ticks_unknown_Java",
        -6 => "ticks_not_walkable_Java",
        -7 => "ticks_unknown_state",
        -8 => "ticks_thread_exit",
        -9 => "ticks_deopt",
        -10 => "ticks_safepoint",
        -11 => "skipped",
        _ => UNNAMED,
    }
}

// asgct2.hpp: no -6.
const fn agct2(code: i32) -> &'static str {
    match code {
        0 => "NO_JAVA_FRAME",
        -1 => "NO_CLASS_LOAD",
        -2 => "GC_ACTIVE",
        -3 => "UNKNOWN_NOT_JAVA",
        -4 => "NOT_WALKABLE_NOT_JAVA",
        -5 => "UNKNOWN_JAVA",
        -7 => "UNKNOWN_STATE",
        -8 => "THREAD_EXIT",
        -9 => "DEOPT",
        _ => UNNAMED,
    }
}

// JEP 435, openjdk/jdk#11767.
const fn asgst_early(code: i32) -> &'static str {
    match code {
        -10 => "THREAD_NOT_JAVA",
        _ => agct2(code),
    }
}

// JEP 435, jdk-sandbox: the early table and five more.
const fn asgst_late(code: i32) -> &'static str {
    match code {
        -6 => "NOT_WALKABLE_JAVA",
        -11 => "NO_THREAD",
        -12 => "UNSAFE_STATE",
        -13 => "WRONG_STATE",
        -14 => "WRONG_KIND",
        _ => asgst_early(code),
    }
}

// profile2.h, final form; -16 and below are the implementation's walker errors minus 16.
const fn asgst_iterator(code: i32) -> &'static str {
    match code {
        0 => "NO_FRAME",
        -1 => "NO_THREAD",
        -2 => "THREAD_EXIT",
        -3 => "UNSAFE_STATE",
        -4 => "NO_TOP_JAVA_FRAME",
        -5 => "ENQUEUE_NO_QUEUE",
        -6 => "ENQUEUE_FULL_QUEUE",
        -7 => "ENQUEUE_OTHER_ERROR",
        -16 => "walker: no Java frame",
        -17 => "walker: indecipherable frame",
        -18 => "walker: indecipherable native frame",
        -19 => "walker: indecipherable interpreted frame",
        -22 => "walker: not walkable",
        _ => UNNAMED,
    }
}

// profile.h of 2024.
const fn asgst_minimal(code: i32) -> &'static str {
    match code {
        0 => "no_Java_frame",
        -1 => "no_class_load",
        -2 => "GC_active",
        -3 => "unknown_not_Java",
        -4 => "not_walkable_not_Java",
        -5 => "unknown_Java",
        -6 => "not_walkable_Java",
        -7 => "unknown_state",
        -8 => "thread_exit",
        -9 => "deopt",
        -10 => "safepoint",
        -11 => "unsupported_option",
        _ => UNNAMED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_means_different_things() {
        let names: Vec<_> = Generation::ALL
            .iter()
            .map(|&generation| code_name(generation, Code(-10)))
            .collect();
        assert_eq!(
            names,
            [
                "ticks_safepoint",
                "unnamed",
                "THREAD_NOT_JAVA",
                "THREAD_NOT_JAVA",
                "unnamed",
                "safepoint",
                "ticks_safepoint",
                "unnamed",
                "unnamed",
                "unnamed",
                "ticks_safepoint"
            ]
        );
        assert_eq!(code_name(Generation::Agct2, Code(-6)), "unnamed");
        assert_eq!(
            code_name(Generation::AsgstLate, Code(-6)),
            "NOT_WALKABLE_JAVA"
        );
    }

    #[test]
    fn agct_names_every_code_of_its_table() {
        for code in -10..=0 {
            assert!(
                code_name(Generation::Agct, Code(code)).starts_with("ticks_"),
                "{code}"
            );
        }
        assert_eq!(code_name(Generation::Agct, Code(1)), "unnamed");
        assert_eq!(code_name(Generation::Agct, Code(i32::MIN)), "unnamed");
    }

    #[test]
    fn numbers_and_names_round_trip() {
        for &generation in Generation::ALL {
            assert_eq!(Generation::from_number(generation as u8), Some(generation));
            let json = serde_json::to_string(&generation).unwrap();
            assert_eq!(json, format!("\"{}\"", generation.name()));
        }
        assert_eq!(Generation::from_number(0), None);
        assert_eq!(Generation::from_number(255), None);
    }
}
