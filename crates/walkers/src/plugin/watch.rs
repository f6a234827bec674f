//! What a library does in a walk beside walking: the functions of libc that allocate or lock, as its imports find them.
//!
//! Each watched import is led through a forwarder that looks whether its thread is inside a walk, notes what happens, and calls the real
//! function. A thread is known by its `pthread_t`, which is a register: no system call, no thread-local storage.
//!
//! Contract: signal-safe. Only the library's own imports are seen: what other libraries do for it is theirs, and system calls of its own are not looked at.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use walkfuzz_record::Breach;

/// A function with up to four words as arguments and one as result, which all watched ones are.
pub(super) type Forwarder = unsafe extern "C" fn(usize, usize, usize, usize) -> usize;

/// What an import does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Gets, changes or gives back memory.
    Allocates,
    /// Takes the lock that its first argument points at, if it returns 0.
    Takes(Lock),
    /// Gives it back.
    Returns,
}

/// What gives a lock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Lock {
    Mutex,
    ReadWrite,
    Spin,
    Semaphore,
}

/// An import that is led through a forwarder.
pub(super) struct Watched {
    /// Its symbol.
    pub(super) symbol: &'static str,
    /// The function that the linker found for it.
    pub(super) real: &'static AtomicUsize,
    /// What stands in its place.
    pub(super) forwarder: Forwarder,
}

macro_rules! watched {
    ($($symbol:literal => $deed:expr,)*) => {
        /// Every watched import.
        pub(super) static WATCHED: &[Watched] = &[$({
            static REAL: AtomicUsize = AtomicUsize::new(0);
            unsafe extern "C" fn forwarder(a: usize, b: usize, c: usize, d: usize) -> usize {
                // SAFETY: the caller calls what it believes to be the real function.
                unsafe { forward(&REAL, $deed, [a, b, c, d]) }
            }
            Watched { symbol: $symbol, real: &REAL, forwarder }
        },)*];
    };
}

watched! {
    "malloc" => Deed::Allocates,
    "calloc" => Deed::Allocates,
    "realloc" => Deed::Allocates,
    "reallocarray" => Deed::Allocates,
    "free" => Deed::Allocates,
    "posix_memalign" => Deed::Allocates,
    "aligned_alloc" => Deed::Allocates,
    "memalign" => Deed::Allocates,
    "valloc" => Deed::Allocates,
    "strdup" => Deed::Allocates,
    "strndup" => Deed::Allocates,
    // C++'s operators new and delete.
    "_Znwm" => Deed::Allocates,
    "_Znam" => Deed::Allocates,
    "_ZnwmRKSt9nothrow_t" => Deed::Allocates,
    "_ZnamRKSt9nothrow_t" => Deed::Allocates,
    "_ZnwmSt11align_val_t" => Deed::Allocates,
    "_ZnamSt11align_val_t" => Deed::Allocates,
    "_ZdlPv" => Deed::Allocates,
    "_ZdaPv" => Deed::Allocates,
    "_ZdlPvm" => Deed::Allocates,
    "_ZdaPvm" => Deed::Allocates,
    "_ZdlPvSt11align_val_t" => Deed::Allocates,
    "_ZdaPvSt11align_val_t" => Deed::Allocates,
    "_ZdlPvmSt11align_val_t" => Deed::Allocates,
    "pthread_mutex_lock" => Deed::Takes(Lock::Mutex),
    "pthread_mutex_trylock" => Deed::Takes(Lock::Mutex),
    "pthread_mutex_timedlock" => Deed::Takes(Lock::Mutex),
    "pthread_mutex_unlock" => Deed::Returns,
    "mtx_lock" => Deed::Takes(Lock::Mutex),
    "mtx_trylock" => Deed::Takes(Lock::Mutex),
    "mtx_unlock" => Deed::Returns,
    "pthread_rwlock_rdlock" => Deed::Takes(Lock::ReadWrite),
    "pthread_rwlock_tryrdlock" => Deed::Takes(Lock::ReadWrite),
    "pthread_rwlock_wrlock" => Deed::Takes(Lock::ReadWrite),
    "pthread_rwlock_trywrlock" => Deed::Takes(Lock::ReadWrite),
    "pthread_rwlock_unlock" => Deed::Returns,
    "pthread_spin_lock" => Deed::Takes(Lock::Spin),
    "pthread_spin_trylock" => Deed::Takes(Lock::Spin),
    "pthread_spin_unlock" => Deed::Returns,
    "sem_wait" => Deed::Takes(Lock::Semaphore),
    "sem_trywait" => Deed::Takes(Lock::Semaphore),
    "sem_timedwait" => Deed::Takes(Lock::Semaphore),
    "sem_post" => Deed::Returns,
}

