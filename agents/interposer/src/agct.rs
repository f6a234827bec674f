//! AsyncGetCallTrace as the profiler gets it: the JVM's, whose answer is noted on its way.
//!
//! It tells which walker is really at work, and what the profiler was told about a perturbed context beside the untouched one of the same signal.
//!
//! Contract: [`on_agct`] is called in the profiler's handlers; the notes belong to who has the turn.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use walkfuzz_walkers::{CallTrace, Frame, WalkFunction};

use crate::turn;

/// The JVM's own; 0: the profiler never asked for it.
static REAL: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static HASH: AtomicU64 = AtomicU64::new(0);

/// What the profiler was told in one call of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// How often it asked.
    pub(crate) calls: u32,
    /// The last answer: frames, or a code.
    pub(crate) code: i32,
    hash: u64,
}

/// How two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The same frames, or none both times.
    Same,
    /// No frames any more.
    Lost,
    /// Other frames, or frames where there were none: nothing says so.
    Other,
}

impl Told {
    /// How `self` differs from what was told of the untouched context.
    pub(crate) fn beside(&self, untouched: &Told) -> Difference {
        match (untouched.code > 0, self.code > 0) {
            (true, false) => Difference::Lost,
            (false, true) => Difference::Other,
            (true, true) if (self.code, self.hash) != (untouched.code, untouched.hash) => {
                Difference::Other
            }
            _ => Difference::Same,
        }
    }
}

/// Forgets what was told.
pub(crate) fn forget() {
    CALLS.store(0, Relaxed);
}

/// What was told since; `None`: the profiler did not ask.
pub(crate) fn told() -> Option<Told> {
    let calls = CALLS.load(Relaxed);
    (calls != 0).then(|| Told {
        calls,
        code: CODE.load(Relaxed),
        hash: HASH.load(Relaxed),
    })
}

/// Takes the place of the profiler's `dlsym`.
pub(crate) unsafe extern "C" fn on_dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's arguments.
    let found = unsafe { libc::dlsym(library, name) };
    // SAFETY: as above.
    let is_agct = !name.is_null() && unsafe { CStr::from_ptr(name) } == c"AsyncGetCallTrace";
    if found.is_null() || !is_agct {
        return found;
    }
    REAL.store(found as usize, Release);
    on_agct as *mut c_void
}

/// Takes the place of AsyncGetCallTrace.
unsafe extern "C" fn on_agct(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `on_dlsym` stored it before it gave this function away; the arguments are the caller's.
    unsafe {
        let real: WalkFunction = std::mem::transmute(REAL.load(Acquire));
        real(trace, depth, context);
    }
    // SAFETY: no arguments.
    if !turn::is_mine(unsafe { libc::gettid() }) {
        return;
    }
    // SAFETY: the caller's trace, which the JVM has filled in: so many frames stand where it points.
    let (code, frames) = unsafe {
        let trace = &*trace.cast::<CallTrace>();
        let count = trace.num_frames.clamp(0, depth.max(0)) as usize;
        let frames: &[Frame] = match count {
            0 => &[],
            count => std::slice::from_raw_parts(trace.frames, count),
        };
        (trace.num_frames, frames)
    };
    CODE.store(code, Relaxed);
    HASH.store(walkfuzz_walkers::hash(frames), Relaxed);
    CALLS.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_held_beside_each_other() {
        let told = |code, hash| Told {
            calls: 1,
            code,
            hash,
        };
        let frames = told(5, 1);
        assert_eq!(told(5, 1).beside(&frames), Difference::Same);
        assert_eq!(told(5, 2).beside(&frames), Difference::Other);
        assert_eq!(told(-5, 1).beside(&frames), Difference::Lost);
        assert_eq!(frames.beside(&told(-5, 0)), Difference::Other);
        assert_eq!(told(-3, 0).beside(&told(-5, 7)), Difference::Same);
    }
}
