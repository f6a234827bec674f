//! What a profiler's handler that was left halfway had begun: put back.
//!
//! A profiler's handler takes one of a few locks, and one that it is thrown out of is never given back: after some faults it would answer every signal with
//! nothing, and end in a wait for ever. So the memory that such things lie in is kept before each call, and the words that have changed are put back
//! after a call that was left: the library's writable data, and the objects on the C heap that it points to. Memory behind these objects is not put back.
//!
//! Of a `JavaThread` only what a walk is known to leave there ([`Marks`]). The JVM writes to the other words while the thread is in the handler: it asks the
//! thread to stop, and a request that is undone is one that it waits for without end.
//!
//! An object is kept and put back only as long as the word that led to it still does, and its size is the same: what was freed is somebody else's.
//!
//! Contract: [`Checkpoint::keep`] and [`Checkpoint::put_back`] are signal-safe, for who has the turn; the guard is installed. Profilers' own threads may
//! write meanwhile: a word of theirs that changes during a call that is left is put back as well, unless it is one that leads to an object.

use std::ptr;

use walkfuzz_context::Address;
use walkfuzz_guard::{read_checked, read_word};
use walkfuzz_vmstructs::{Maps, Span};

/// The largest object that is kept; larger ones are tables.
const LARGEST: u64 = 64 << 10;
/// All that is kept.
const ROOM: usize = 1 << 20;
/// Before an object: its size and three flags (malloc_chunk, glibc's malloc.c).
const HEADER: u64 = 16;

/// Where walks mark the thread that they walk, from its `JavaThread`; nobody but the thread itself writes there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The byte by which AsyncGetCallTrace says that it is at work.
    pub(crate) walked: Option<u64>,
    /// The word in which async-profiler's own walker notes its way out of a fault: `ThreadShadow::_exception_file`.
    pub(crate) way_out: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    data: Vec<Span>,
    objects: Vec<Object>,
    /// The words of `data`, and then of the objects.
    kept: Vec<u64>,
    marks: Marks,
    walked: u8,
    way_out: u64,
    /// Whose `JavaThread` was kept.
    of: u64,
}

/// An object of glibc's heap.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// The word of the library's data that leads to it.
    root: u64,
    span: Span,
    /// Its size as it stands before it, without flags.
    size: u64,
    /// Whether it is kept for the call under way.
    held: bool,
}

impl Object {
    /// Whether it is still the same, and the library's.
    fn is_there(&self) -> bool {
        let (start, end) = (self.span.start.0, self.span.end.0);
        read_word(Address(self.root)) == Ok(start)
            && read_word(Address(start - 8)).is_ok_and(|size| size & !7 == self.size)
            && read_word(Address(end + 8)).is_ok_and(before_is_in_use)
    }
}

impl Checkpoint {
    /// For a library with this writable memory, and objects that it points to now.
    pub(crate) fn new(writable: &[Span], maps: &Maps, marks: Marks) -> Self {
        let data: Vec<Span> = writable.iter().copied().map(aligned).collect();
        let mut objects: Vec<Object> = Vec::new();
        let mut room = ROOM.saturating_sub(data.iter().map(|span| span.length() as usize).sum());
        for root in data
            .iter()
            .flat_map(|span| (span.start.0..span.end.0).step_by(8))
        {
            let Some(object) = heap_object(maps, root) else {
                continue;
            };
            let bytes = object.span.length() as usize;
            let known = objects
                .iter()
                .map(|object| &object.span)
                .chain(&data)
                .any(|span| span.contains(object.span.start));
            if bytes <= room && !known {
                room -= bytes;
                objects.push(object);
            }
        }
        let spans = data.iter().chain(objects.iter().map(|object| &object.span));
        let words: usize = spans.map(words_of).sum();
        Self {
            kept: vec![0; words],
            data,
            objects,
            marks,
            walked: 0,
            way_out: 0,
            of: 0,
        }
    }

