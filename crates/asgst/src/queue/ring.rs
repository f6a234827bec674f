//! What a queue holds: exactly as many elements as it was made for, in the order of their coming.
//!
//! One thread fills and empties it, in signal handlers and between them, so that nothing has to be locked; a handler that interrupts another is turned away.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use super::element::Element;

/// See the module.
#[derive(Debug)]
pub(super) struct Ring {
    elements: Box<[UnsafeCell<Element>]>,
    head: AtomicUsize,
    length: AtomicUsize,
    pushing: AtomicBool,
}

// SAFETY: elements are written where the counters say that nobody else looks; see the module.
unsafe impl Sync for Ring {}

/// Why an element is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no room.
    Full,
    /// It came while another was being put in.
    Busy,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        let elements = (0..capacity).map(|_| UnsafeCell::new(Element::default()));
        Self {
            elements: elements.collect(),
            head: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            pushing: AtomicBool::new(false),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn length(&self) -> usize {
        self.length.load(Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        self.length() >= self.capacity()
    }

    /// Puts an element behind the others. Signal-safe.
    pub(super) fn push(&self, element: Element) -> Result<(), Refused> {
        if self.pushing.swap(true, AcqRel) {
            return Err(Refused::Busy);
        }
        let length = self.length();
        let slot = (length < self.capacity())
            .then(|| self.slot(length))
            .flatten();
        if let Some(slot) = slot {
            // SAFETY: nobody looks behind the length, and nobody else pushes.
            unsafe { slot.get().write(element) };
            self.length.store(length + 1, Release);
        }
        self.pushing.store(false, Release);
        slot.map(|_| ()).ok_or(Refused::Full)
    }

    /// The nth element: 0 is the oldest, -1 the youngest. Signal-safe.
    pub(super) fn get(&self, n: i64) -> Option<*mut Element> {
        let length = i64::try_from(self.length()).ok()?;
        let index = if n < 0 { n.checked_add(length)? } else { n };
        if !(0..length).contains(&index) {
            return None;
        }
        Some(self.slot(usize::try_from(index).ok()?)?.get())
    }

    /// Takes the oldest `count` elements out.
    pub(super) fn remove(&self, count: usize) {
        let count = count.min(self.length());
        if self.capacity() > 0 {
            let head = (self.head.load(Acquire) + count) % self.capacity();
            self.head.store(head, Release);
        }
        self.length.fetch_sub(count, AcqRel);
    }

    fn slot(&self, index: usize) -> Option<&UnsafeCell<Element>> {
        let at = (self.head.load(Acquire) + index).checked_rem(self.capacity())?;
        self.elements.get(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn numbered(number: u64) -> Element {
        Element {
            method: number,
            ..Element::default()
        }
    }

    fn method(ring: &Ring, n: i64) -> Option<u64> {
        // SAFETY: the ring's own, and nobody else has it.
        ring.get(n).map(|element| unsafe { (*element).method })
    }

    #[test]
    fn it_holds_as_many_as_it_was_made_for() {
        for capacity in [1, 2, 7] {
            let ring = Ring::new(capacity);
            for number in 0..capacity as u64 {
                assert_eq!(
                    ring.push(numbered(number)),
                    Ok(()),
                    "{number} of {capacity}"
                );
            }
            assert!(ring.is_full());
            assert_eq!(ring.push(numbered(99)), Err(Refused::Full));
            assert_eq!(
                (method(&ring, 0), method(&ring, -1)),
                (Some(0), Some(capacity as u64 - 1))
            );
            assert_eq!(method(&ring, capacity as i64), None);
            assert_eq!(method(&ring, -(capacity as i64) - 1), None);
            assert_eq!(
                (method(&ring, i64::MIN), method(&ring, i64::MAX)),
                (None, None)
            );
        }
    }

    #[test]
    fn it_agrees_with_a_list() {
        let ring = Ring::new(5);
        let mut model = VecDeque::new();
        for step in 0..1000_u64 {
            if step.wrapping_mul(2_654_435_761) >> 7 & 3 == 0 {
                let count = (step % 4) as usize;
                ring.remove(count);
                model.drain(..count.min(model.len()));
            } else {
                let taken = ring.push(numbered(step)).is_ok();
                assert_eq!(taken, model.len() < 5);
                if taken {
                    model.push_back(step);
                }
            }
            assert_eq!(ring.length(), model.len());
            let seen: Vec<_> = (0..model.len() as i64)
                .filter_map(|n| method(&ring, n))
                .collect();
            assert_eq!(seen, Vec::from(model.clone()), "after step {step}");
        }
    }
}
