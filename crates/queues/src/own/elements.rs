//! Words of queued elements edited, before and while the queue is processed.
//!
//! What must hold: the JVM lives, and each element is handed out once, in its place, whatever is in it; frames that come of it are believed no more than registers are.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use walkfuzz_asgst::abi::iterator::Iterator;
use walkfuzz_asgst::abi::queue::Queue;
use walkfuzz_asgst::api::{IteratorApi, QueueApi};
use walkfuzz_context::element::Word;
use walkfuzz_context::{Arch, Perturbation, Registers};

use super::held::{Held, Standing};
use crate::error::QueueError;

/// Elements that get the same edits.
const TIMES: usize = 8;
/// Frames that a handler takes.
const FRAMES: usize = 64;
/// Holds after which what waits should have been handed out.
const PATIENCE: u32 = 400;
/// The public words of an element in their order.
const PUBLIC: [Word; 4] = [Word::Pc, Word::Fp, Word::Sp, Word::Arg];
/// What stands behind them in walkfuzz's own: bytecode index, the caller's stack pointer, the code.
const HIDDEN: [Word; 3] = [Word::Bcp, Word::Period, Word::Size];

/// What an implementation got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// Not what was put in, in that order, once.
    #[error("elements: {given} handed out of {put} that were put in, not each once and in order")]
    NotOnce {
        /// Handed out.
        given: usize,
        /// Put in.
        put: usize,
    },
    /// Never handed out.
    #[error("stuck: {0} elements wait though the thread ran on {PATIENCE} times")]
    Stuck(usize),
    /// There is no queue, or no element of one.
    #[error("no queue: RegisterQueue or GetQueueElement refuses")]
    Refused,
}

/// Words for an element.
type Words = (c_int, Vec<u64>);

struct Shared {
    iterator: Option<IteratorApi>,
    queue: Option<QueueApi>,
    /// What handlers were given.
    given: Vec<u64>,
    /// What is written when processing begins.
    late: Vec<Words>,
    frames: u64,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    iterator: None,
    queue: None,
    given: Vec::new(),
    late: Vec::new(),
    frames: 0,
});

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn take(iterator: *mut Iterator, _: *mut c_void, element: *mut c_void) {
    let mut shared = shared();
    shared.given.push(element as u64);
    let Some(api) = shared.iterator else {
        return;
    };
    // SAFETY: the handler's own iterator.
    unsafe {
        let mut frame = std::mem::zeroed();
        while shared.frames < FRAMES as u64 && (api.next_frame)(iterator, &raw mut frame) == 1 {
            shared.frames += 1;
        }
    }
    shared.frames = 0;
}

unsafe extern "C" fn begins(queue: *mut Queue, _: *mut Iterator, _: *mut c_void) {
    let mut shared = shared();
    let Some(api) = shared.queue else {
        return;
    };
    for (n, words) in std::mem::take(&mut shared.late) {
        // SAFETY: the queue is being processed on this thread.
        unsafe { write(&api, queue, n, &words) };
    }
}

/// # Safety
/// On the queue's thread.
unsafe fn write(api: &QueueApi, queue: *mut Queue, n: c_int, words: &[u64]) {
    // SAFETY: the caller's promise; an element has as many words.
    unsafe {
        let element = (api.get_queue_element)(queue, n).cast::<u64>();
        if !element.is_null() {
            for (index, word) in words.iter().enumerate() {
                element.add(index).write_volatile(*word);
            }
        }
    }
}

/// The target: a queue that lives on from input to input.
pub struct Elements {
    queue: *mut Queue,
    words: Vec<Word>,
    put: Vec<u64>,
    capacity: c_int,
    /// Elements edited so far.
    pub edited: u64,
}

