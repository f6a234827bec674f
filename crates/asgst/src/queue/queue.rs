//! One queue of one thread.

use std::ffi::c_void;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::*};

use walkfuzz_context::Address;

use super::ring::Ring;
use super::statistics::Counts;
use crate::abi::queue::{OnQueueSafepointHandler, QueueHandler};

/// What is called before or after the elements.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) handler: OnQueueSafepointHandler,
    pub(super) options: i32,
    pub(super) offers_iterator: bool,
    pub(super) arg: usize,
}

/// See the module. What signal handlers use is made of atomics; the locks are for callers outside handlers and for safepoints.
pub(super) struct Queue {
    pub(super) thread: Address,
    pub(super) handler: QueueHandler,
    pub(super) options: i32,
    pub(super) arg: usize,
    pub(super) before: RwLock<Option<Around>>,
    pub(super) after: RwLock<Option<Around>>,
    /// Attempts to put something in since the last processing.
    pub(super) attempts: AtomicI32,
    /// The capacity that it is to have; 0: as it is.
    pub(super) wanted: AtomicI32,
    /// Its thread is in [`super::process`] with it.
    pub(super) processing: AtomicBool,
    /// What became of the element whose handler runs, plus one.
    pub(super) fate: AtomicI32,
    /// How many of those that wait have been handed out at this safepoint.
    pub(super) delivered: AtomicUsize,
    pub(super) counts: Counts,
    ring: AtomicPtr<Ring>,
}

impl Queue {
    pub(super) fn new(
        thread: Address,
        capacity: usize,
        options: i32,
        handler: QueueHandler,
        arg: *mut c_void,
    ) -> Self {
        Self {
            thread,
            handler,
            options,
            arg: arg.expose_provenance(),
            before: RwLock::new(None),
            after: RwLock::new(None),
            attempts: AtomicI32::new(0),
            wanted: AtomicI32::new(0),
            processing: AtomicBool::new(false),
            fate: AtomicI32::new(0),
            delivered: AtomicUsize::new(0),
            counts: Counts::default(),
            ring: AtomicPtr::new(Box::into_raw(Box::new(Ring::new(capacity)))),
        }
    }

    pub(super) fn ring(&self) -> &Ring {
        // SAFETY: never null; replaced only by `resize`.
        unsafe { &*self.ring.load(Acquire) }
    }

    /// How many elements wait.
    pub(super) fn waiting(&self) -> usize {
        self.ring().length()
    }

    /// Another ring in the place of the empty one.
    ///
    /// # Safety
    /// On the queue's thread, at a safepoint, while it is being processed: nobody has a part of the ring.
    pub(super) unsafe fn resize(&self, capacity: usize) {
        let old = self
            .ring
            .swap(Box::into_raw(Box::new(Ring::new(capacity))), AcqRel);
        // SAFETY: made from a box; the caller's promise.
        drop(unsafe { Box::from_raw(old) });
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made from a box, and nobody has the queue any more.
        drop(unsafe { Box::from_raw(*self.ring.get_mut()) });
    }
}
