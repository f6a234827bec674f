//! The buffer that a walker writes frames into, with a canary behind the last frame it may write.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use walkfuzz_record::Breach;

use crate::plugin::PluginCall;
use crate::remote::Errand;

/// The most frames that one walk may ask for.
pub const MAX_DEPTH: usize = 2048;

/// What stands behind the last frame of each walk.
pub const CANARY: Frame = Frame {
    bci: 0x5aa5_c33c,
    method: 0xdead_c0de_5aa5_c33c,
};

/// One frame as AsyncGetCallTrace writes it (`ASGCT_CallFrame`, 16 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Frame {
    /// Bytecode index; -3 for a native method. The field is called `lineno` in its own declaration.
    pub bci: i32,
    /// `jmethodID`.
    pub method: u64,
}

/// `ASGCT_CallTrace`, 24 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallTrace {
    /// The walked thread's `JNIEnv`.
    pub env: *mut std::ffi::c_void,
    /// How many frames, or a code that says why there are none.
    pub num_frames: i32,
    /// Where the frames go: room for as many as the walk may ask for.
    pub frames: *mut Frame,
}

/// A trace and its frames. Belongs to one thread at a time; boxed, so that its address does not move.
#[derive(Debug)]
#[repr(C)]
pub struct TraceBuffer {
    /// What a walker of AsyncGetCallTrace's shape gets. Valid from [`reset`](Self::reset) on.
    pub trace: CallTrace,
    pub(crate) frames: [Frame; MAX_DEPTH + 1],
    pub(crate) depth: usize,
    /// What a call of a library needs beside the guard's three arguments.
    pub(crate) plugin: Option<PluginCall>,
    /// What was noticed in the walk: 0, or a breach's number and 1. Atomic, because it is written through the call's pointer.
    noted: AtomicU32,
    /// What an adapter that is not of this crate needs in its call beside the guard's three arguments.
    pub carried: [u64; 3],
    /// Of a walker that passes for another thread.
    pub(crate) errand: Option<Errand>,
}

// SAFETY: the raw pointers in `trace` are only followed by the walker during a call that the owner of the buffer makes.
unsafe impl Send for TraceBuffer {}

impl TraceBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Box<Self> {
        Box::new(Self {
            trace: CallTrace {
                env: std::ptr::null_mut(),
                num_frames: 0,
                frames: std::ptr::null_mut(),
            },
            frames: [Frame::default(); MAX_DEPTH + 1],
            depth: 0,
            plugin: None,
            noted: AtomicU32::new(0),
            carried: [0; 3],
            errand: None,
        })
    }

    /// Zeroes the trace structure and puts the canary behind frame `depth`. Returns the depth that was really set.
    #[inline]
    pub fn reset(&mut self, depth: i32) -> i32 {
        let depth = usize::try_from(depth).unwrap_or(0).clamp(1, MAX_DEPTH);
        self.depth = depth;
        self.noted.store(0, Relaxed);
        self.errand = None;
        self.trace = CallTrace {
            env: std::ptr::null_mut(),
            num_frames: 0,
            frames: self.frames.as_mut_ptr(),
        };
        if let Some(slot) = self.frames.get_mut(depth) {
            *slot = CANARY;
        }
        depth as i32
    }

    /// Whether the word behind the last allowed frame is untouched.
    #[inline]
    #[must_use]
    pub fn canary_intact(&self) -> bool {
        self.frames
            .get(self.depth)
            .is_some_and(|frame| *frame == CANARY)
    }

    /// Remembers how the walk broke its contract.
    #[inline]
    pub(crate) fn note(&self, breach: Option<Breach>) {
        self.noted
            .store(breach.map_or(0, |breach| breach as u32 + 1), Relaxed);
    }

    /// How the walk broke its contract, if that was noticed while it ran.
    #[inline]
    #[must_use]
    pub fn breach(&self) -> Option<Breach> {
        match self.noted.load(Relaxed) {
            0 => None,
            noted => Breach::ALL.get(noted as usize - 1).copied(),
        }
    }

    /// The first `count` frames (at most as many as the walk was allowed to write).
    #[inline]
    #[must_use]
    pub fn frames(&self, count: usize) -> &[Frame] {
        self.frames.get(..count.min(self.depth)).unwrap_or(&[])
    }

    /// The [`hash`] of the first `count` frames.
    #[must_use]
    pub fn hash(&self, count: usize) -> u64 {
        hash(self.frames(count))
    }
}

/// A 64-bit hash of frames (FNV-1a over words): equal stacks have equal hashes within one process.
#[must_use]
pub fn hash(frames: &[Frame]) -> u64 {
    frames.iter().fold(0xcbf2_9ce4_8422_2325, |hash, frame| {
        let hash = (hash ^ frame.method).wrapping_mul(0x0000_0100_0000_01b3);
        (hash ^ u64::from(frame.bci.cast_unsigned())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_hotspot() {
        assert_eq!(std::mem::size_of::<Frame>(), 16);
        assert_eq!(std::mem::size_of::<CallTrace>(), 24);
        assert_eq!(std::mem::offset_of!(CallTrace, num_frames), 8);
        assert_eq!(std::mem::offset_of!(CallTrace, frames), 16);
        assert_eq!(std::mem::offset_of!(Frame, method), 8);
    }

    #[test]
    fn a_write_behind_the_last_frame_is_seen() {
        let mut buffer = TraceBuffer::new();
        assert_eq!(buffer.reset(4), 4);
        assert!(buffer.canary_intact());
        buffer.frames[3].method = 7;
        assert!(buffer.canary_intact());
        buffer.frames[4].bci = 7;
        assert!(!buffer.canary_intact());
    }

    #[test]
    fn depth_is_bounded() {
        let mut buffer = TraceBuffer::new();
        assert_eq!(buffer.reset(-5), 1);
        assert_eq!(buffer.reset(i32::MAX), MAX_DEPTH as i32);
        assert!(buffer.canary_intact());
        assert_eq!(buffer.frames(usize::MAX).len(), MAX_DEPTH);
    }
}
