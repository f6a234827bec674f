//! What an error code says about a walker: acceptable, interesting or forbidden, with a line of meaning.
//!
//! The words are jcstress's: *acceptable* happens in a correct walker; *interesting* is a walk that was lost and need not have been;
//! *forbidden* must not happen at all. Only *forbidden* fails a cell.

use serde::{Deserialize, Serialize};
use walkfuzz_record::{Code, Generation, RETURNED};

/// How a code is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// A correct walker says it, too.
    Acceptable,
    /// A sample was lost that a better walker would not lose.
    Interesting,
    /// It says that walker or sampler are broken.
    Forbidden,
}

impl Grade {
    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Grade::Acceptable => "acceptable",
            Grade::Interesting => "interesting",
            Grade::Forbidden => "forbidden",
        }
    }
}

/// The grade of a code and what it means.
#[must_use]
pub const fn grade(generation: Generation, code: Code) -> (Grade, &'static str) {
    match generation {
        Generation::Agct | Generation::Agct2 | Generation::Reference | Generation::AsgstMinimal => {
            agct(code.0)
        }
        Generation::AsgstEarly | Generation::AsgstLate => match code.0 {
            -10 => (Grade::Acceptable, "the thread is none of Java's"),
            -11 => (Grade::Acceptable, "there is no such thread any more"),
            -12 => (
                Grade::Acceptable,
                "the thread is in a state that cannot be walked",
            ),
            -13 | -14 => (Grade::Acceptable, "not what was asked for"),
            code => agct(code),
        },
        Generation::AsgstIterator => match code.0 {
            0 | -4 => (Grade::Acceptable, "no Java frame on the stack"),
            -1 | -2 => (Grade::Acceptable, "the thread is going away"),
            -3 => (
                Grade::Acceptable,
                "the thread is in a state that cannot be walked",
            ),
            -7..=-5 => (Grade::Interesting, "the queue did not take the sample"),
            _ => (Grade::Interesting, "the walker did not understand a frame"),
        },
        Generation::Plugin => (Grade::Acceptable, "as the plug-in says"),
        Generation::Profiler if code.0 == RETURNED.0 => (
            Grade::Acceptable,
            "nobody but the profiler knows what it found",
        ),
        Generation::Profiler => agct(code.0),
        Generation::Jfr => match code.0 {
            0 => (Grade::Acceptable, "an event without a stack"),
            -1 => (Grade::Interesting, "the stack could not be walked"),
            _ => (Grade::Interesting, "the sample never became an event"),
        },
        Generation::RequestStackTrace => match code.0 {
            0 => (Grade::Acceptable, "the JVM will walk at a safepoint"),
            _ => (Grade::Interesting, "the request was refused"),
        },
    }
}

// forte.cpp of 11 to 25.
const fn agct(code: i32) -> (Grade, &'static str) {
    match code {
        0 => (Grade::Acceptable, "no Java frame on the stack"),
        -1 => (
            Grade::Forbidden,
            "ClassLoad events are off: the agent did not prepare the JVM",
        ),
        -2 => (Grade::Acceptable, "a collection is under way"),
        -3 => (
            Grade::Acceptable,
            "in native code, and no Java frame was found",
        ),
        -4 => (
            Grade::Interesting,
            "in native code, and the stack below could not be walked",
        ),
        -5 => (
            Grade::Interesting,
            "in Java code at a pc that the walker does not understand",
        ),
        -6 => (
            Grade::Interesting,
            "in Java code, and the stack below could not be walked",
        ),
        -7 => (
            Grade::Interesting,
            "the thread is in a state that is not known",
        ),
        -8 => (Grade::Acceptable, "the thread is ending"),
        -9 => (Grade::Acceptable, "the thread is being deoptimised"),
        -10 => (Grade::Acceptable, "the thread is at a safepoint"),
        -11 => (Grade::Acceptable, "not tried"),
        _ => (Grade::Forbidden, "no code of this walker"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_depend_on_the_generation() {
        assert_eq!(grade(Generation::Agct, Code(-1)).0, Grade::Forbidden);
        assert_eq!(
            grade(Generation::AsgstIterator, Code(-1)).0,
            Grade::Acceptable
        );
        assert_eq!(grade(Generation::Agct, Code(-5)).0, Grade::Interesting);
        assert_eq!(grade(Generation::Agct, Code(-40)).0, Grade::Forbidden);
    }
}
