//! What stands behind an iterator's handle.

use std::ffi::{c_int, c_void};
use std::ptr;

use walkfuzz_context::Address;
use walkfuzz_guard::read_word;
use walkfuzz_reference::{End, FrameKind, NATIVE_BCI, ReferenceFrame};

use crate::abi::iterator::{Frame, Iterator, Method, error, frame_type, options, trace_kind};
use crate::stack::{Found, StackWalk};

/// No address of a stamp gives another's value by accident.
const STAMP: u64 = 0x9e6c_63d0_876a_9a35;

/// An iterator while its handler runs.
#[repr(C)]
pub(super) struct Live {
    stamp: u64,
    walk: StackWalk,
    options: i32,
    state: c_int,
    /// The last frame that is wanted was given.
    done: bool,
}

impl Live {
    #[inline]
    pub(super) fn new(walk: StackWalk, options: i32) -> Self {
        Self {
            stamp: 0,
            walk,
            options,
            state: 1,
            done: false,
        }
    }

    /// The kind of a walk that has not begun; an error where its first frame cannot be told.
    pub(super) fn kind(&mut self) -> Result<c_int, c_int> {
        match self.walk.look_ahead() {
            Ok(()) => Ok(trace_kind::JAVA),
            Err(End::Bottom | End::NoJavaFrames) => Ok(trace_kind::NON_JAVA),
            Err(_) => Err(error::NO_TOP_JAVA_FRAME),
        }
    }

    /// What the handler is given. The iterator must not be moved until its [`end`](Self::end).
    pub(super) fn handle(&mut self) -> *mut Iterator {
        let handle = ptr::from_mut(self).cast::<Iterator>();
        self.stamp = STAMP ^ handle as u64;
        handle
    }

    /// Wipes the stamp.
    pub(super) fn end(&mut self) {
        // SAFETY: an own field; volatile, as nobody in sight reads it again.
        unsafe { ptr::write_volatile(&raw mut self.stamp, 0) };
    }

    /// The iterator behind a handle, if it is valid still.
    ///
    /// # Safety
    /// One that is valid is used by the calling thread alone.
    #[inline]
    pub(super) unsafe fn of<'a>(handle: *mut Iterator) -> Option<&'a mut Self> {
        let address = handle as u64;
        if !address.is_multiple_of(align_of::<Self>() as u64)
            || read_word(Address(address)) != Ok(STAMP ^ address)
        {
            return None;
        }
        // SAFETY: it bears its stamp, so it has not ended; it lies on the stack of the caller's caller.
        Some(unsafe { &mut *handle.cast::<Self>() })
    }

    pub(super) fn rewind(&mut self) {
        self.walk.rewind();
        (self.state, self.done) = (1, false);
    }

    pub(super) fn state(&self) -> c_int {
        self.state
    }

    /// Writes the next frame; `frame` is untouched where there is none.
    #[inline(always)]
    pub(super) fn next(&mut self, frame: &mut Frame) -> c_int {
        if self.state == 1 && self.done {
            self.state = error::NO_FRAME;
        }
        if self.state != 1 {
            return self.state;
        }
        match self.walk.next() {
            Ok(found) => {
                of_found(&found, frame);
                let is_java = matches!(found, Found::Java(_));
                self.done = is_java && self.options & options::END_ON_FIRST_JAVA_FRAME != 0;
                1
            }
            Err(end) => {
                self.state = of_end(&end);
                self.state
            }
        }
    }
}

/// What the API calls an end.
fn of_end(end: &End) -> c_int {
    use error::walker::*;
    let walker = match end {
        End::Bottom | End::NoJavaFrames => return error::NO_FRAME,
        End::Unreadable(_) | End::OutsideStack(_) | End::NotAscending(_) => INDECIPHERABLE_FRAME,
        End::NoCode(_) => INDECIPHERABLE_NATIVE_FRAME,
        End::BadMethod(_) => INDECIPHERABLE_INTERPRETED_FRAME,
        End::Full | End::NoFrame(_) | End::Upcall(_) | End::TooMany => NOT_WALKABLE,
    };
    error::OWN + walker
}

#[inline]
fn of_found(found: &Found<'_>, frame: &mut Frame) {
    *frame = match found {
        Found::Java(java) => of_java(java),
        Found::Stub(stub) => other(stub.pc.0, stub.sp.0, stub.fp.0),
        Found::Native(native) => other(native.pc.0, native.sp.0, native.fp.0),
    }
}

fn other(pc: u64, sp: u64, fp: u64) -> Frame {
    Frame {
        kind: frame_type::NON_JAVA,
        pc: pc as *mut c_void,
        sp: sp as *mut c_void,
        fp: fp as *mut c_void,
        ..Frame::NONE
    }
}

#[inline]
fn of_java(java: &ReferenceFrame) -> Frame {
    let is_native = java.bci == NATIVE_BCI;
    let kind = match java.kind {
        _ if is_native => frame_type::JAVA_NATIVE,
        FrameKind::Inlined => frame_type::JAVA_INLINED,
        _ => frame_type::JAVA,
    };
    let comp_level = match java.kind {
        FrameKind::NativeWrapper => -1,
        _ => c_int::from(java.level),
    };
    Frame {
        kind,
        comp_level,
        bci: if is_native { -1 } else { java.bci },
        method: Method(java.method.0 as usize),
        ..other(java.pc.0, java.sp.0, java.fp.0)
    }
}
