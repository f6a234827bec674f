//! JFR's queue of samples by CPU time, in JDK 25 and later: found in the thread that was just sampled, and its elements edited.
//!
//! JFR's handler takes down where its thread is, in a queue of the thread's own; at the thread's next safepoint the JVM walks from there. The queue is a part of
//! the `JavaThread`: pointer, capacity and length (JDK 25, jfrCPUTimeThreadSampler.hpp, `JfrCPUTimeTraceQueue`). No table says where, so it is looked for: the
//! one place whose youngest element has the pc that the handler was called with.
//!
//! Contract: [`Queue::edit`] is signal-safe, for who has the turn, in the handler of the thread, which executes Java code: only the thread itself empties its queue
//! then. Everything is read with checked loads, for the queue may have been freed when a recording ended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::*};

use walkfuzz_context::codec::decode_perturbation;
use walkfuzz_context::element::{FED, Word, element};
use walkfuzz_context::generate::{Dice, Rng};
use walkfuzz_context::{Address, Arch, Landscape, Perturbation, Registers};
use walkfuzz_guard::{read_checked, read_word};

/// Words of an element: sp, pc, bcp, ticks, and the period in two units.
const ELEMENT_WORDS: usize = 6;
/// Bytes of an element.
const ELEMENT: u64 = 8 * ELEMENT_WORDS as u64;
/// What an element's first words are.
const WORDS: [Word; 5] = [Word::Sp, Word::Pc, Word::Bcp, Word::Arg, Word::Period];
/// No queue has more elements.
const MOST: u32 = 1_000_000;
/// Where the queue is not known to be.
const NOWHERE: u64 = u64::MAX;
/// What elements become.
#[derive(Debug)]
pub(crate) enum Source {
    /// Drawn at random.
    Random,
    /// Always the same.
    Fixed(Perturbation),
    /// One after the other from a file that grows.
    Fed(File),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    source: Source,
    taken: AtomicU64,
    /// Where in a `JavaThread` it was found.
    offset: AtomicU64,
    /// Bytes of a `JavaThread`.
    thread: u64,
}

/// A queue with elements in it.
#[derive(Clone, Copy)]
struct Found {
    /// The queue itself.
    at: u64,
    data: u64,
    capacity: u32,
    length: u32,
}

impl Queue {
    /// For threads of so many bytes.
    pub(crate) fn new(source: Source, thread: u64) -> Self {
        Self {
            source,
            taken: AtomicU64::new(0),
            offset: AtomicU64::new(NOWHERE),
            thread,
        }
    }

    /// Edits one of the thread's elements, if its queue is found. `note` is told of the element before and after, just before it is written.
    pub(crate) fn edit<L: Landscape>(
        &self,
        java_thread: u64,
        pc: u64,
        rng: &mut Rng,
        landscape: &L,
        note: impl FnOnce(&Registers, &Registers),
    ) -> Option<()> {
        let found = self.find(java_thread, pc)?;
        let edits = self.next(rng)?;
        let at = found.data + ELEMENT * u64::from(rng.below(found.length));
        let before = found.element(at)?;
        let mut after = before;
        edits.apply(&mut after, landscape);
        note(&before, &after);
        let register = |word: Word| after.get(word.register(Arch::NATIVE));
        for (index, word) in (0..).zip(WORDS) {
            // SAFETY: a word of an element that was read just now; its queue is this thread's, which stands in its handler.
            unsafe { ((at + 8 * index) as *mut u64).write_volatile(register(word)) };
        }
        let size = register(Word::Size);
        if size != u64::from(found.length) {
            // Within the capacity: beyond it lies memory that is no element.
            let length = (size % (u64::from(found.capacity) + 1)) as u32;
            // SAFETY: as above; the queue's own word.
            unsafe { ((found.at + 12) as *mut u32).write_volatile(length) };
        }
        self.took();
        Some(())
    }

    fn find(&self, java_thread: u64, pc: u64) -> Option<Found> {
        let known = self.offset.load(Relaxed);
        if known != NOWHERE {
            return Found::at(java_thread + known, pc);
        }
        let mut places = (0..self.thread.saturating_sub(16))
            .step_by(8)
            .filter(|offset| Found::at(java_thread + offset, pc).is_some());
        let (first, second) = (places.next()?, places.next());
        // What looks like a queue by chance does so once.
        if second.is_some() {
            return None;
        }
        self.offset.store(first, Relaxed);
        Found::at(java_thread + first, pc)
    }

