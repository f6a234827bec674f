//! The iterator that a handler is offered.

use walkfuzz_context::{Arch, Registers};
use walkfuzz_reference::Thread;

use crate::Vm;
use crate::abi::iterator::{Iterator, options};
use crate::iterator::with_iterator;
use crate::stack::{From, StackWalk};

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

/// Calls `run` with an iterator, which is valid meanwhile; with a null one, which has no frames, where not even the first can be told.
pub(super) fn offer(
    vm: &'static Vm,
    begin: &Begin,
    options: i32,
    run: &mut dyn FnMut(*mut Iterator),
) {
    let all = options & options::INCLUDE_NON_JAVA_FRAMES != 0;
    let from = From::Context(&begin.registers);
    let walk = StackWalk::new(vm, begin.thread, from, all).with_first_bci(begin.bci);
    let mut called = false;
    with_iterator(walk, options, |iterator| {
        called = true;
        run(iterator);
    });
    if !called {
        run(std::ptr::null_mut());
    }
}
