//! Signal stacks for fault handlers.
//!
//! A registered thread has two *lanes*. Faults are handled on lane 0. Whoever runs in a handler on lane 0 and then
//! moves sp off it ([`crate::call_on_stack`]) gets lane 1 for the duration: the kernel starts each handler at the top
//! of the signal stack unless sp is on it, and would otherwise overwrite the frames that wait there.
//!
//! Signal-safe: system calls only.

use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};

use libc::stack_t;
use walkfuzz_context::Sp;

use crate::error::GuardError;

/// Handler stacks per thread.
pub(crate) const LANES: usize = 2;
/// Bytes per handler stack. The JVM's handler runs there too, and in debug builds it writes crash logs.
pub(crate) const LANE_SIZE: usize = 256 * 1024;
/// A thread keeps the signal stack that it has if it is at least this big. (Rust's runtime sets up 8 KiB or so.)
pub(crate) const SMALLEST_KEPT: usize = 64 * 1024;

/// One signal stack; size 0 if unset.
#[derive(Debug)]
pub(crate) struct Lane {
    base: AtomicUsize,
    size: AtomicUsize,
    flags: AtomicI32,
}

impl Lane {
    pub(crate) const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            size: AtomicUsize::new(0),
            flags: AtomicI32::new(libc::SS_DISABLE),
        }
    }

    pub(crate) fn contains(&self, sp: Sp) -> bool {
        (sp.0 as usize).wrapping_sub(self.base.load(Relaxed)) < self.size.load(Relaxed)
    }

    pub(crate) fn get(&self) -> stack_t {
        stack_t {
            ss_sp: self.base.load(Relaxed) as *mut _,
            ss_flags: self.flags.load(Relaxed),
            ss_size: self.size.load(Relaxed),
        }
    }

    pub(crate) fn set(&self, stack: &stack_t) {
        self.base.store(stack.ss_sp as usize, Relaxed);
        self.size.store(stack.ss_size, Relaxed);
        self.flags
            .store(stack.ss_flags & !libc::SS_ONSTACK, Relaxed);
    }
}

fn page_size() -> usize {
    // SAFETY: no memory involved. In signal handlers too: glibc and musl read the auxiliary vector.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
        .try_into()
        .unwrap_or(4096)
}

/// Bytes of one mapping: guard page, stack, per lane.
fn mapping_size() -> usize {
    LANES * (page_size() + LANE_SIZE)
}

/// Maps the handler stacks, each above a page that nobody can touch. Returns the mapping's address.
pub(crate) fn map() -> Result<usize, GuardError> {
    // SAFETY: a fresh private mapping.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            mapping_size(),
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(GuardError::last("mmap of a signal stack"));
    }
    let base = base as usize;
    for lane in 0..LANES {
        let stack = lane_in(base, lane);
        // SAFETY: inside the mapping that was just made.
        if unsafe {
            libc::mprotect(
                stack.ss_sp,
                stack.ss_size,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        } != 0
        {
            let error = GuardError::last("mprotect of a signal stack");
            // SAFETY: nobody uses the mapping yet.
            unsafe { unmap(base) };
            return Err(error);
        }
    }
    Ok(base)
}

/// The signal stack of `lane` inside the mapping at `base`.
pub(crate) fn lane_in(base: usize, lane: usize) -> stack_t {
    let start = base + lane * (page_size() + LANE_SIZE) + page_size();
    stack_t {
        ss_sp: start as *mut _,
        ss_flags: 0,
        ss_size: LANE_SIZE,
    }
}

/// Gives the mapping back.
///
/// # Safety
/// `base` came from [`map`] and no thread's signal stack lies in it any more.
pub(crate) unsafe fn unmap(base: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(base as *mut _, mapping_size()) };
}

/// The calling thread's signal stack.
pub(crate) fn query() -> Result<stack_t, GuardError> {
    let mut now = stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: the kernel writes one stack_t.
    if unsafe { libc::sigaltstack(ptr::null(), &mut now) } != 0 {
        return Err(GuardError::last("sigaltstack"));
    }
    Ok(now)
}

/// Sets the calling thread's signal stack.
///
/// # Safety
/// `stack` is disabled or describes writable memory that stays mapped while the thread may get signals on it.
pub(crate) unsafe fn activate(stack: &stack_t) -> Result<(), GuardError> {
    // SAFETY: the caller's promise.
    if unsafe { libc::sigaltstack(stack, ptr::null_mut()) } != 0 {
        return Err(GuardError::last("sigaltstack"));
    }
    Ok(())
}
