//! Framehop's caches, one for each walk that is under way. They are made in `init`; taking one is signal-safe.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::*};

use crate::arch::Cache;

/// Walks that can be under way. One that a fault ends keeps its cache for ever.
const WALKS: usize = 64;

struct Place {
    taken: AtomicBool,
    cache: UnsafeCell<Cache>,
}

// SAFETY: the cache is used by whoever took the place.
unsafe impl Sync for Place {}

static PLACES: OnceLock<Vec<Place>> = OnceLock::new();

/// A cache that belongs to one walk.
pub(crate) struct Taken(&'static Place);

/// Makes the caches.
pub(crate) fn fill() {
    PLACES.get_or_init(|| {
        let place = |_| Place {
            taken: AtomicBool::new(false),
            cache: UnsafeCell::new(Cache::new_in()),
        };
        (0..WALKS).map(place).collect()
    });
}

/// A cache that nobody uses.
pub(crate) fn take() -> Option<Taken> {
    let free = |place: &&Place| !place.taken.swap(true, Acquire);
    PLACES.get()?.iter().find(free).map(Taken)
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.store(false, Release);
    }
}

impl Deref for Taken {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        // SAFETY: this walk took the place.
        unsafe { &*self.0.cache.get() }
    }
}

impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut Cache {
        // SAFETY: as above.
        unsafe { &mut *self.0.cache.get() }
    }
}
