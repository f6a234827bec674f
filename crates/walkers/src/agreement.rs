//! Two walks of one context, frame by frame.
//!
//! Pure: allocates nothing, reads nothing but the frames.

use walkfuzz_record::{Contradiction, ContradictionKind, SaidFrame};

use crate::trace::Frame;

/// One of two walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The first.
    First,
    /// The second.
    Second,
}

/// How two walks of one context compare. Both were allowed the same number of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same methods and bytecodes, as far as both know them.
    Agree,
    /// One ends earlier; so far it says the same. It is too short, and contradicts nothing.
    Prefix {
        /// Which one.
        shorter: Voice,
        /// How many frames it has.
        frames: usize,
    },
    /// The first frame of which they say different things.
    Differ {
        /// Its place, from 0.
        at: usize,
    },
    /// The second gives no frames.
    OnlyFirst,
    /// The first gives no frames.
    OnlySecond,
    /// None gives frames.
    Neither,
}

/// How many frames one may have between two frames of the other for what lies behind to count as the same.
const BETWEEN: usize = 16;

/// Compares the frames of two walks of one context. A null method id is a method without one, and contradicts nothing.
#[inline]
#[must_use]
pub fn compare(first: &[Frame], second: &[Frame]) -> Agreement {
    match (first.is_empty(), second.is_empty()) {
        (true, true) => return Agreement::Neither,
        (true, false) => return Agreement::OnlySecond,
        (false, true) => return Agreement::OnlyFirst,
        (false, false) => {}
    }
    if let Some(at) = difference(first, second) {
        return Agreement::Differ { at };
    }
    let (shorter, frames) = match first.len().cmp(&second.len()) {
        std::cmp::Ordering::Equal => return Agreement::Agree,
        std::cmp::Ordering::Less => (Voice::First, first.len()),
        std::cmp::Ordering::Greater => (Voice::Second, second.len()),
    };
    Agreement::Prefix { shorter, frames }
}

/// What is wrong with `first`, whose frame at `at` is the first that `second` contradicts.
#[must_use]
pub fn contradiction(first: &[Frame], second: &[Frame], at: usize) -> Contradiction {
    let given = rest(first, at);
    let expected = rest(second, at);
    let same_method = given
        .first()
        .zip(expected.first())
        .is_some_and(|(given, expected)| same_method(given, expected));
    let in_place = if same_method {
        ContradictionKind::OtherBci
    } else {
        ContradictionKind::OtherMethod
    };
    let shifted = |kind, skipped: (usize, usize)| (kind, skipped);
    let candidates =
        std::iter::once(shifted(in_place, (1, 1))).chain((1..=BETWEEN).flat_map(|by| {
            [
                shifted(ContradictionKind::MissingFrame, (0, by)),
                shifted(ContradictionKind::ExtraFrame, (by, 0)),
            ]
        }));
    // Best are frames that are the same to the end, then those that are the same as far as the shorter walk goes.
    let mut partly = None;
    let mut whole = None;
    for (kind, (skip, other_skip)) in candidates {
        let (mine, theirs) = (rest(given, skip), rest(expected, other_skip));
        if difference(mine, theirs).is_some() {
            continue;
        }
        let overlap = mine.len().min(theirs.len());
        let ends_together =
            mine.len() == theirs.len() && skip <= given.len() && other_skip <= expected.len();
        let is_replaced = skip == other_skip;
        if ends_together && (overlap > 0 || is_replaced) {
            whole = whole.or(Some(kind));
        } else if overlap > 0 {
            partly = partly.or(Some(kind));
        }
    }
    let said = |frame: &Frame| SaidFrame {
        method: frame.method,
        bci: frame.bci,
    };
    Contradiction {
        kind: whole.or(partly).unwrap_or(ContradictionKind::OtherFrames),
        frame: at as u32,
        known: None,
        given: given.first().map(said),
        expected: expected.first().map(said),
    }
}

/// The first frame of which they say different things, as far as both go.
#[inline]
fn difference(first: &[Frame], second: &[Frame]) -> Option<usize> {
    first
        .iter()
        .zip(second)
        .position(|(first, second)| first.bci != second.bci || !same_method(first, second))
}

#[inline]
fn same_method(first: &Frame, second: &Frame) -> bool {
    first.method == second.method || first.method == 0 || second.method == 0
}

