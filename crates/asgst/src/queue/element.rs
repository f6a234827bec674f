//! What is put into a queue: the first Java frame of a thread, and by what it is known again later.
//!
//! Contract: everything here is signal-safe. An element may have been changed by whom it was shown to: what is read of it is believed no more than registers are.

use std::ffi::c_void;

use walkfuzz_context::{Address, Arch, Fp, Pc, Registers, Sp};
use walkfuzz_guard::read_registers;
use walkfuzz_reference::{Anchor, CheckedMemory, FrameKind, Frames, ReferenceFrame, Thread};
use walkfuzz_vmstructs::Memory as _;

use crate::Vm;
use crate::abi::iterator::error;
use crate::abi::queue::QueueElement;

/// One element. The public part comes first; elements are 64 bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Element {
    pub(super) public: QueueElement,
    /// Bytecode index of an interpreted frame, as it was.
    pub(super) bci: i64,
    /// The stack pointer of the frame's caller; 0 if it has none.
    pub(super) caller_sp: u64,
    /// The `Method` of an interpreted frame. Compiled code cannot be replaced before its thread has come to a safepoint: pc will do.
    pub(super) method: u64,
    /// [`INTERPRETED`], [`LEFT_JAVA`].
    pub(super) flags: u64,
}

/// The frame is the interpreter's.
pub(super) const INTERPRETED: u64 = 1;
/// The thread had left Java: pc is a return address.
pub(super) const LEFT_JAVA: u64 = 2;

impl Element {
    /// From one element to the next. Documented in `include/asgst_queue.h`.
    #[cfg(test)]
    pub(super) const STRIDE: usize = 64;

    /// The registers of the frame.
    pub(super) fn registers(&self) -> Registers {
        let mut registers = Registers::zeroed(Arch::NATIVE);
        registers.set(Arch::NATIVE.pc(), self.public.pc as u64);
        registers.set(Arch::NATIVE.sp(), self.public.sp as u64);
        registers.set(Arch::NATIVE.fp(), self.public.fp as u64);
        registers
    }

    /// `thread` as it must look for a walk that begins with the frame.
    pub(super) fn thread(&self, thread: &Thread) -> Thread {
        let left = self.flags & LEFT_JAVA != 0;
        let anchor = Anchor {
            sp: Sp(self.public.sp as u64),
            pc: Pc(self.public.pc as u64),
            fp: Fp(self.public.fp as u64),
        };
        Thread {
            anchor: if left { anchor } else { Anchor::default() },
            in_java: !left,
            ..*thread
        }
    }
}

impl Default for Element {
    fn default() -> Self {
        Self {
            public: QueueElement {
                pc: std::ptr::null_mut(),
                fp: std::ptr::null_mut(),
                sp: std::ptr::null_mut(),
                arg: std::ptr::null_mut(),
            },
            bci: 0,
            caller_sp: 0,
            method: 0,
            flags: 0,
        }
    }
}

/// The innermost method of a position.
#[derive(Default)]
struct Top(Option<ReferenceFrame>);

impl Frames for Top {
    #[inline]
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        if self.0.is_none() && frame.kind.has_method() {
            self.0 = Some(*frame);
        }
        true
    }
}

/// Stubs that are looked through for a Java frame.
const STUBS: usize = 64;

/// What the thread stands in.
///
/// # Errors
/// One of ASGST's, if there is no Java frame to be found.
pub(super) fn capture(
    vm: &Vm,
    java_thread: Address,
    registers: &Registers,
    arg: *mut c_void,
) -> Result<Element, i32> {
    let thread = vm.reference.thread(&CheckedMemory, java_thread);
    let thread = thread.map_err(|_| error::THREAD_EXIT)?;
    let reference = &vm.reference;
    let mut steps = reference.begin(&CheckedMemory, &thread, registers);
    let mut top = Top::default();
    for _ in 0..STUBS {
        let end = reference.step(&CheckedMemory, &thread, &mut steps, &mut top);
        if top.0.is_some() || end.is_err() {
            break;
        }
    }
    let frame = top.0.ok_or(error::NO_TOP_JAVA_FRAME)?;
    let interpreted = frame.kind == FrameKind::Interpreted;
    let pointer = |value: u64| std::ptr::with_exposed_provenance_mut(value as usize);
    // A frame that is not the innermost was left by a call.
    let left = !thread.in_java || frame.pc != registers.pc();
    Ok(Element {
        public: QueueElement {
            pc: pointer(frame.pc.0),
            fp: pointer(frame.fp.0),
            sp: pointer(frame.sp.0),
            arg,
        },
        bci: i64::from(frame.bci),
        caller_sp: steps.upcoming_sp().map_or(0, |sp| sp.0),
        method: if interpreted { frame.method.0 } else { 0 },
        flags: if interpreted { INTERPRETED } else { 0 } | if left { LEFT_JAVA } else { 0 },
    })
}

/// The registers in a context that a client gives; `None` if it is none.
pub(super) fn registers_of(context: *mut c_void) -> Option<Registers> {
    let at = context as u64;
    let last = at.checked_add(size_of::<libc::ucontext_t>() as u64 - 8)?;
    let is_there = |at| CheckedMemory.read_u64(Address(at)).is_ok();
    if at == 0 || !at.is_multiple_of(8) || !is_there(at) || !is_there(last) {
        return None;
    }
    // SAFETY: its memory is there; any bytes are registers.
    Some(unsafe { read_registers(context.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_as_far_apart_as_the_header_says() {
        assert_eq!(size_of::<Element>(), Element::STRIDE);
        assert_eq!(std::mem::offset_of!(Element, public), 0);
    }

    #[test]
    fn what_is_no_context_is_refused() {
        for wrong in [0, 1, 7, usize::MAX - 7] {
            let context = std::ptr::with_exposed_provenance_mut(wrong);
            assert!(registers_of(context).is_none(), "{wrong:#x}");
        }
    }
}
