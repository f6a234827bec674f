//! The words that a thread's polls look at.
//!
//! Since 17 a `JavaThread` has two: one that returns of compiled methods compare with sp and whose lowest bit the interpreter and transitions test, and the
//! address of the page that loops read. The JVM takes both back by itself when a thread that was armed has nothing to do
//! (`SafepointMechanism::update_poll_values`). In 11 there is one, which holds the page's address with the bit, and nobody takes it back but who set it.
//!
//! Where they are is in no table: they are found by their values, which libjvm's own variables have.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*, fence};

use walkfuzz_context::Address;
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::{HotSpot, Memory as _, Span};

use super::arch;

/// The words change one after the other.
const TRIES: usize = 100;

/// Why there is no arming polls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    /// libjvm was stripped, or is of another make.
    #[error("libjvm has no symbol {0}, which safepoint queues need")]
    NoSymbol(&'static str),
    /// Nothing of their own to arm.
    #[error("threads of this JVM poll one page for all of them (see -XX:+ThreadLocalHandshakes)")]
    Global,
    /// Where a thread ends.
    #[error("the JVM's tables lack the size of JavaThread, which safepoint queues need")]
    NoSize,
    /// Not found where threads have them.
    #[error("a thread's poll words were found {0} times in it, and once is wanted")]
    NotFound(usize),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Polls {
    /// Since 17.
    Two { at: u64, word: u64, page: u64 },
    /// Before.
    One {
        at: u64,
        armed: u64,
        disarmed: u64,
        /// `SafepointSynchronize::_state`: not 0 while a safepoint is wanted.
        state: Address,
        /// From a thread to its `HandshakeState::_operation`.
        operation: u64,
    },
}

impl Polls {
    pub(super) fn find(
        hotspot: &HotSpot,
        symbol: &dyn Fn(&str) -> Option<u64>,
        java_thread: Address,
    ) -> Result<Self, PollError> {
        let size = hotspot.tables().type_size("JavaThread");
        let thread = Span {
            start: java_thread,
            end: Address(java_thread.0 + size.ok_or(PollError::NoSize)?),
        };
        let address = |name| symbol(name).map(Address).ok_or(PollError::NoSymbol(name));
        let value = |name| {
            let read = address(name).map(|at| CheckedMemory.read_u64(at));
            read?.map_err(|_| PollError::NoSymbol(name))
        };
        if hotspot.version().feature >= 17 {
            let word = value("_ZN18SafepointMechanism22_poll_word_armed_valueE")?;
            let page = value("_ZN18SafepointMechanism22_poll_page_armed_valueE")?;
            let words = [
                [
                    value("_ZN18SafepointMechanism25_poll_word_disarmed_valueE")?,
                    word,
                ],
                [
                    value("_ZN18SafepointMechanism25_poll_page_disarmed_valueE")?,
                    page,
                ],
            ];
            let at = search(&thread, &words)?;
            return Ok(Self::Two { at, word, page });
        }
        let armed = value("_ZN18SafepointMechanism17_poll_armed_valueE")?;
        let disarmed = value("_ZN18SafepointMechanism20_poll_disarmed_valueE")?;
        if armed == 0 || disarmed == 0 {
            return Err(PollError::Global);
        }
        const SLOW: &str = "_ZN18SafepointMechanism23block_if_requested_slowEP10JavaThread";
        let mut code = [0; 0x60];
        let read = CheckedMemory.read(address(SLOW)?, &mut code);
        read.map_err(|_| PollError::NoSymbol(SLOW))?;
        Ok(Self::One {
            at: search(&thread, &[[disarmed, armed]])?,
            armed,
            disarmed,
            state: address("_ZN20SafepointSynchronize6_stateE")?,
            operation: arch::handshake_offset(&code).ok_or(PollError::NoSymbol(SLOW))?,
        })
    }

    /// # Safety
    /// As [`super::arm`].
    #[inline]
    pub(super) unsafe fn arm(&self, java_thread: Address) {
        // SAFETY: a thread's own words, which only it and the JVM write, a word at a time.
        unsafe {
            match *self {
                Self::Two { at, word, page } => {
                    cell(java_thread, at + 8).store(page, Relaxed);
                    cell(java_thread, at).store(word, Relaxed);
                }
                Self::One { at, armed, .. } => cell(java_thread, at).store(armed, Relaxed),
            }
        }
    }

    /// # Safety
    /// As [`super::disarm`].
    pub(super) unsafe fn disarm(&self, java_thread: Address) {
        let Self::One {
            at,
            armed,
            disarmed,
            state,
            operation,
        } = *self
        else {
            return;
        };
        // SAFETY: as above; the state is libjvm's own variable.
        unsafe {
            cell(java_thread, at).store(disarmed, Relaxed);
            // The VM thread says that it wants something before it arms: either that is seen here, or its arming comes after ours.
            fence(SeqCst);
            let state: *mut i32 = std::ptr::with_exposed_provenance_mut(state.0 as usize);
            let wanted = AtomicI32::from_ptr(state).load(Relaxed) != 0
                || cell(java_thread, operation).load(Relaxed) != 0;
            if wanted {
                cell(java_thread, at).store(armed, Relaxed);
            }
        }
    }
}

/// # Safety
/// A word of a thread that lives.
#[inline]
unsafe fn cell(java_thread: Address, offset: u64) -> &'static AtomicU64 {
    let at = java_thread.0.wrapping_add(offset) as usize;
    // SAFETY: the caller's promise.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at)) }
}

/// The one place in a thread where these words follow one another. Not behind it: there may be another thread.
/// Each has either of two values: a thread that waits in native code may have been armed meanwhile.
fn search(thread: &Span, words: &[[u64; 2]]) -> Result<u64, PollError> {
    let is_there = |offset: u64| {
        words.iter().zip((offset..).step_by(8)).all(|(word, at)| {
            let there = thread.start.0.wrapping_add(at);
            let found = CheckedMemory.read_u64(Address(there));
            found.is_ok_and(|found| word.contains(&found))
        })
    };
    let mut count = 0;
    for _ in 0..TRIES {
        let mut places = (0..thread.length())
            .step_by(8)
            .filter(|offset| is_there(*offset));
        match (places.next(), places.count()) {
            (Some(place), 0) => return Ok(place),
            (None, _) => std::thread::yield_now(),
            (Some(_), more) => count = more + 1,
        }
    }
    Err(PollError::NotFound(count))
}
