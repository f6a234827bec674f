//! What a handler that was left halfway had begun: put back.
//!
//! A profiler's handler takes one of a few locks, and one that it is thrown out of is never given back: after some faults it would answer every signal with
//! nothing, and end in a wait for ever. So the memory that such things lie in is kept before each call, and the words that have changed are put back
//! after a call that was left: the library's writable data, the objects on the C heap that it points to, and the thread's `JavaThread`, where
//! AsyncGetCallTrace and crash protections leave marks. Memory behind these objects is not put back.
//!
//! Contract: [`Checkpoint::keep`] and [`Checkpoint::put_back`] are signal-safe, for who has the turn. Profilers' own threads may write meanwhile: a word
//! of theirs that changes during a call that is left is put back as well.

use std::ptr;

use walkfuzz_context::Address;
use walkfuzz_vmstructs::{Maps, Span};

/// The largest object that is kept; larger ones are tables.
const LARGEST: u64 = 64 << 10;
/// All that is kept.
const ROOM: usize = 1 << 20;
/// Before an object: its size and three flags (malloc_chunk, glibc's malloc.c).
const HEADER: u64 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    spans: Vec<Span>,
    /// Bytes of a `JavaThread`.
    thread: usize,
    kept: Vec<u64>,
    /// Whose `JavaThread` was kept.
    of: u64,
}

impl Checkpoint {
    /// For a library with this writable memory, and objects that it points to now.
    pub(crate) fn new(writable: &[Span], maps: &Maps, thread: usize) -> Self {
        let mut spans: Vec<Span> = writable.iter().copied().map(aligned).collect();
        let roots: Vec<u64> = spans.iter().flat_map(|span| words(*span)).collect();
        let mut room = ROOM.saturating_sub(spans.iter().map(|span| span.length() as usize).sum());
        for root in roots {
            let Some(object) = heap_object(maps, root) else {
                continue;
            };
            let fits = object.length() as usize <= room;
            if fits && !spans.iter().any(|span| span.contains(object.start)) {
                room -= object.length() as usize;
                spans.push(object);
            }
        }
        let bytes: usize = spans.iter().map(|span| span.length() as usize).sum();
        Self {
            kept: vec![0; (bytes + thread) / 8],
            thread: thread & !7,
            spans,
            of: 0,
        }
    }

    /// Keeps everything as it is. `java_thread` is the calling thread's.
    pub(crate) fn keep(&mut self, java_thread: u64) {
        self.of = java_thread;
        let mut to = self.kept.as_mut_ptr();
        for (from, words) in regions(&self.spans, self.of, self.thread) {
            // SAFETY: memory of a library that stays loaded, of objects that it holds on to, and of a thread that lives; `kept` has room for all.
            unsafe {
                ptr::copy_nonoverlapping(from as *const u64, to, words);
                to = to.add(words);
            }
        }
    }

    /// Puts back what has changed since; how many words.
    pub(crate) fn put_back(&self) -> u32 {
        let mut changed = 0;
        let mut kept = self.kept.iter();
        for (start, words) in regions(&self.spans, self.of, self.thread) {
            for (at, before) in (start..).step_by(8).zip(kept.by_ref().take(words)) {
                let word = at as *mut u64;
                // SAFETY: as in `keep`.
                unsafe {
                    if word.read_volatile() != *before {
                        word.write_volatile(*before);
                        changed += 1;
                    }
                }
            }
        }
        changed
    }
}

/// Where what is kept lies, and how many words it has.
fn regions(spans: &[Span], java_thread: u64, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    let words = |span: &Span| (span.start.0, span.length() as usize / 8);
    spans
        .iter()
        .map(words)
        .chain(std::iter::once((java_thread, bytes / 8)))
}

/// The whole words of a span.
fn aligned(span: Span) -> Span {
    Span::new(Address((span.start.0 + 7) & !7), Address(span.end.0 & !7))
}

fn words(span: Span) -> impl Iterator<Item = u64> {
    // SAFETY: writable memory of a library that stays loaded.
    (span.start.0..span.end.0)
        .step_by(8)
        .map(|at| unsafe { (at as *const u64).read_volatile() })
}

/// The object of glibc's heap that begins at `pointer`, if what stands before it looks like one.
fn heap_object(maps: &Maps, pointer: u64) -> Option<Span> {
    if !pointer.is_multiple_of(HEADER) {
        return None;
    }
    let mapping = maps.find(Address(pointer))?;
    let is_heap = mapping.path.is_empty() || &*mapping.path == "[heap]";
    if !is_heap || !mapping.writable || mapping.executable {
        return None;
    }
    let inside = |address: u64| mapping.span.contains(Address(address));
    if !inside(pointer.checked_sub(HEADER)?) {
        return None;
    }
    // SAFETY: inside a mapping that may be read.
    let size = unsafe { (pointer as *const u64).sub(1).read_volatile() };
    /// Mapped by itself, and so larger than what is kept.
    const MAPPED: u64 = 2;
    let bytes = size & !7;
    let end = pointer.checked_add(bytes)?.checked_sub(HEADER)?;
    let sane = bytes.is_multiple_of(HEADER)
        && (2 * HEADER..=LARGEST).contains(&bytes)
        && size & MAPPED == 0;
    if !sane || !inside(end + HEADER) {
        return None;
    }
    // SAFETY: as above. What follows says that what comes before it is in use.
    let next = unsafe { ((end + 8) as *const u64).read_volatile() };
    (next & 1 == 1 && next >= 2 * HEADER).then(|| Span::new(Address(pointer), Address(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_are_pointed_to_are_put_back() {
        let mut object = vec![7_u64; 100];
        let mut holder = [object.as_mut_ptr() as u64, 3];
        let mut thread = [1_u64; 8];
        let start = holder.as_ptr() as u64;
        let span = Span::new(Address(start), Address(start + 16));
        let maps = Maps::read_own().unwrap();
        let mut checkpoint = Checkpoint::new(&[span], &maps, 64);
        // The holder, the object, the thread; a chunk of glibc has up to three words more than was asked for.
        assert!((110..=113).contains(&checkpoint.kept.len()));
        checkpoint.keep(thread.as_ptr() as u64);
        assert_eq!(checkpoint.put_back(), 0);
        let write = |at: *mut u64, value| {
            // SAFETY: words of the arrays, which nothing else uses meanwhile.
            unsafe { at.write_volatile(value) }
        };
        write(&raw mut object[99], 8);
        write(&raw mut holder[1], 4);
        write(&raw mut thread[7], 2);
        assert_eq!(checkpoint.put_back(), 3);
        assert_eq!((object[99], holder[1], thread[7]), (7, 3, 1));
    }
}