/// Locks of one thread that are remembered; a walk that holds more at once is found by the first of them.
const HELD: usize = 8;
/// Threads that can be in walks of libraries.
const THREADS: usize = 1024;

/// One thread.
struct Entry {
    /// Its `pthread_t`, 0 if nobody's.
    thread: AtomicUsize,
    /// Whether it is inside a walk.
    walking: AtomicBool,
    allocations: AtomicU64,
    locks: AtomicU64,
    /// Address and kind of each lock that is held.
    held: [(AtomicUsize, AtomicUsize); HELD],
}

static ENTRIES: [Entry; THREADS] = [const {
    Entry {
        thread: AtomicUsize::new(0),
        walking: AtomicBool::new(false),
        allocations: AtomicU64::new(0),
        locks: AtomicU64::new(0),
        held: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; HELD],
    }
}; THREADS];
/// Entries from here on have never been used.
static USED: AtomicU32 = AtomicU32::new(0);

/// A walk that is under way.
pub(super) struct Walk {
    entry: Option<&'static Entry>,
    outer: bool,
    allocations: u64,
    locks: u64,
}

impl Walk {
    /// The calling thread begins a walk.
    #[inline]
    pub(super) fn begin() -> Self {
        let Some(entry) = own(true) else {
            return Self {
                entry: None,
                outer: false,
                allocations: 0,
                locks: 0,
            };
        };
        Self {
            entry: Some(entry),
            outer: entry.walking.swap(true, Relaxed),
            allocations: entry.allocations.load(Relaxed),
            locks: entry.locks.load(Relaxed),
        }
    }

    /// The walk came to its end: what it did that it must not do. Locks that it left held are given back, so that the next walk does not wait for ever.
    #[inline]
    pub(super) fn end(self) -> Option<Breach> {
        let entry = self.entry?;
        entry.walking.store(self.outer, Relaxed);
        if entry.give_back() {
            Some(Breach::LockHeld)
        } else if entry.locks.load(Relaxed) != self.locks {
            Some(Breach::Lock)
        } else if entry.allocations.load(Relaxed) != self.allocations {
            Some(Breach::Allocation)
        } else {
            None
        }
    }
}

/// The calling thread's walk was left halfway.
pub(super) fn left() {
    if let Some(entry) = own(false) {
        entry.give_back();
        entry.walking.store(false, Relaxed);
    }
}

impl Entry {
    fn hold(&self, address: usize, kind: Lock) {
        for (place, its_kind) in &self.held {
            if place.load(Relaxed) == 0 {
                its_kind.store(kind as usize, Relaxed);
                place.store(address, Relaxed);
                return;
            }
        }
    }

    fn let_go(&self, address: usize) {
        for (place, _) in self.held.iter().rev() {
            if place.load(Relaxed) == address {
                place.store(0, Relaxed);
                return;
            }
        }
    }

    /// Whether any lock was held.
    #[inline]
    fn give_back(&self) -> bool {
        let mut any = false;
        for (place, kind) in &self.held {
            let address = place.load(Relaxed);
            if address == 0 {
                continue;
            }
            any = true;
            place.store(0, Relaxed);
            let kind = kind.load(Relaxed);
            // SAFETY: this thread took the lock at that address, and the library that it belongs to is never unloaded.
            unsafe {
                if kind == Lock::Mutex as usize {
                    libc::pthread_mutex_unlock(address as *mut _);
                } else if kind == Lock::ReadWrite as usize {
                    libc::pthread_rwlock_unlock(address as *mut _);
                } else if kind == Lock::Spin as usize {
                    libc::pthread_spin_unlock(address as *mut _);
                } else {
                    libc::sem_post(address as *mut _);
                }
            }
        }
        any
    }
}