impl Elements {
    /// Makes a queue with room for `edits` of an input.
    ///
    /// # Errors
    /// No thread can be held.
    pub fn new(held: &mut Held, api: &QueueApi, edits: usize) -> Result<Self, QueueError> {
        let mut queue: *mut Queue = std::ptr::null_mut();
        *shared() = Shared {
            iterator: held.api.iterator,
            queue: Some(*api),
            given: Vec::new(),
            late: Vec::new(),
            frames: 0,
        };
        held.hold(true, &mut |standing| {
            let size = (edits * TIMES) as c_int;
            let null = std::ptr::null_mut();
            // SAFETY: the held thread's environment; the handlers may be called at any time.
            unsafe {
                queue = (api.register_queue)(standing.env.cast(), size, 0, Some(take), null);
                (api.set_on_queue_processing_start)(queue, 0, false, Some(begins), null);
            }
        })?;
        let mut words = PUBLIC.to_vec();
        if held.is_own {
            words.extend(HIDDEN);
        }
        Ok(Self {
            queue,
            words,
            put: Vec::new(),
            capacity: (edits * TIMES) as c_int,
            edited: 0,
        })
    }

    /// The words that can be edited.
    #[must_use]
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Puts elements in, edits them, and lets the thread come to its safepoint; `late`: they are edited when processing begins.
    ///
    /// # Errors
    /// No thread can be held.
    pub fn run(
        &mut self,
        held: &mut Held,
        api: &QueueApi,
        edits: &[Perturbation],
        late: bool,
    ) -> Result<Option<Mistake>, QueueError> {
        let mut result = Ok(());
        held.hold(false, &mut |standing| {
            result = self.fill(api, standing, edits, late)
        })?;
        if result.is_err() || self.put.is_empty() {
            return Ok(result.err());
        }
        let capacity = self.capacity;
        for _ in 0..PATIENCE {
            // Who asks for a capacity asks for a safepoint, too: the one that Enqueue had asked for may have been taken by the JVM.
            // SAFETY: the held thread's own queue.
            let mut ask = |_: &Standing<'_>| unsafe { (api.resize_queue)(self.queue, capacity) };
            held.hold(true, &mut ask)?;
            let given = std::mem::take(&mut shared().given);
            if !given.is_empty() {
                let put = std::mem::take(&mut self.put);
                let (given, put) = if given == put {
                    return Ok(None);
                } else {
                    (given.len(), put.len())
                };
                return Ok(Some(Mistake::NotOnce { given, put }));
            }
        }
        Ok(Some(Mistake::Stuck(self.put.len())))
    }

    fn fill(
        &mut self,
        api: &QueueApi,
        standing: &Standing<'_>,
        edits: &[Perturbation],
        late: bool,
    ) -> Result<(), Mistake> {
        let mut later = Vec::new();
        for edits in edits.iter().cycle().take(edits.len() * TIMES) {
            let number = self.put.len() as u64 + 1;
            // SAFETY: the held thread's context and queue; its element has these words.
            unsafe {
                if (api.enqueue)(self.queue, standing.context, number as *mut c_void) <= 0 {
                    // No Java frame where the thread stands.
                    continue;
                }
                let n = self.put.len() as c_int;
                let element = (api.get_queue_element)(self.queue, n).cast::<u64>();
                if element.is_null() {
                    return Err(Mistake::Refused);
                }
                let mut registers = Registers::zeroed(Arch::NATIVE);
                for (index, word) in self.words.iter().enumerate() {
                    registers.set(word.register(Arch::NATIVE), element.add(index).read());
                }
                edits.apply(&mut registers, standing.landscape);
                let words = self.words.iter();
                let words: Vec<u64> = words
                    .map(|word| registers.get(word.register(Arch::NATIVE)))
                    .collect();
                self.put
                    .push(registers.get(Word::Arg.register(Arch::NATIVE)));
                self.edited += 1;
                if late {
                    later.push((n, words));
                } else {
                    write(api, self.queue, n, &words);
                }
            }
        }
        shared().late = later;
        Ok(())
    }
}
