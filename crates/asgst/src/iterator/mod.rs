//! Iterators over a thread's stack.
//!
//! Contract: everything here is signal-safe. An iterator lies on the stack of the function that hands it to a handler; it bears a stamp that is wiped when the
//! handler returns, so that later use is noticed.

mod live;

use std::ffi::{c_int, c_void};

use walkfuzz_context::{Fp, Pc, Sp};
use walkfuzz_guard::read_registers;
use walkfuzz_reference::NativeFrame;

use crate::abi::iterator::{Frame, Iterator, IteratorHandler, error, options};
use crate::stack::{From, StackWalk};
use crate::thread;

use live::Live;

const BAD_ARGUMENT: c_int = error::OWN + error::walker::NO_ITERATOR;

/// `ASGST_RunWithIterator`.
///
/// # Safety
/// `context` is null or the calling thread's `ucontext_t`; `handler` may be called with an iterator and `argument`.
pub unsafe extern "C" fn run_with_iterator(
    context: *mut c_void,
    options: i32,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    let registers;
    let from = if context.is_null() {
        From::Anchor
    } else {
        // SAFETY: the caller's promise.
        registers = unsafe { read_registers(context.cast()) };
        From::Context(&registers)
    };
    // SAFETY: as above.
    unsafe { run(from, options, handler, argument) }
}

/// `ASGST_RunWithIteratorFromFrame`.
///
/// # Safety
/// `handler` may be called with an iterator and `argument`. The frame may be anything.
pub unsafe extern "C" fn run_with_iterator_from_frame(
    sp: *mut c_void,
    fp: *mut c_void,
    pc: *mut c_void,
    options: c_int,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    let from = From::Frame(NativeFrame {
        pc: Pc(pc as u64),
        sp: Sp(sp as u64),
        fp: Fp(fp as u64),
    });
    // SAFETY: the caller's promise.
    unsafe { run(from, options, handler, argument) }
}

/// # Safety
/// `handler` may be called with an iterator and `argument`.
unsafe fn run(
    from: From<'_>,
    options: i32,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    let Some(handler) = handler.filter(|_| options & !options::ALL == 0) else {
        return BAD_ARGUMENT;
    };
    let (vm, thread) = match thread::own() {
        Ok(own) => own,
        Err(error) => return error,
    };
    let all = options & options::INCLUDE_NON_JAVA_FRAMES != 0;
    let walk = StackWalk::new(vm, thread, from, all);
    // SAFETY: the caller's promise.
    with_iterator(walk, options, |iterator| unsafe {
        handler(iterator, argument);
    })
}

/// Hands an iterator over `walk` to `body` and gives the kind; an error where the first frame cannot be told, without calling it.
#[inline]
pub(crate) fn with_iterator(
    walk: StackWalk,
    options: i32,
    body: impl FnOnce(*mut Iterator),
) -> c_int {
    let mut live = Live::new(walk, options);
    let kind = match live.kind() {
        Ok(kind) => kind,
        Err(error) => return error,
    };
    body(live.handle());
    live.end();
    kind
}

/// `ASGST_RewindIterator`.
///
/// # Safety
/// An iterator that is valid is used on its handler's thread alone.
pub unsafe extern "C" fn rewind_iterator(iterator: *mut Iterator) {
    // SAFETY: the caller's promise.
    if let Some(live) = unsafe { Live::of(iterator) } {
        live.rewind();
    }
}

/// `ASGST_NextFrame`.
///
/// # Safety
/// As for [`rewind_iterator`]; `frame` is null or can be written.
pub unsafe extern "C" fn next_frame(iterator: *mut Iterator, frame: *mut Frame) -> c_int {
    if frame.is_null() {
        return BAD_ARGUMENT;
    }
    let mut given = Frame::NONE;
    let code = if iterator.is_null() {
        error::NO_FRAME
    } else {
        // SAFETY: the caller's promise.
        match unsafe { Live::of(iterator) } {
            Some(live) => live.next(&mut given),
            None => BAD_ARGUMENT,
        }
    };
    // SAFETY: the caller's promise; it need not be aligned.
    unsafe { frame.write_unaligned(given) };
    code
}

/// `ASGST_State`.
///
/// # Safety
/// As for [`rewind_iterator`].
pub unsafe extern "C" fn state(iterator: *mut Iterator) -> c_int {
    if iterator.is_null() {
        return error::NO_FRAME;
    }
    // SAFETY: the caller's promise.
    unsafe { Live::of(iterator) }.map_or(BAD_ARGUMENT, |live| live.state())
}

/// `ASGST_ThreadState`.
pub extern "C" fn thread_state() -> c_int {
    let own = crate::Vm::get().and_then(|vm| Some((vm, vm.own_java_thread()?)));
    own.map_or(0, |(vm, thread)| vm.thread_fields.jvmti_state(thread))
}
