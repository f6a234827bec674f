//! Two walks of one context, frame by frame.

use walkfuzz_context::Address;
use walkfuzz_reference::{NATIVE_BCI, ReferenceFrame};
use walkfuzz_walkers::Frame;

/// How two walks of one context compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// The same methods and bytecodes.
    Equal,
    /// The same methods; this frame's bytecode differs.
    Bci(usize),
    /// AsyncGetCallTrace's frames are the first of the reference's.
    AgctEndsEarlier(usize),
    /// The other way round.
    ReferenceEndsEarlier(usize),
    /// This frame's methods differ.
    Method(usize),
}

/// Frames of the reference that belong to Java methods.
pub(crate) fn java(frames: &[ReferenceFrame]) -> impl Iterator<Item = &ReferenceFrame> {
    frames.iter().filter(|frame| frame.kind.has_method())
}

/// Compares; `methods` are those that `agct`'s ids stand for, 0 for a null id. `depth` frames at most were asked for.
pub(crate) fn compare(
    agct: &[Frame],
    methods: &[Address],
    reference: &[ReferenceFrame],
    depth: usize,
) -> Relation {
    let mut mine = java(reference);
    let mut bci = None;
    for (index, (frame, method)) in agct.iter().zip(methods).enumerate() {
        let Some(own) = mine.next() else {
            return Relation::ReferenceEndsEarlier(index);
        };
        // A method that has never had an id has none in a handler.
        if *method != own.method && frame.method != 0 {
            return Relation::Method(index);
        }
        if frame.bci != own.bci && bci.is_none() {
            bci = Some(index);
        }
    }
    match bci {
        Some(index) => Relation::Bci(index),
        None if agct.len() < depth && mine.next().is_some() => {
            Relation::AgctEndsEarlier(agct.len())
        }
        None => Relation::Equal,
    }
}

/// That the comparison sees what it is for.
pub(crate) fn check() {
    use walkfuzz_reference::FrameKind;
    let own = |method: u64, bci| ReferenceFrame {
        method: Address(method),
        bci,
        kind: FrameKind::Compiled,
        ..ReferenceFrame::NONE
    };
    let mine = [own(8, 1), ReferenceFrame::NONE, own(16, NATIVE_BCI)];
    let their = |frames: &[(u64, i32)]| -> (Vec<Frame>, Vec<Address>) {
        let frame = |(method, bci): &(u64, i32)| Frame {
            bci: *bci,
            method: *method,
        };
        let methods = frames.iter().map(|(method, _)| Address(*method));
        (frames.iter().map(frame).collect(), methods.collect())
    };
    for (frames, expected) in [
        (&[(8, 1), (16, -3)][..], Relation::Equal),
        (&[(8, 2), (16, -3)], Relation::Bci(0)),
        (&[(8, 1), (24, -3)], Relation::Method(1)),
        (&[(8, 1)], Relation::AgctEndsEarlier(1)),
        (
            &[(8, 1), (16, -3), (8, 0)],
            Relation::ReferenceEndsEarlier(2),
        ),
    ] {
        let (frames, methods) = their(frames);
        assert_eq!(compare(&frames, &methods, &mine, 100), expected);
    }
}