    fn next(&self, rng: &mut Rng) -> Option<Perturbation> {
        match &self.source {
            Source::Random => Some(element(rng, &Word::OF_JFR, Arch::NATIVE)),
            Source::Fixed(edits) => Some(*edits),
            Source::Fed(file) => {
                let mut bytes = [0; FED];
                let place = (1 + self.taken.load(Relaxed)) * FED as u64;
                // A read of a regular file: a system call and no more.
                let whole = file.read_at(&mut bytes, place).ok()? == FED;
                whole.then(|| decode_perturbation(&bytes).1)
            }
        }
    }

    fn took(&self) {
        let taken = self.taken.fetch_add(1, Relaxed) + 1;
        if let Source::Fed(file) = &self.source {
            // Who feeds waits for it in vain then, and gives up.
            let _ = file.write_at(&taken.to_le_bytes(), 0);
        }
    }
}

impl Found {
    /// The queue at an address, if it looks like one whose youngest element is of this pc.
    fn at(at: u64, pc: u64) -> Option<Self> {
        let data = read_word(Address(at)).ok()?;
        let sizes = read_word(Address(at + 8)).ok()?;
        let (capacity, length) = (sizes as u32, (sizes >> 32) as u32);
        if data < 0x1_0000 || data % 8 != 0 || data >> 47 != 0 {
            return None;
        }
        if capacity == 0 || capacity > MOST || length == 0 || length > capacity {
            return None;
        }
        let youngest = data + ELEMENT * u64::from(length - 1);
        (read_word(Address(youngest + 8)).ok()? == pc).then_some(Self {
            at,
            data,
            capacity,
            length,
        })
    }

    fn element(&self, at: u64) -> Option<Registers> {
        let mut bytes = [0; ELEMENT as usize];
        read_checked(Address(at), &mut bytes).ok()?;
        let mut registers = Registers::zeroed(Arch::NATIVE);
        for (word, bytes) in WORDS.iter().zip(bytes.as_chunks::<8>().0) {
            registers.set(word.register(Arch::NATIVE), u64::from_ne_bytes(*bytes));
        }
        registers.set(Word::Size.register(Arch::NATIVE), self.length.into());
        Some(registers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walkfuzz_context::LandscapeTable;
    use walkfuzz_context::element::parse;
    use walkfuzz_guard::{Guard, GuardOptions};

    /// Three elements, and a thread with a queue of them.
    fn thread(elements: &mut [[u64; ELEMENT_WORDS]; 3]) -> [u64; 8] {
        for (index, element) in (1..).zip(elements.iter_mut()) {
            *element = [index * 16, index, 0, 7, 1, 1];
        }
        let data = elements.as_ptr() as u64;
        [1, data, 3, 0, data, 8 | 3 << 32, 5, 0]
    }

    fn edited(source: Source, pc: u64) -> (Option<()>, [[u64; ELEMENT_WORDS]; 3], [u64; 8]) {
        let _guard = Guard::install(GuardOptions::default());
        let mut elements = [[0; ELEMENT_WORDS]; 3];
        let thread = thread(&mut elements);
        let queue = Queue::new(source, size_of_val(&thread) as u64);
        let landscape = LandscapeTable::new();
        let at = (&raw const thread) as u64;
        let took = queue.edit(at, pc, &mut Rng::new(1), &landscape, |_, _| {});
        // SAFETY: as it was written.
        (took, elements, unsafe {
            (&raw const thread).read_volatile()
        })
    }

    #[test]
    fn a_queue_is_found_by_its_youngest_element() {
        let fixed = |text: &str| Source::Fixed(parse(Arch::NATIVE, text).unwrap());
        let (took, elements, _) = edited(fixed("sp+=1"), 3);
        assert!(took.is_some());
        let sps = elements.map(|element| element[0] & 1);
        assert_eq!(sps.iter().sum::<u64>(), 1, "{elements:?}");
        let (took, _, thread) = edited(fixed("size=&size-1"), 3);
        assert!(took.is_some());
        assert_eq!(thread[5] >> 32, 2);
        let (took, elements, _) = edited(fixed("sp+=1"), 2);
        assert!(took.is_none(), "{elements:?}");
    }

    #[test]
    fn what_is_fed_is_taken_in_order() {
        let file = tempfile::tempfile().unwrap();
        let edits = parse(Arch::NATIVE, "bcp+=9").unwrap();
        let mut bytes = walkfuzz_context::codec::perturbation_to_bytes(Arch::NATIVE, &edits);
        bytes.resize(FED, 0);
        file.write_at(&bytes, FED as u64).unwrap();
        let (took, elements, _) = edited(Source::Fed(file.try_clone().unwrap()), 3);
        assert!(took.is_some());
        assert_eq!(elements.iter().map(|element| element[2]).sum::<u64>(), 9);
        let mut taken = [0; 8];
        file.read_at(&mut taken, 0).unwrap();
        assert_eq!(u64::from_le_bytes(taken), 1);
    }
}
