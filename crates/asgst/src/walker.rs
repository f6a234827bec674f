//! ASGST's walks from a frame as a walker of sessions: the iterator's and the minimal generation's, through a table of functions, ours or a library's.
//!
//! Contract: that of walkers ([`walkfuzz_walkers::Walker`]).

use std::ffi::{c_int, c_void};

use walkfuzz_record::{Code, Generation};
use walkfuzz_walkers::{Call, Start, ThreadHandle, TraceBuffer, WalkFunction, Walker, as_frame};

use crate::abi::iterator::{self, Iterator, frame_type};
use crate::abi::minimal;
use crate::api::{Api, IteratorApi, MinimalApi};

/// AsyncGetCallTrace's bci of a native method.
const NATIVE: c_int = -3;
/// What callbacks say to go on.
const GO_ON: c_int = 1;
/// What they say when there is no more room.
const STOP: c_int = 0;

/// Which generation's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameWalk {
    /// `RunWithIteratorFromFrame`.
    Iterator,
    /// `WalkStackFromFrame`.
    Minimal,
}

impl FrameWalk {
    /// The walker's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrameWalk::Iterator => "asgst-iterator-frame",
            FrameWalk::Minimal => "asgst-minimal-frame",
        }
    }

    /// Whose codes it speaks.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            FrameWalk::Iterator => Generation::AsgstIterator,
            FrameWalk::Minimal => Generation::AsgstMinimal,
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct FrameWalker {
    walk: FrameWalk,
    name: &'static str,
    functions: Functions,
}

#[derive(Clone, Copy, Debug)]
enum Functions {
    Iterator(IteratorApi),
    Minimal(MinimalApi),
}

/// Where frames go.
struct Sink {
    functions: *const IteratorApi,
    frames: *mut walkfuzz_walkers::Frame,
    room: usize,
    count: usize,
    /// What the last NextFrame said.
    code: c_int,
}

impl FrameWalker {
    /// `None` if the implementation lacks this generation. `name` is what findings call it.
    #[must_use]
    pub fn new(api: &Api, walk: FrameWalk, name: &'static str) -> Option<Self> {
        let functions = match walk {
            FrameWalk::Iterator => Functions::Iterator(api.iterator?),
            FrameWalk::Minimal => Functions::Minimal(api.minimal?),
        };
        Some(Self {
            walk,
            name,
            functions,
        })
    }
}

impl Walker for FrameWalker {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generation(&self) -> Generation {
        self.walk.generation()
    }

    #[inline]
    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let depth = trace.reset(depth);
        trace.trace.env = thread.env;
        // SAFETY: what walkers are given.
        let Start::Frame { sp, fp, pc } = (unsafe { as_frame(start) }) else {
            return None;
        };
        trace.carried = [sp, fp, pc];
        let (function, last): (WalkFunction, *const c_void) = match &self.functions {
            Functions::Iterator(api) => (walk_iterator, std::ptr::from_ref(api).cast()),
            Functions::Minimal(api) => (walk_minimal, std::ptr::from_ref(api).cast()),
        };
        Some(Call {
            function,
            first: std::ptr::from_mut(trace).cast(),
            depth,
            last: last.cast_mut(),
        })
    }

    #[inline]
    fn finish(&self, trace: &TraceBuffer) -> Code {
        Code(trace.trace.num_frames)
    }
}

impl Sink {
    /// # Safety
    /// `trace` is valid.
    unsafe fn of(trace: *mut TraceBuffer, room: i32, functions: *const IteratorApi) -> Self {
        Self {
            functions,
            // SAFETY: the caller's promise.
            frames: unsafe { (*trace).trace.frames },
            room: usize::try_from(room).unwrap_or(0),
            count: 0,
            code: 0,
        }
    }

    /// Whether there is room for more behind it.
    ///
    /// # Safety
    /// `frames` has the room.
    unsafe fn take(&mut self, bci: c_int, method: u64) -> bool {
        if self.count < self.room {
            let frame = walkfuzz_walkers::Frame { bci, method };
            // SAFETY: the caller's promise.
            unsafe { self.frames.add(self.count).write(frame) };
            self.count += 1;
        }
        self.count < self.room
    }

    /// Frames, or a code that says why there are none.
    fn num_frames(&self, answer: c_int) -> i32 {
        match (self.count, answer) {
            (0, answer) if answer > 0 => self.code.min(0),
            (0, answer) => answer,
            (count, _) => count as i32,
        }
    }
}

/// What the guard calls.
unsafe extern "C" fn walk_iterator(first: *mut c_void, depth: i32, last: *mut c_void) {
    let trace = first.cast::<TraceBuffer>();
    let api = last.cast_const().cast::<IteratorApi>();
    // SAFETY: `prepare` passes its trace and its own table.
    unsafe {
        let mut sink = Sink::of(trace, depth, api);
        let [sp, fp, pc] = (*trace).carried.map(|word| word as *mut c_void);
        let argument = (&raw mut sink).cast();
        let from_frame = (*api).run_with_iterator_from_frame;
        let answer = from_frame(sp, fp, pc, 0, Some(each_frame), argument);
        (*trace).trace.num_frames = sink.num_frames(answer);
    }
}

unsafe extern "C" fn each_frame(iterator: *mut Iterator, argument: *mut c_void) {
    // SAFETY: `walk_iterator` passes its own.
    unsafe {
        let sink = &mut *argument.cast::<Sink>();
        let api = &*sink.functions;
        let mut frame: iterator::Frame = std::mem::zeroed();
        loop {
            sink.code = (api.next_frame)(iterator, &raw mut frame);
            if sink.code != 1 {
                return;
            }
            let bci = match frame.kind {
                frame_type::JAVA_NATIVE => NATIVE,
                _ => frame.bci,
            };
            let id = (api.method_to_jmethod_id)(frame.method);
            if !sink.take(bci, id as u64) {
                return;
            }
        }
    }
}

/// What the guard calls.
unsafe extern "C" fn walk_minimal(first: *mut c_void, depth: i32, last: *mut c_void) {
    let trace = first.cast::<TraceBuffer>();
    // SAFETY: `prepare` passes its trace and its own table.
    unsafe {
        let mut sink = Sink::of(trace, depth, std::ptr::null());
        let [sp, fp, pc] = (*trace).carried.map(|word| word as *mut c_void);
        let frame = minimal::Frame { pc, sp, fp };
        let from_frame = (*last.cast_const().cast::<MinimalApi>()).walk_stack_from_frame;
        let argument = (&raw mut sink).cast();
        let answer = from_frame(frame, Some(java_frame), None, argument, 0);
        (*trace).trace.num_frames = sink.num_frames(answer);
    }
}

unsafe extern "C" fn java_frame(info: *mut minimal::FrameInfo, argument: *mut c_void) -> c_int {
    // SAFETY: the walk's frame, and `walk_minimal`'s own.
    unsafe {
        let info = &*info;
        match (*argument.cast::<Sink>()).take(info.bci, info.method as u64) {
            true => GO_ON,
            false => STOP,
        }
    }
}
