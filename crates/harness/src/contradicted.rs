//! Wrong frames as a finding tells them: with names.

use walkfuzz_record::finding::{FindingContradiction, JavaFrame, MOST_SAID};
use walkfuzz_record::{Contradiction, Finding, SaidFrame};
use walkfuzz_walkers::Frame;

use crate::world::World;

/// With as much of both walks as the outcome itself holds.
pub(crate) fn first_frames(
    world: &World,
    oracle: &str,
    found: &Contradiction,
) -> FindingContradiction {
    let one = |said: Option<SaidFrame>| {
        let frame = said.map(|said| java_frame(world, said.method, said.bci));
        frame.into_iter().collect()
    };
    FindingContradiction {
        oracle: oracle.to_owned(),
        kind: found.kind,
        frame: found.frame,
        known: found.known,
        given: one(found.given),
        expected: one(found.expected),
    }
}

/// With the frames of both walks from the first that differs on.
pub(crate) fn frames(
    world: &World,
    oracle: &str,
    found: &Contradiction,
    given: &[Frame],
    expected: &[Frame],
) -> FindingContradiction {
    let named = |frames: &[Frame]| {
        let from = frames.iter().skip(found.frame as usize).take(MOST_SAID);
        from.map(|frame| java_frame(world, frame.method, frame.bci))
            .collect()
    };
    FindingContradiction {
        given: named(given),
        expected: named(expected),
        ..first_frames(world, oracle, found)
    }
}

/// Puts what both walkers say into the finding.
pub fn tell(finding: &mut Finding, said: FindingContradiction) {
    finding.outcome.detail = Some(sentence(&finding.walker.name, &said));
    finding.outcome.contradiction = Some(said);
}

/// In a sentence.
fn sentence(walker: &str, said: &FindingContradiction) -> String {
    let frame = |frames: &[JavaFrame]| match frames.first() {
        Some(frame) => format!("{} at bci {}", frame.method, frame.bci),
        None => "no such frame".to_owned(),
    };
    let why = said
        .known
        .map_or_else(String::new, |known| format!(" ({})", known.words()));
    format!(
        "{} at frame {}{why}: {walker} gives {}, {} gives {}",
        said.kind.words(),
        said.frame,
        frame(&said.given),
        said.oracle,
        frame(&said.expected),
    )
}

/// A frame with its method's name.
fn java_frame(world: &World, id: u64, bci: i32) -> JavaFrame {
    JavaFrame {
        method: world.method_of_id(id),
        bci,
    }
}
