//! Which queues there are, and handles that cannot be mistaken.
//!
//! A handle is not an address but the number of a slot and how often the slot has been used, so that one that is null, misaligned, made up or of a queue
//! that has ended is told without looking at memory that is somebody else's.
//!
//! Contract: [`Slot::enter`] and what it gives are signal-safe. A queue that is ended while somebody is in it is freed by the next one who may free.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use walkfuzz_context::Address;

use super::queue::Queue;
use super::statistics::ENDED;
use crate::abi::queue::Queue as Handle;

/// How many queues there can be at a time.
pub(super) const SLOTS: usize = 4096;

/// What handles begin with: no address of a process does.
const TAG: u64 = 0xa5a5 << 48;
/// The bits of a use's number in a handle; it comes around after so many uses of one slot.
const USES: u64 = (1 << 32) - 1;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const OPEN: u32 = 2;
const CLOSED: u32 = 3;

/// A place for a queue.
pub(super) struct Slot {
    state: AtomicU32,
    /// Who is in it.
    inside: AtomicU32,
    use_number: AtomicU64,
    /// The `JavaThread` whose queue it is; 0 unless it is open.
    thread: AtomicU64,
    queue: AtomicPtr<Queue>,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicU32::new(FREE),
        inside: AtomicU32::new(0),
        use_number: AtomicU64::new(1),
        thread: AtomicU64::new(0),
        queue: AtomicPtr::new(std::ptr::null_mut()),
    }
}; SLOTS];

/// No slot from here on has ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Somebody in a queue: it is not freed meanwhile.
pub(super) struct Inside {
    slot: &'static Slot,
    queue: &'static Queue,
}

impl std::ops::Deref for Inside {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        self.queue
    }
}

impl Inside {
    /// Whether it has not ended meanwhile.
    pub(super) fn is_open(&self) -> bool {
        self.slot.state.load(Acquire) == OPEN
    }

    /// Its handle.
    pub(super) fn handle(&self) -> *mut Handle {
        let index = (&raw const *self.slot as usize - TABLE.as_ptr() as usize) / size_of::<Slot>();
        handle(index as u64, self.slot.use_number.load(Acquire))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.slot.inside.fetch_sub(1, AcqRel);
    }
}

impl Slot {
    /// The queue, if it is open.
    fn enter(&'static self) -> Option<Inside> {
        self.inside.fetch_add(1, SeqCst);
        let queue = self.queue.load(Acquire);
        if self.state.load(SeqCst) != OPEN || queue.is_null() {
            self.inside.fetch_sub(1, AcqRel);
            return None;
        }
        Some(Inside {
            slot: self,
            // SAFETY: it is freed by `reap` alone, which finds nobody inside.
            queue: unsafe { &*queue },
        })
    }

    /// Frees a queue that has ended and that nobody is in.
    fn reap(&self) {
        if self.inside.load(SeqCst) != 0
            || self
                .state
                .compare_exchange(CLOSED, TAKEN, SeqCst, SeqCst)
                .is_err()
        {
            return;
        }
        // Somebody may be looking whether it is open; they do not touch the queue unless it is.
        let queue = self.queue.swap(std::ptr::null_mut(), AcqRel);
        if !queue.is_null() {
            // SAFETY: made by `open` from a box, and taken out only here.
            let queue = unsafe { Box::from_raw(queue) };
            ENDED.add(&queue.counts.read());
        }
        self.state.store(FREE, Release);
    }
}

/// Makes a handle for `queue`; `None` if there are too many.
pub(super) fn open(queue: Box<Queue>) -> Option<*mut Handle> {
    reap();
    let (index, slot) = TABLE.iter().enumerate().find(|(_, slot)| {
        slot.state
            .compare_exchange(FREE, TAKEN, AcqRel, Relaxed)
            .is_ok()
    })?;
    let number = slot.use_number.fetch_add(1, AcqRel).wrapping_add(1);
    slot.thread.store(queue.thread.0, Release);
    slot.queue.store(Box::into_raw(queue), Release);
    USED.fetch_max(index + 1, AcqRel);
    slot.state.store(OPEN, SeqCst);
    Some(handle(index as u64, number))
}

/// The queue of a handle. Signal-safe.
#[inline]
pub(super) fn enter(handle: *mut Handle) -> Option<Inside> {
    let slot = slot_of(handle)?;
    let inside = slot.enter()?;
    // It may have been used anew in between.
    slot_of(handle).map(|_| inside)
}

