//! Frames that another walker contradicts: where two walks of one context part, and what each of them says there.
//!
//! Contract: as [`WalkOutcome`](crate::WalkOutcome), `Copy` and free of pointers, so that it can be made on a held thread.

use serde::{Deserialize, Serialize};

/// What is wrong with the first frame that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ContradictionKind {
    /// The same method at another bytecode; the frames behind it are the same.
    OtherBci = 1,
    /// Another method; the frames behind it are the same.
    OtherMethod = 2,
    /// The other walker has frames in between; those behind them are the same.
    MissingFrame = 3,
    /// It has frames in between that the other walker has not; those behind them are the same.
    ExtraFrame = 4,
    /// From there on nothing is the same.
    OtherFrames = 5,
}

impl ContradictionKind {
    /// As titles say it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            ContradictionKind::OtherBci => "other bci",
            ContradictionKind::OtherMethod => "other method",
            ContradictionKind::MissingFrame => "missing frame",
            ContradictionKind::ExtraFrame => "extra frame",
            ContradictionKind::OtherFrames => "other frames",
        }
    }
}

/// A difference between AsyncGetCallTrace and the reference walker that is understood: docs/reference-walker.md has who is right, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum KnownDifference {
    /// AsyncGetCallTrace never asks for the caller of a stub of C1's.
    C1Stub = 1,
    /// It refuses a frame whose last argument a method handle's linker took off.
    Linker = 2,
    /// It ends before a deoptimised frame.
    Deoptimised = 3,
    /// It takes a return address for an instruction that was interrupted.
    ReturnAddress = 4,
    /// It takes half a frame for a whole one, and misses the caller.
    HalfFrame = 5,
}

impl KnownDifference {
    /// All, in the order of their numbers.
    pub const ALL: [KnownDifference; 5] = [
        KnownDifference::C1Stub,
        KnownDifference::Linker,
        KnownDifference::Deoptimised,
        KnownDifference::ReturnAddress,
        KnownDifference::HalfFrame,
    ];

    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KnownDifference::C1Stub => "c1-stub",
            KnownDifference::Linker => "linker",
            KnownDifference::Deoptimised => "deoptimised",
            KnownDifference::ReturnAddress => "return-address",
            KnownDifference::HalfFrame => "half-frame",
        }
    }

    /// As titles say it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            KnownDifference::C1Stub => "ends at a stub of C1's",
            KnownDifference::Linker => "ends at a frame that a method handle's linker shortened",
            KnownDifference::Deoptimised => "ends before a deoptimised frame",
            KnownDifference::ReturnAddress => "a return address taken for an instruction",
            KnownDifference::HalfFrame => "half a frame taken for a whole one",
        }
    }
}

/// A frame as one walker gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaidFrame {
    /// `jmethodID`; 0 where the method has none.
    pub method: u64,
    /// Bytecode index; -3 for a native method.
    pub bci: i32,
}

/// Where two walks of one context part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What is wrong there.
    pub kind: ContradictionKind,
    /// Place of the first frame that differs, from 0.
    pub frame: u32,
    /// Why, where that is understood.
    pub known: Option<KnownDifference>,
    /// What the walker says there; `None` where it has no such frame.
    pub given: Option<SaidFrame>,
    /// What the other walker says there.
    pub expected: Option<SaidFrame>,
}

impl Contradiction {
    /// What makes two of them the same: the kind, whether it is the first frame, and why. Methods and depths are the moment's.
    #[must_use]
    pub const fn site(&self) -> u64 {
        let known = match self.known {
            Some(known) => known as u64,
            None => 0,
        };
        self.kind as u64 | ((self.frame > 0) as u64) << 8 | known << 16
    }

    /// The place in words: `other bci at frame 0`, `missing frame at a later frame`.
    #[must_use]
    pub fn place(&self) -> String {
        let place = if self.frame == 0 {
            "frame 0"
        } else {
            "a later frame"
        };
        format!("{} at {place}", self.kind.words())
    }

    /// Kind, known difference and frame in one word, as the mapped file keeps it: bits 0-3, 4-7, 8-31.
    #[must_use]
    pub const fn number(&self) -> u32 {
        let known = match self.known {
            Some(known) => known as u32,
            None => 0,
        };
        self.kind as u32 | known << 4 | self.frame << 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_TOP: Contradiction = Contradiction {
        kind: ContradictionKind::OtherBci,
        frame: 0,
        known: None,
        given: None,
        expected: None,
    };

    #[test]
    fn the_moment_is_no_part_of_the_site() {
        let deep = |frame| Contradiction { frame, ..AT_TOP };
        assert_eq!(deep(3).site(), deep(7).site());
        assert_ne!(deep(0).site(), deep(7).site());
        assert_eq!(deep(0).place(), "other bci at frame 0");
        assert_eq!(deep(7).place(), "other bci at a later frame");
        let known = Contradiction {
            known: Some(KnownDifference::HalfFrame),
            ..AT_TOP
        };
        assert_ne!(known.site(), AT_TOP.site());
    }

    #[test]
    fn numbers_hold_everything() {
        let one = Contradiction {
            kind: ContradictionKind::MissingFrame,
            frame: 0x1234,
            known: Some(KnownDifference::ReturnAddress),
            ..AT_TOP
        };
        assert_eq!(one.number(), 0x0012_3443);
        for (number, known) in (1..).zip(KnownDifference::ALL) {
            assert_eq!(known as u8, number);
            let json = serde_json::to_string(&known).unwrap();
            assert_eq!(json, format!("\"{}\"", known.name()));
        }
    }
}
