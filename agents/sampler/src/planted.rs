//! A walker that misbehaves at times, to see what becomes of it. Test builds only.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use walkfuzz_record::{Code, Generation};
use walkfuzz_walkers::{Agct, Call, Start, ThreadHandle, TraceBuffer, WalkFunction, Walker};

use crate::options::Plant;

static WALKS: AtomicU64 = AtomicU64::new(0);
static FAULT_EVERY: AtomicU64 = AtomicU64::new(u64::MAX);
static HANG_EVERY: AtomicU64 = AtomicU64::new(u64::MAX);
static BENEATH: AtomicUsize = AtomicUsize::new(0);

/// AsyncGetCallTrace with a fault in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted(Agct);

impl Planted {
    pub(crate) fn new(agct: Agct, plant: Plant) -> Self {
        let (every, value) = match plant {
            Plant::Fault(every) => (&FAULT_EVERY, every),
            Plant::Hang(every) => (&HANG_EVERY, every),
        };
        every.store(value, Relaxed);
        Self(agct)
    }
}

/// Walks that fault before one does not: a capsule's walks begin in the memory that a fault, and perhaps those of other threads, left.
const IN_A_ROW: u64 = 8;
/// An address in the first page, where nothing is.
const NOWHERE: usize = 0x60;

unsafe extern "C" fn walk(trace: *mut c_void, depth: i32, context: *mut c_void) {
    let walks = WALKS.fetch_add(1, Relaxed) + 1;
    let every = FAULT_EVERY.load(Relaxed);
    if walks >= every && walks % every < IN_A_ROW {
        // SAFETY: none; this is the fault.
        unsafe { (NOWHERE as *const u64).read_volatile() };
    }
    while walks.is_multiple_of(HANG_EVERY.load(Relaxed)) {
        std::hint::spin_loop();
    }
    // SAFETY: `prepare` stored AsyncGetCallTrace.
    unsafe {
        let beneath = std::mem::transmute::<usize, WalkFunction>(BENEATH.load(Relaxed));
        beneath(trace, depth, context);
    }
}

impl Walker for Planted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn generation(&self) -> Generation {
        self.0.generation()
    }

    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        thread: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let call = self.0.prepare(trace, depth, thread, start)?;
        BENEATH.store(call.function as usize, Relaxed);
        Some(Call {
            function: walk,
            ..call
        })
    }

    fn finish(&self, trace: &TraceBuffer) -> Code {
        self.0.finish(trace)
    }
}
