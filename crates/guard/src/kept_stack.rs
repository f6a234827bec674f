//! The stack of a call that was given up, kept for whoever wants to unwind it later.
//!
//! After a recovery the callee's frames are dead, and the next call of the caller overwrites them. Unwinding in the handler would
//! allocate; so the handler copies the words between the fault's sp and the recovery frame, if somebody gave it room. That costs a system
//! call (checked loads where the call is forbidden, or unknown to an emulator), and only where it was asked for: a process that surveys does not, a frozen copy does.

use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::c_void;
use walkfuzz_context::{Address, Sp};

use crate::checked_read::read_word;

static ROOM: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static CAPACITY: AtomicUsize = AtomicUsize::new(0);
static FROM: AtomicU64 = AtomicU64::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// What was on the stack of the last call that was given up.
#[derive(Clone, Copy, Debug)]
pub struct KeptStack {
    from: u64,
    bytes: &'static [u8],
}

impl KeptStack {
    /// The word that was at `address`, if it was kept.
    #[must_use]
    pub fn word(&self, address: Address) -> Option<u64> {
        let offset = usize::try_from(address.0.checked_sub(self.from)?).ok()?;
        let bytes = self.bytes.get(offset..offset.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}

/// From now on keeps the stack of each call that is given up, as much as `room` holds from the innermost frame on. For processes with one
/// guarded thread, such as a copy made by fork: there is one room.
pub fn keep_stacks(room: &'static mut [u8]) {
    LENGTH.store(0, Relaxed);
    CAPACITY.store(room.len(), Relaxed);
    ROOM.store(room.as_mut_ptr(), Relaxed);
}

/// The stack of the last call that was given up, if it was kept. Make no guarded call while you hold it.
#[must_use]
pub fn kept_stack() -> Option<KeptStack> {
    let room = ROOM.load(Relaxed);
    let length = LENGTH.load(Relaxed);
    if room.is_null() || length == 0 {
        return None;
    }
    Some(KeptStack {
        from: FROM.load(Relaxed),
        // SAFETY: `keep_stacks` got it for ever, and `keep` filled so many bytes of it.
        bytes: unsafe { core::slice::from_raw_parts(room, length) },
    })
}

/// Copies the stack from `sp` up to `end`. Called by the fault handler; signal-safe.
#[inline]
pub(crate) fn keep(sp: Sp, end: u64) {
    let room = ROOM.load(Relaxed);
    if !room.is_null() {
        copy(room, sp, end);
    }
}

#[cold]
fn copy(room: *mut u8, sp: Sp, end: u64) {
    // Code below sp may be a leaf's: its red zone is part of its frame, but holds no return address.
    let wanted = end.saturating_sub(sp.0).min(CAPACITY.load(Relaxed) as u64) as usize;
    let local = libc::iovec {
        iov_base: room.cast(),
        iov_len: wanted,
    };
    let remote = libc::iovec {
        iov_base: sp.0 as *mut c_void,
        iov_len: wanted,
    };
    // SAFETY: the kernel writes at most `wanted` bytes, which the room has; an unreadable stack (sp is what was at the fault) is its
    // error, not a fault. errno is put back: the thread goes on.
    let (read, forbidden) = unsafe {
        let errno = *libc::__errno_location();
        let read =
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0);
        let refused = *libc::__errno_location();
        *libc::__errno_location() = errno;
        (read, matches!(refused, libc::ENOSYS | libc::EPERM))
    };
    FROM.store(sp.0, Relaxed);
    let length = match usize::try_from(read) {
        Ok(length) => length,
        Err(_) if forbidden => copy_checked(room, sp, wanted),
        Err(_) => 0,
    };
    LENGTH.store(length, Relaxed);
}

/// As far as whole words can be read. Returns the bytes that were copied.
fn copy_checked(room: *mut u8, sp: Sp, wanted: usize) -> usize {
    let mut length = 0;
    while length + 8 <= wanted {
        let Ok(word) = read_word(Address(sp.0 + length as u64)) else {
            break;
        };
        // SAFETY: inside the room, which holds `wanted` bytes.
        unsafe { room.add(length).cast::<u64>().write_unaligned(word) };
        length += 8;
    }
    length
}