/// The calling thread's entry. `None` if it has none, and cannot or shall not get one.
#[inline]
fn own(make: bool) -> Option<&'static Entry> {
    // SAFETY: no arguments; reads a register.
    let thread = unsafe { libc::pthread_self() } as usize;
    let used = USED.load(Acquire) as usize;
    let known = ENTRIES
        .iter()
        .take(used)
        .find(|entry| entry.thread.load(Relaxed) == thread);
    match known {
        Some(entry) => Some(entry),
        None if make => claim(thread),
        None => None,
    }
}

#[cold]
fn claim(thread: usize) -> Option<&'static Entry> {
    // A thread's address is used again when it has ended, and so is its entry; more than so many at once are not watched.
    let index = USED
        .fetch_update(AcqRel, Acquire, |used| {
            ((used as usize) < THREADS).then_some(used + 1)
        })
        .ok()?;
    let entry = ENTRIES.get(index as usize)?;
    entry.thread.store(thread, Relaxed);
    Some(entry)
}

unsafe fn forward(real: &AtomicUsize, deed: Deed, [a, b, c, d]: [usize; 4]) -> usize {
    let entry = own(false).filter(|entry| entry.walking.load(Relaxed));
    if let Some(entry) = entry {
        match deed {
            Deed::Allocates => entry.allocations.fetch_add(1, Relaxed),
            Deed::Takes(_) => entry.locks.fetch_add(1, Relaxed),
            Deed::Returns => 0,
        };
    }
    // SAFETY: `imports::redirect` stored the function that the linker had found, before any forwarder could be reached.
    let result = unsafe {
        let real = std::mem::transmute::<usize, Forwarder>(real.load(Relaxed));
        real(a, b, c, d)
    };
    match (entry, deed) {
        // All that take a lock answer with an int, of which 0 means that they did.
        (Some(entry), Deed::Takes(kind)) if result as i32 == 0 => entry.hold(a, kind),
        (Some(entry), Deed::Returns) => entry.let_go(a),
        _ => {}
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_that_stays_held_is_noticed_and_given_back() {
        let mutex = Box::leak(Box::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let address = std::ptr::from_mut(mutex) as usize;
        let named = |symbol: &str| {
            let watched = WATCHED
                .iter()
                .find(|watched| watched.symbol == symbol)
                .unwrap();
            watched.forwarder
        };
        for (symbol, real) in [
            (
                "pthread_mutex_lock",
                libc::pthread_mutex_lock as *const () as usize,
            ),
            (
                "pthread_mutex_unlock",
                libc::pthread_mutex_unlock as *const () as usize,
            ),
            ("free", libc::free as *const () as usize),
        ] {
            let watched = WATCHED
                .iter()
                .find(|watched| watched.symbol == symbol)
                .unwrap();
            watched.real.store(real, Relaxed);
        }
        let (lock, unlock, free) = (
            named("pthread_mutex_lock"),
            named("pthread_mutex_unlock"),
            named("free"),
        );
        // SAFETY: a mutex of our own; free takes null.
        unsafe {
            let walk = Walk::begin();
            assert_eq!(walk.end(), None);
            let walk = Walk::begin();
            lock(address, 0, 0, 0);
            assert_eq!(walk.end(), Some(Breach::LockHeld));
            assert_eq!(libc::pthread_mutex_trylock(mutex), 0, "it was given back");
            libc::pthread_mutex_unlock(mutex);
            let walk = Walk::begin();
            lock(address, 0, 0, 0);
            unlock(address, 0, 0, 0);
            free(0, 0, 0, 0);
            assert_eq!(walk.end(), Some(Breach::Lock));
            let walk = Walk::begin();
            free(0, 0, 0, 0);
            assert_eq!(walk.end(), Some(Breach::Allocation));
            free(0, 0, 0, 0);
            let _unfinished = Walk::begin();
            lock(address, 0, 0, 0);
            left();
            assert_eq!(libc::pthread_mutex_trylock(mutex), 0, "it was given back");
            libc::pthread_mutex_unlock(mutex);
            let outer = Walk::begin();
            let inner = Walk::begin();
            assert_eq!(inner.end(), None, "outside walks nobody minds");
            free(0, 0, 0, 0);
            assert_eq!(outer.end(), Some(Breach::Allocation));
        }
    }
}