    /// Keeps everything as it is. `java_thread` is the calling thread's.
    pub(crate) fn keep(&mut self, java_thread: u64) {
        self.of = java_thread;
        // SAFETY: fields of a thread that lives.
        unsafe {
            if let Some(offset) = self.marks.walked {
                self.walked = ((java_thread + offset) as *const u8).read_volatile();
            }
            if let Some(offset) = self.marks.way_out {
                self.way_out = ((java_thread + offset) as *const u64).read_volatile();
            }
        }
        let mut rest = self.kept.as_mut_slice();
        for span in &self.data {
            let Some((to, more)) = rest.split_at_mut_checked(words_of(span)) else {
                return;
            };
            rest = more;
            // SAFETY: memory of a library that stays loaded.
            unsafe {
                ptr::copy_nonoverlapping(span.start.0 as *const u64, to.as_mut_ptr(), to.len());
            }
        }
        for object in &mut self.objects {
            let Some((to, more)) = rest.split_at_mut_checked(words_of(&object.span)) else {
                return;
            };
            rest = more;
            // SAFETY: words are bytes.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), size_of_val(to))
            };
            object.held = object.is_there() && read_checked(object.span.start, bytes).is_ok();
        }
    }

    /// Puts back what has changed since; how many words.
    pub(crate) fn put_back(&self) -> u32 {
        let mut changed = self.unmark();
        let mut rest = self.kept.as_slice();
        for span in &self.data {
            let Some((kept, more)) = rest.split_at_checked(words_of(span)) else {
                return changed;
            };
            rest = more;
            for (at, before) in (span.start.0..).step_by(8).zip(kept) {
                let word = at as *mut u64;
                // SAFETY: as in `keep`.
                if unsafe { word.read_volatile() } == *before || self.leads_to_object(at) {
                    continue;
                }
                // SAFETY: as above.
                unsafe { word.write_volatile(*before) };
                changed += 1;
            }
        }
        for object in &self.objects {
            let Some((kept, more)) = rest.split_at_checked(words_of(&object.span)) else {
                return changed;
            };
            rest = more;
            if !object.held || !object.is_there() {
                continue;
            }
            for (at, before) in (object.span.start.0..).step_by(8).zip(kept) {
                let differs = read_word(Address(at)).is_ok_and(|now| now != *before);
                if differs && object.is_there() {
                    // SAFETY: a word of an object that the library holds on to.
                    unsafe { (at as *mut u64).write_volatile(*before) };
                    changed += 1;
                }
            }
        }
        changed
    }

    /// Puts the thread's marks back; how many.
    fn unmark(&self) -> u32 {
        let mut changed = 0;
        // SAFETY: fields of the calling thread, which lives.
        unsafe {
            if let Some(offset) = self.marks.walked {
                let byte = (self.of + offset) as *mut u8;
                if byte.read_volatile() != self.walked {
                    byte.write_volatile(self.walked);
                    changed += 1;
                }
            }
            if let Some(offset) = self.marks.way_out {
                let word = (self.of + offset) as *mut u64;
                if word.read_volatile() != self.way_out {
                    word.write_volatile(self.way_out);
                    changed += 1;
                }
            }
        }
        changed
    }

    /// Whether an object was kept because of the word at this address. If that has changed, it leads to what came in the object's place.
    fn leads_to_object(&self, at: u64) -> bool {
        self.objects.iter().any(|object| object.root == at)
    }
}

fn words_of(span: &Span) -> usize {
    span.length() as usize / 8
}

/// The whole words of a span.
fn aligned(span: Span) -> Span {
    Span::new(Address((span.start.0 + 7) & !7), Address(span.end.0 & !7))
}

/// What follows an object says that what comes before it is in use.
fn before_is_in_use(next: u64) -> bool {
    next & 1 == 1 && next >= 2 * HEADER
}

/// The object of glibc's heap that begins where the word at `root` points, if what stands before it looks like one.
fn heap_object(maps: &Maps, root: u64) -> Option<Object> {
    let pointer = read_word(Address(root)).ok()?;
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
    let size = read_word(Address(pointer - 8)).ok()?;
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
    let next = read_word(Address(end + 8)).ok()?;
    before_is_in_use(next).then(|| Object {
        root,
        span: Span::new(Address(pointer), Address(end)),
        size: bytes,
        held: false,
    })
}

#[cfg(test)]
mod tests {
    use walkfuzz_guard::{Guard, GuardOptions};

    use super::*;

    const MARKS: Marks = Marks {
        walked: Some(33),
        way_out: Some(8),
    };

