//! Whether a sampled frame still stands.
//!
//! At a safepoint the thread's frames are those that its frame anchor leads to. A sampled frame is among them if a frame of the same code lies there whose
//! caller begins where the sampled one's caller did. A compiled method that polls when it returns has given its frame up but for the return address; then the
//! anchor's frame is the safepoint's stub, its caller is the sampled frame's, and where the poll was, the thread says.

use walkfuzz_context::Address;
use walkfuzz_reference::{CheckedMemory, End, FrameKind, Frames, ReferenceFrame, Thread};
use walkfuzz_vmstructs::Memory as _;

use super::element::{Element, INTERPRETED};
use super::statistics::Fate;
use crate::Vm;

/// Looks for the element's frame among those that are pushed.
struct Search<'a> {
    vm: &'a Vm,
    element: &'a Element,
    /// `JavaThread::_saved_exception_pc`: where the last poll was.
    polled: Option<Address>,
    previous: Option<ReferenceFrame>,
    is_first: bool,
    fate: Option<Fate>,
}

impl Search<'_> {
    /// Whether `pc` is in the element's code.
    fn is_code(&self, pc: u64) -> bool {
        let own = self.element.public.pc as u64;
        let blob = |pc| self.vm.reference.blob_at(&CheckedMemory, Address(pc));
        blob(own).is_some_and(|blob| blob.span.contains(Address(pc)))
    }

    /// Whether `frame`, which was called by what begins at the element's caller, is the element's.
    fn is_it(&self, frame: &ReferenceFrame) -> bool {
        if self.element.flags & INTERPRETED != 0 {
            return frame.kind == FrameKind::Interpreted
                && frame.method.0 == self.element.method
                && frame.fp.0 == self.element.public.fp as u64;
        }
        match frame.kind {
            FrameKind::Stub if self.is_first => {
                self.polled.is_some_and(|polled| self.is_code(polled.0))
            }
            FrameKind::Interpreted | FrameKind::Entry => false,
            _ => self.is_code(frame.pc.0),
        }
    }
}

impl Frames for Search<'_> {
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        let Some(previous) = self.previous else {
            self.previous = Some(*frame);
            return true;
        };
        if (previous.pc, previous.sp) == (frame.pc, frame.sp) {
            return true;
        }
        if frame.sp.0 < self.element.caller_sp {
            self.previous = Some(*frame);
            self.is_first = false;
            return true;
        }
        let stands = frame.sp.0 == self.element.caller_sp && self.is_it(&previous);
        self.fate = Some(if stands { Fate::Unbiased } else { Fate::Gone });
        false
    }
}

/// What becomes of an element of `thread`, which stands at a safepoint.
pub(super) fn fate(vm: &Vm, thread: &Thread, element: &Element) -> Fate {
    if element.caller_sp == 0 {
        // What called it was not known when it was sampled.
        return Fate::Unknown;
    }
    let at_safepoint = Thread {
        in_java: false,
        ..*thread
    };
    let mut search = Search {
        vm,
        element,
        polled: polled(vm, thread.address),
        previous: None,
        is_first: true,
        fate: None,
    };
    let end = vm.reference.walk_into(
        &CheckedMemory,
        &at_safepoint,
        &element.registers(),
        &mut search,
    );
    match (search.fate, end) {
        (Some(fate), _) => fate,
        // All frames lie below it.
        (None, End::Bottom | End::NoJavaFrames) => Fate::Gone,
        (None, _) => Fate::Unknown,
    }
}

fn polled(vm: &Vm, java_thread: Address) -> Option<Address> {
    let field = vm
        .hotspot
        .tables()
        .field("JavaThread", "_saved_exception_pc")?;
    let at = Address(java_thread.0.wrapping_add(field.offset));
    CheckedMemory.read_pointer(at).ok()
}