fn rest(frames: &[Frame], from: usize) -> &[Frame] {
    frames.get(from..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(said: &[(u64, i32)]) -> Vec<Frame> {
        let frame = |&(method, bci): &(u64, i32)| Frame { bci, method };
        said.iter().map(frame).collect()
    }

    fn agreement(first: &[(u64, i32)], second: &[(u64, i32)]) -> Agreement {
        compare(&frames(first), &frames(second))
    }

    const STACK: &[(u64, i32)] = &[(8, 1), (16, -3), (24, 7), (32, 2)];

    #[test]
    fn walks_agree_are_cut_short_or_differ() {
        assert_eq!(agreement(STACK, STACK), Agreement::Agree);
        assert_eq!(agreement(&[], &[]), Agreement::Neither);
        assert_eq!(agreement(STACK, &[]), Agreement::OnlyFirst);
        assert_eq!(agreement(&[], STACK), Agreement::OnlySecond);
        let prefix = |shorter, frames| Agreement::Prefix { shorter, frames };
        assert_eq!(agreement(&STACK[..2], STACK), prefix(Voice::First, 2));
        assert_eq!(agreement(STACK, &STACK[..3]), prefix(Voice::Second, 3));
        assert_eq!(
            agreement(&[(8, 1), (16, 5)], STACK),
            Agreement::Differ { at: 1 }
        );
        assert_eq!(agreement(&STACK[1..], STACK), Agreement::Differ { at: 0 });
    }

    #[test]
    fn a_method_without_an_id_contradicts_nothing() {
        let nameless: &[(u64, i32)] = &[(8, 1), (0, -3), (24, 7), (32, 2)];
        assert_eq!(agreement(nameless, STACK), Agreement::Agree);
        assert_eq!(agreement(STACK, nameless), Agreement::Agree);
        // Whatever method it is, it is not at two bytecodes.
        let moved: &[(u64, i32)] = &[(8, 1), (0, 4), (24, 7), (32, 2)];
        assert_eq!(agreement(moved, STACK), Agreement::Differ { at: 1 });
    }

    fn kind(first: &[(u64, i32)], second: &[(u64, i32)]) -> (ContradictionKind, u32) {
        let (first, second) = (frames(first), frames(second));
        let Agreement::Differ { at } = compare(&first, &second) else {
            panic!("{first:?} does not contradict {second:?}");
        };
        let found = contradiction(&first, &second, at);
        assert_eq!(found.frame as usize, at);
        (found.kind, found.frame)
    }

    #[test]
    fn what_is_wrong_is_told_by_what_lies_behind() {
        use ContradictionKind::{ExtraFrame, MissingFrame, OtherBci, OtherFrames, OtherMethod};
        let mut other = STACK.to_vec();
        other[1].1 = 4;
        assert_eq!(kind(&other, STACK), (OtherBci, 1));
        other[1] = (40, -3);
        assert_eq!(kind(&other, STACK), (OtherMethod, 1));
        let missing = [STACK[0], STACK[2], STACK[3]];
        assert_eq!(kind(&missing, STACK), (MissingFrame, 1));
        assert_eq!(kind(STACK, &missing), (ExtraFrame, 1));
        assert_eq!(kind(&STACK[2..], STACK), (MissingFrame, 0));
        assert_eq!(kind(&[(1, 1), (2, 2)], STACK), (OtherFrames, 0));
        // The last frame, with nothing behind.
        assert_eq!(kind(&[(8, 1), (16, 9)], &STACK[..2]), (OtherBci, 1));
        assert_eq!(kind(&[(8, 1), (40, -3)], &STACK[..2]), (OtherMethod, 1));
        // Cut short behind the difference.
        assert_eq!(kind(&[(8, 9), (16, -3)], STACK), (OtherBci, 0));
        assert_eq!(kind(&[STACK[0], STACK[2]], STACK), (MissingFrame, 1));
    }

    #[test]
    fn recursion_does_not_hide_a_missing_frame() {
        let deep: &[(u64, i32)] = &[(8, 5), (8, 9), (8, 9), (24, 7)];
        let (kind, at) = kind(&deep[1..], deep);
        assert_eq!((kind, at), (ContradictionKind::MissingFrame, 0));
    }

    #[test]
    fn both_voices_are_kept() {
        let (first, second) = (frames(&STACK[1..2]), frames(STACK));
        let found = contradiction(&first, &second, 0);
        let said = |method, bci| Some(SaidFrame { method, bci });
        assert_eq!((found.given, found.expected), (said(16, -3), said(8, 1)));
        assert_eq!(found.known, None);
    }
}