    fn write(at: *mut u64, value: u64) {
        // SAFETY: words of the test's, which nothing else uses meanwhile.
        unsafe { at.write_volatile(value) }
    }

    fn span_of(words: &[u64]) -> Span {
        let start = words.as_ptr() as u64;
        Span::new(Address(start), Address(start + size_of_val(words) as u64))
    }

    #[test]
    fn objects_that_are_pointed_to_are_put_back() {
        let mut object = vec![7_u64; 100];
        let mut holder = [object.as_mut_ptr() as u64, 3];
        let thread = [0_u64; 8];
        let maps = Maps::read_own().unwrap();
        let mut checkpoint = Checkpoint::new(&[span_of(&holder)], &maps, Marks::default());
        // The holder and the object; a chunk of glibc has up to three words more than was asked for.
        assert!((102..=105).contains(&checkpoint.kept.len()));
        checkpoint.keep(thread.as_ptr() as u64);
        assert_eq!(checkpoint.put_back(), 0);
        write(&raw mut object[99], 8);
        write(&raw mut holder[1], 4);
        assert_eq!(checkpoint.put_back(), 2);
        assert_eq!((object[99], holder[1]), (7, 3));
    }

    /// Among the other words are the JVM's requests to stop.
    #[test]
    fn of_a_thread_only_the_marks_are_put_back() {
        let maps = Maps::read_own().unwrap();
        let mut checkpoint = Checkpoint::new(&[], &maps, MARKS);
        let mut thread = [1_u64; 8];
        checkpoint.keep(thread.as_ptr() as u64);
        for word in &mut thread {
            write(word, 0x0909_0909_0909_0909);
        }
        assert_eq!(checkpoint.put_back(), 2);
        let mut expected = [0x0909_0909_0909_0909; 8];
        expected[1] = 1;
        // Byte 33.
        expected[4] = u64::from_ne_bytes([9, 0, 9, 9, 9, 9, 9, 9]);
        assert_eq!(thread, expected);
    }

    #[test]
    fn memory_that_changed_hands_is_left_alone() {
        let _guard = Guard::install(GuardOptions::default()).unwrap();
        let bytes = 1 << 16;
        // SAFETY: new memory.
        let arena = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0)
        };
        assert_ne!(arena, libc::MAP_FAILED);
        let chunk = arena.cast::<u64>();
        let at = |word: usize| chunk.wrapping_add(word);
        // Two words of header, 30 of the object, and the header of the next.
        write(at(1), 0x101);
        write(at(33), 0x41);
        let object = at(2);
        let mut holder = [object as u64, 0];
        let thread = [0_u64; 8];
        let maps = Maps::read_own().unwrap();
        let mut checkpoint = Checkpoint::new(&[span_of(&holder)], &maps, Marks::default());
        assert_eq!(checkpoint.objects.len(), 1);
        let root = &raw mut holder[0];
        let mut keep_and_change = |changes: &[(*mut u64, u64)]| {
            write(root, object as u64);
            write(at(1), 0x101);
            write(object, 7);
            checkpoint.keep(thread.as_ptr() as u64);
            for (word, value) in changes {
                write(*word, *value);
            }
            checkpoint.put_back()
        };
        // SAFETY: words of the test's.
        let now = |word: *mut u64| unsafe { word.read_volatile() };
        assert_eq!(keep_and_change(&[(object, 8)]), 1);
        assert_eq!(now(object), 7);
        // Freed, and somebody else's.
        assert_eq!(keep_and_change(&[(object, 8), (root, 0)]), 0);
        assert_eq!((now(object), now(root)), (8, 0));
        // The place is part of something larger.
        assert_eq!(keep_and_change(&[(object, 8), (at(1), 0x201)]), 0);
        assert_eq!(now(object), 8);
        // Changed hands before the call.
        write(root, 0);
        checkpoint.keep(thread.as_ptr() as u64);
        write(object, 9);
        assert_eq!((checkpoint.put_back(), now(object)), (0, 9));
        // Gone, while the library still points there.
        write(root, object as u64);
        // SAFETY: the test's own, of which nothing is used any more.
        assert_eq!(unsafe { libc::munmap(arena, bytes) }, 0);
        checkpoint.keep(thread.as_ptr() as u64);
        assert_eq!(checkpoint.put_back(), 0);
    }
}
