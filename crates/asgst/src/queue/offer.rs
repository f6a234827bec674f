//! The iterator that a handler is offered.

use walkfuzz_context::{Arch, Registers};
use walkfuzz_reference::Thread;

use crate::Vm;
use crate::abi::iterator::Iterator;

/// Where an iterator begins.
pub(super) struct Begin {
    /// The thread as a walk is to see it.
    pub(super) thread: Thread,
    pub(super) registers: Registers,
    /// The first frame's bytecode index, if that is known better than the frame now says.
    pub(super) bci: Option<i32>,
}

impl Begin {
    /// With the last Java frame of a thread at a safepoint.
    pub(super) fn at_safepoint(thread: &Thread) -> Self {
        Self {
            thread: Thread {
                in_java: false,
                ..*thread
            },
            registers: Registers::zeroed(Arch::NATIVE),
            bci: None,
        }
    }
}

/// Calls `run` with an iterator, which is valid meanwhile.
pub(super) fn offer(_vm: &Vm, _begin: &Begin, _options: i32, run: &mut dyn FnMut(*mut Iterator)) {
    run(std::ptr::null_mut());
}
