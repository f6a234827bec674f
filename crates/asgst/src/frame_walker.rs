//! ASGST's walks from a frame as a walker of sessions: the iterator's and the minimal generation's, through a table of functions, ours or a library's.
//!
//! Contract: that of walkers ([`walkfuzz_walkers::Walker`]).

use std::ffi::{c_int, c_void};

use walkfuzz_record::Generation;
use walkfuzz_walkers::{Call, Start, ThreadHandle, TraceBuffer, WalkFunction, Walker, as_frame};

use crate::abi::minimal;
use crate::api::{Api, IteratorApi, MinimalApi};
use crate::walker::{Taking, take};

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

/// Where the minimal walk's frames go.
struct Sink {
    frames: *mut walkfuzz_walkers::Frame,
    room: usize,
    count: usize,
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
}

/// What the guard calls.
unsafe extern "C" fn walk_iterator(first: *mut c_void, depth: i32, last: *mut c_void) {
    // SAFETY: `prepare` passes its trace and its own table.
    unsafe {
        let (buffer, api) = (first.cast::<TraceBuffer>(), &*last.cast::<IteratorApi>());
        let [sp, fp, pc] = (*buffer).carried.map(|word| word as *mut c_void);
        let mut taking = Taking::new(api, &mut (*buffer).trace, depth);
        let argument = (&raw mut taking).cast();
        let kind = (api.run_with_iterator_from_frame)(sp, fp, pc, 0, Some(take), argument);
        let num_frames = taking.num_frames(kind);
        (*buffer).trace.num_frames = num_frames;
    }
}

/// What the guard calls.
unsafe extern "C" fn walk_minimal(first: *mut c_void, depth: i32, last: *mut c_void) {
    let trace = first.cast::<TraceBuffer>();
    // SAFETY: `prepare` passes its trace and its own table.
    unsafe {
        let mut sink = Sink {
            frames: (*trace).trace.frames,
            room: usize::try_from(depth).unwrap_or(0),
            count: 0,
        };
        let [sp, fp, pc] = (*trace).carried.map(|word| word as *mut c_void);
        let frame = minimal::Frame { pc, sp, fp };
        let from_frame = (*last.cast::<MinimalApi>()).walk_stack_from_frame;
        let argument = (&raw mut sink).cast();
        let answer = from_frame(frame, Some(java_frame), None, argument, 0);
        (*trace).trace.num_frames = match sink.count {
            0 => answer.min(0),
            count => count as i32,
        };
    }
}

/// Takes a frame, and says whether there is room for more.
unsafe extern "C" fn java_frame(info: *mut minimal::FrameInfo, argument: *mut c_void) -> c_int {
    // SAFETY: the walk's frame, and `walk_minimal`'s own, with room for as many.
    unsafe {
        let (info, sink) = (&*info, &mut *argument.cast::<Sink>());
        if sink.count < sink.room {
            let frame = walkfuzz_walkers::Frame {
                bci: info.bci,
                method: info.method as u64,
            };
            sink.frames.add(sink.count).write(frame);
            sink.count += 1;
        }
        match sink.count < sink.room {
            true => GO_ON,
            false => STOP,
        }
    }
}
