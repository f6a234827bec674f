//! The Java threads that may be parked in their handler.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use walkfuzz_guard::{Alarm, GuardSlot};
use walkfuzz_walkers::ThreadHandle;

/// The most threads that take turns.
pub const MAX_WORKERS: usize = 16;

/// One registered thread. Immutable once published.
#[derive(Debug)]
pub struct Worker {
    /// Its index, as the workload counts.
    pub index: usize,
    /// How walkers name it.
    pub thread: ThreadHandle,
    /// Address of its `JavaThread`.
    pub java_thread: u64,
    /// Where its frames end: thread-local storage lies above.
    pub frames_end: u64,
    /// Its place in the guard.
    pub slot: &'static GuardSlot,
    /// Ends walks that never return.
    pub alarm: Alarm,
    /// The timer that samples it.
    pub(crate) timer: libc::timer_t,
}

// SAFETY: `timer` and `thread.env` are handles; using them from another thread is what they are for.
unsafe impl Send for Worker {}
// SAFETY: as above; all fields are read-only after publication.
unsafe impl Sync for Worker {}

/// A table that handlers read without locks: an entry is written once, then published by raising `ready`.
pub(crate) struct Workers {
    entries: [UnsafeCell<Option<Worker>>; MAX_WORKERS],
    ready: AtomicU32,
}

// SAFETY: an entry is written by one thread before its bit in `ready` is set (release) and only read after (acquire).
unsafe impl Sync for Workers {}

impl Workers {
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { UnsafeCell::new(None) }; MAX_WORKERS],
            ready: AtomicU32::new(0),
        }
    }

    /// Publishes a worker. Returns false when its index is taken or out of range.
    pub(crate) fn publish(&self, worker: Worker) -> bool {
        let index = worker.index;
        let Some(entry) = self.entries.get(index) else {
            return false;
        };
        if self.ready.load(Ordering::Acquire) & (1 << index) != 0 {
            return false;
        }
        // SAFETY: nobody reads an entry whose bit is clear, and a thread publishes only its own index, once.
        unsafe { *entry.get() = Some(worker) };
        self.ready.fetch_or(1 << index, Ordering::Release);
        true
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Worker> {
        if index >= MAX_WORKERS || self.ready.load(Ordering::Acquire) & (1 << index) == 0 {
            return None;
        }
        // SAFETY: the bit is set, so the entry is written and never changes again.
        self.entries
            .get(index)
            .and_then(|entry| unsafe { (*entry.get()).as_ref() })
    }

    pub(crate) fn count(&self) -> usize {
        self.ready.load(Ordering::Acquire).count_ones() as usize
    }

    /// The next published worker after `index`, in turn.
    pub(crate) fn next_after(&self, index: usize) -> Option<&Worker> {
        (1..=MAX_WORKERS).find_map(|step| self.get((index + step) % MAX_WORKERS))
    }
}

/// CPU time that thread `tid` of this process has used, in nanoseconds; 0 when it is gone. One system call.
pub(crate) fn cpu_nanoseconds(tid: i32) -> u64 {
    /// The kernel's encoding of "the CPU-time clock of this thread" (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED).
    const THREAD_CLOCK: i32 = 6;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the local only.
    if unsafe { libc::clock_gettime((!tid << 3) | THREAD_CLOCK, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Creates the timer whose SIGPROF goes to thread `tid` alone and carries `index`.
///
/// # Errors
/// What the kernel refuses it with.
pub fn sampling_timer(tid: i32, index: usize) -> std::io::Result<libc::timer_t> {
    // SAFETY: all-zero is a valid sigevent.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGPROF;
    event.sigev_notify_thread_id = tid;
    event.sigev_value = libc::sigval {
        sival_ptr: index as *mut c_void,
    };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both pointers are to live locals.
    if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(timer)
}

/// Lets the worker's timer fire once after `nanoseconds`. Async-signal-safe.
pub(crate) fn sample_after(worker: &Worker, nanoseconds: u32) {
    let when = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: 0,
            tv_nsec: i64::from(nanoseconds.clamp(1, 999_999_999)),
        },
    };
    // SAFETY: the timer lives as long as the process; timer_settime is async-signal-safe.
    unsafe { libc::timer_settime(worker.timer, 0, &raw const when, std::ptr::null_mut()) };
}
