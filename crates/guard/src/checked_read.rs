//! Reading memory that may not be there.
//!
//! A load whose fault the guard's handler resumes, as HotSpot's SafeFetch, but ours. Works on every thread, registered or not,
//! inside and outside guarded calls, in handlers; costs about a nanosecond a word; needs only that
//! [`crate::Guard::install`] has run.
//! The bytes are a racy snapshot: other threads may write while they are read.

use libc::c_int;
use walkfuzz_context::{Address, Pc};

use crate::arch;
use crate::error::Unreadable;

/// From so many words on, what takes longer to begin is faster.
const MANY: usize = 96;

/// What `arch::load_word` returns, in two registers.
#[repr(C)]
pub(crate) struct LoadedWord {
    value: u64,
    failed: u64,
}

/// Copies `into.len()` bytes at `address`. On failure `into` may hold a part.
///
/// # Errors
/// Some byte cannot be read.
#[inline]
pub fn read_checked(address: Address, into: &mut [u8]) -> Result<(), Unreadable> {
    let unreadable = Unreadable {
        address,
        length: into.len(),
    };
    let words = into.len() / 8;
    let rest = into.len() % 8;
    if address.0.checked_add(into.len() as u64).is_none() {
        return Err(unreadable);
    }
    let mut failed = 0;
    if words >= MANY {
        // SAFETY: `into` has room for `words` words; a fault of the load is resumed.
        failed |= unsafe { arch::copy_many_words(into.as_mut_ptr(), address.0, 0, words) };
    } else if words > 0 {
        // SAFETY: as above.
        failed |= unsafe { arch::copy_words(into.as_mut_ptr(), address.0, 0, words) };
    }
    if failed == 0 && rest > 0 && words > 0 {
        // The last word overlaps the one before it.
        let last = into.len() - 8;
        // SAFETY: a fault of the load is resumed.
        let word = unsafe { arch::load_word(address.0 + last as u64) };
        failed |= word.failed as usize;
        if let Some(into) = into.last_chunk_mut() {
            *into = word.value.to_ne_bytes();
        }
    } else if failed == 0 && rest > 0 {
        // SAFETY: `into` has `rest` bytes; a fault of the load is resumed.
        failed |= unsafe { arch::copy_bytes(into.as_mut_ptr(), address.0, 0, rest) };
    }
    if failed == 0 { Ok(()) } else { Err(unreadable) }
}

/// Reads the word (8 bytes, native order, any alignment) at `address`.
///
/// # Errors
/// It cannot be read.
#[inline]
pub fn read_word(address: Address) -> Result<u64, Unreadable> {
    // SAFETY: a fault of the load is resumed.
    let word = unsafe { arch::load_word(address.0) };
    if word.failed == 0 {
        Ok(word.value)
    } else {
        Err(Unreadable { address, length: 8 })
    }
}

/// Where a fault at `pc` continues if it is one of ours.
pub(crate) fn continuation(signal: c_int, pc: Pc) -> Option<Pc> {
    if signal != libc::SIGSEGV && signal != libc::SIGBUS {
        return None;
    }
    let pc = pc.0 as usize;
    let landed: *const () = if pc == arch::load_word as *const () as usize {
        arch::load_word_failed as *const ()
    } else if [arch::copy_words, arch::copy_many_words, arch::copy_bytes]
        .iter()
        .any(|copy| pc == *copy as *const () as usize)
    {
        arch::copy_failed as *const ()
    } else {
        return None;
    };
    Some(Pc(landed as u64))
}