/// Ends a queue; whether there was one. What waited in it is lost.
pub(super) fn close(handle: *mut Handle, thread_ended: bool) -> bool {
    let Some(slot) = slot_of(handle) else {
        return false;
    };
    let closed = close_slot(slot, thread_ended);
    reap();
    closed
}

/// Ends all queues of a thread.
pub(super) fn close_all_of(thread: Address) {
    for slot in used().filter(|slot| slot.thread.load(Acquire) == thread.0) {
        close_slot(slot, true);
    }
    reap();
}

fn close_slot(slot: &'static Slot, thread_ended: bool) -> bool {
    let Some(inside) = slot.enter() else {
        return false;
    };
    let closed = slot
        .state
        .compare_exchange(OPEN, CLOSED, SeqCst, SeqCst)
        .is_ok();
    if closed {
        slot.thread.store(0, Release);
        let delivered = inside.delivered.load(Acquire);
        let lost = inside.waiting().saturating_sub(delivered);
        inside.counts.lost(lost, thread_ended);
    }
    closed
}

/// The open queues of a thread.
#[inline]
pub(super) fn of_thread(thread: Address) -> impl Iterator<Item = Inside> {
    let own = used().filter(move |slot| slot.thread.load(Acquire) == thread.0);
    own.filter_map(Slot::enter)
}

/// All open queues.
pub(super) fn all() -> impl Iterator<Item = Inside> {
    used().filter_map(Slot::enter)
}

/// Frees what can be freed. Not signal-safe.
pub(super) fn reap() {
    used().for_each(Slot::reap);
}

fn used() -> impl Iterator<Item = &'static Slot> {
    TABLE.iter().take(USED.load(Acquire))
}

fn slot_of(given: *mut Handle) -> Option<&'static Slot> {
    let index = given as u64 >> 3 & 0x1fff;
    let slot = TABLE.get(index as usize)?;
    (given == handle(index, slot.use_number.load(Acquire))).then_some(slot)
}

fn handle(index: u64, use_number: u64) -> *mut Handle {
    let handle = TAG | (use_number & USES) << 16 | index << 3;
    std::ptr::without_provenance_mut(handle as usize)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::abi::iterator::Iterator;
    use crate::queue::element::Element;

    unsafe extern "C" fn never(_: *mut Iterator, _: *mut c_void, _: *mut c_void) {}

    fn queue(thread: u64) -> *mut Handle {
        let queue = Queue::new(Address(thread), 4, 0, never, std::ptr::null_mut());
        open(Box::new(queue)).expect("a free slot")
    }

    #[test]
    fn a_handle_is_good_for_one_queue() {
        let first = queue(0x1000);
        assert!(enter(first).is_some());
        for wrong in [
            0,
            1,
            first as usize | 1,
            first as usize + 8,
            first as usize + (1 << 16),
        ] {
            assert!(
                enter(std::ptr::without_provenance_mut(wrong)).is_none(),
                "{wrong:#x}"
            );
        }
        assert!(close(first, false));
        assert!(!close(first, false));
        let second = queue(0x1000);
        assert_ne!(first, second);
        assert!(enter(first).is_none() && enter(second).is_some());
        assert!(close(second, false));
    }

    #[test]
    fn what_waits_when_a_thread_ends_is_counted() {
        const THREAD: u64 = 0x7000;
        let (one, other) = (queue(THREAD), queue(THREAD));
        assert_eq!(of_thread(Address(THREAD)).count(), 2);
        for (handle, waiting) in [(one, 3), (other, 1)] {
            let inside = enter(handle).expect("open");
            for _ in 0..waiting {
                assert!(inside.ring().push(Element::default()).is_ok());
            }
        }
        let before = ENDED.read().lost_thread_end;
        // Who is in a queue may go on; it is freed afterwards.
        let inside = enter(one).expect("open");
        close_all_of(Address(THREAD));
        assert_eq!((inside.is_open(), inside.waiting()), (false, 3));
        assert_eq!(of_thread(Address(THREAD)).count(), 0);
        assert_eq!(ENDED.read().lost_thread_end, before + 1);
        drop(inside);
        reap();
        assert_eq!(ENDED.read().lost_thread_end, before + 4);
    }
}
