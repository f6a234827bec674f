//! Signatures of wrong frames: who says so, and why they are wrong where that is known.

use crate::signature::{Kind, Signature};

/// How the detail ends, behind the name of the walker that says so.
const DISAGREES: &str = " disagrees";

impl Signature {
    /// What a detail of wrong frames says; `why` they are wrong is there where that is known.
    #[must_use]
    pub fn disagreement(oracle: &str, why: Option<&str>) -> String {
        match why {
            Some(why) => format!("{why}, {oracle}{DISAGREES}"),
            None => format!("{oracle}{DISAGREES}"),
        }
    }

    /// Of wrong frames: the walker that says so.
    #[must_use]
    pub fn oracle(&self) -> Option<&str> {
        let said = self
            .detail
            .as_deref()
            .filter(|_| self.kind == Kind::WrongFrames)?;
        said.strip_suffix(DISAGREES)?.rsplit(", ").next()
    }
}
