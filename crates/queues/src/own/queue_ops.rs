//! Sequences of calls of a queue's functions, beside a model: a list with a capacity.
//!
//! What must hold: as many as the capacity says are taken, and not one more; each stands where it came; each is handed out once, in order, or is waiting, or the
//! queue has ended; a resize loses nothing and comes into force once the queue was handed out; what has ended is known to none of the functions.
//!
//! Contract: calls are made on the queue's thread while it is held; handlers run on it between two holds.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arbitrary::Arbitrary;
use walkfuzz_asgst::abi::iterator::{Iterator, error};
use walkfuzz_asgst::abi::queue::Queue;
use walkfuzz_asgst::api::QueueApi;

use super::held::{Held, Standing};
use crate::error::QueueError;

/// Holds after which what waits should have been handed out: the thread ran between any two.
const PATIENCE: u32 = 400;
/// The most operations of an input.
const MOST: usize = 64;

/// One call.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts so many elements in.
    Enqueue(u8),
    /// Asks for an element.
    Get(i8),
    /// Wants another capacity; 0 is refused.
    Resize(u8),
    /// Lets the thread go.
    LetGo,
    /// Ends the queue and begins another.
    Deregister(u8),
    /// Ends it as the thread's end does. Of an implementation that is not walkfuzz's: as `Deregister`.
    ThreadEnds(u8),
    /// Uses what is no queue.
    NoQueue(u32),
}

/// What an implementation got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It takes more or fewer elements than its capacity.
    #[error("capacity: refused or taken with {waiting} of {capacity} waiting (answer {answer})")]
    Capacity {
        /// How many waited.
        waiting: usize,
        /// Of how many.
        capacity: usize,
        /// What Enqueue said.
        answer: c_int,
    },
    /// A full queue refuses with another code.
    #[error("full: Enqueue says {0} of a full queue")]
    Full(c_int),
    /// It says another size.
    #[error("size: {said} of {expected} elements")]
    Size {
        /// What it says.
        said: i32,
        /// The model's.
        expected: usize,
    },
    /// It says another capacity, or a resize does not come.
    #[error("resize: a capacity of {said} where {expected} was asked for")]
    Resized {
        /// What it says.
        said: i32,
        /// What was asked for.
        expected: usize,
    },
    /// An index leads to another element, or to none, or to one that is not there.
    #[error("index: element {0} is not the one that it should be")]
    Index(i32),
    /// Handed out in another order.
    #[error("order: element {got} handed out where {expected} was next")]
    Order {
        /// What came.
        got: u64,
        /// What should have.
        expected: u64,
    },
    /// Handed out twice, or never put in.
    #[error("duplicate: element {0} handed out, which waits no more")]
    Duplicate(u64),
    /// Gone without having been handed out.
    #[error("lost: {0} elements neither wait nor were handed out")]
    Lost(usize),
    /// Never handed out.
    #[error("stuck: {0} elements wait though the thread ran on {PATIENCE} times")]
    Stuck(usize),
    /// A queue that has ended answers, or one that is none.
    #[error("ended: a queue that has ended answers with {0}")]
    Ended(c_int),
    /// A queue that has not ended cannot be ended, or none can be made.
    #[error("no queue: RegisterQueue or DeregisterQueue refuses")]
    Refused,
}

/// What handlers were given, in the order of their calls.
static HANDED_OUT: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn handed_out() -> MutexGuard<'static, Vec<u64>> {
    HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) unsafe extern "C" fn take(_: *mut Iterator, _: *mut c_void, element: *mut c_void) {
    handed_out().push(element as u64);
}

/// A queue of a held thread, and its model.
pub(super) struct Work<'a> {
    api: &'a QueueApi,
    is_own: bool,
    pub(super) queue: *mut Queue,
    pub(super) waiting: VecDeque<u64>,
    capacity: usize,
    wanted: Option<usize>,
    next: u64,
    holds: u32,
}

impl<'a> Work<'a> {
    pub(super) fn new(api: &'a QueueApi, is_own: bool) -> Self {
        Self {
            api,
            is_own,
            queue: std::ptr::null_mut(),
            waiting: VecDeque::new(),
            capacity: 0,
            wanted: None,
            next: 1,
            holds: 0,
        }
    }

    /// Makes the queue.
    pub(super) fn begin(&mut self, standing: &Standing<'_>, capacity: u8) -> Result<(), Mistake> {
        self.capacity = usize::from(capacity) + 1;
        self.wanted = None;
        let size = self.capacity as c_int;
        let null = std::ptr::null_mut();
        handed_out().clear();
        // SAFETY: the held thread's environment; the handler may be called at any time.
        self.queue =
            unsafe { (self.api.register_queue)(standing.env.cast(), size, 0, Some(take), null) };
        if self.queue.is_null() {
            return Err(Mistake::Refused);
        }
        self.sizes()
    }

    /// Puts one element in.
    pub(super) fn enqueue(&mut self, standing: &Standing<'_>) -> Result<bool, Mistake> {
        let waiting = self.waiting.len();
        // SAFETY: the held thread's context.
        let answer =
            unsafe { (self.api.enqueue)(self.queue, standing.context, self.next as *mut c_void) };
        let capacity = self.capacity;
        let is_full = waiting >= capacity;
        match answer {
            error::ENQUEUE_FULL_QUEUE if is_full => Ok(false),
            answer if is_full && answer <= 0 => Err(Mistake::Full(answer)),
            answer if is_full || answer == error::ENQUEUE_FULL_QUEUE => Err(Mistake::Capacity {
                waiting,
                capacity,
                answer,
            }),
            // Where the thread stands, there is no Java frame.
            answer if answer <= 0 => Ok(false),
            _ => {
                self.waiting.push_back(self.next);
                self.next += 1;
                Ok(true)
            }
        }
    }

    /// Compares what was handed out since the last hold with what waited then. Whether nothing waits any more.
    pub(super) fn settle(&mut self) -> Result<bool, Mistake> {
        self.holds += 1;
        let given: Vec<u64> = handed_out().drain(..).collect();
        let any = !given.is_empty();
        for got in given {
            let Some(expected) = self.waiting.pop_front() else {
                return Err(Mistake::Duplicate(got));
            };
            if got < expected {
                return Err(Mistake::Duplicate(got));
            }
            // One that is left out shows as lost, unless it comes later.
            if got != expected {
                let gap = self.waiting.iter().position(|waits| *waits == got);
                return Err(match gap {
                    Some(gap) if self.size() as usize + gap >= self.waiting.len() => {
                        Mistake::Order { got, expected }
                    }
                    Some(gap) => Mistake::Lost(gap + 1),
                    None => Mistake::Order { got, expected },
                });
            }
        }
        let size = self.size().max(0) as usize;
        if size < self.waiting.len() {
            return Err(Mistake::Lost(self.waiting.len() - size));
        }
        self.sizes()?;
        if let Some(expected) = self.wanted.filter(|_| any && self.waiting.is_empty()) {
            let said = self.capacity as i32;
            return Err(Mistake::Resized { said, expected });
        }
        if self.waiting.is_empty() {
            self.holds = 0;
        } else if self.holds > PATIENCE {
            return Err(Mistake::Stuck(self.waiting.len()));
        }
        Ok(self.waiting.is_empty())
    }

    /// Wants a safepoint, by asking for the capacity that there is or will be: the JVM may have taken the one that Enqueue asked for.
    fn ask(&self) {
        let capacity = self.wanted.unwrap_or(self.capacity) as c_int;
        // SAFETY: any size may be asked for.
        unsafe { (self.api.resize_queue)(self.queue, capacity) };
    }

    fn size(&self) -> i32 {
        // SAFETY: any handle can be asked about.
        unsafe { (self.api.get_queue_size_info)(self.queue) }.size
    }

    fn sizes(&mut self) -> Result<(), Mistake> {
        // SAFETY: as above.
        let info = unsafe { (self.api.get_queue_size_info)(self.queue) };
        let expected = self.waiting.len();
        if info.size as usize != expected {
            let said = info.size;
            return Err(Mistake::Size { said, expected });
        }
        if let Some(wanted) = self.wanted
            && info.capacity as usize == wanted
        {
            self.capacity = wanted;
            self.wanted = None;
        }
        if info.capacity as usize != self.capacity {
            return Err(Mistake::Resized {
                said: info.capacity,
                expected: self.capacity,
            });
        }
        Ok(())
    }

    fn get(&self, n: i32) -> Result<(), Mistake> {
        // SAFETY: as above; an element that is given is there while the thread is held.
        let got = unsafe {
            let element = (self.api.get_queue_element)(self.queue, n);
            element.as_ref().map(|element| element.arg as u64)
        };
        let length = self.waiting.len() as i32;
        let index = if n < 0 { n + length } else { n };
        let expected = usize::try_from(index).ok();
        let expected = expected.and_then(|index| self.waiting.get(index).copied());
        if got == expected {
            Ok(())
        } else {
            Err(Mistake::Index(n))
        }
    }

    pub(super) fn end(&mut self, standing: &Standing<'_>, by_thread: bool) -> Result<(), Mistake> {
        if by_thread && self.is_own {
            walkfuzz_asgst::queue::thread_ended(walkfuzz_context::Address(standing.java_thread));
        } else {
            // SAFETY: the held thread's environment, and a queue of it.
            let ended = unsafe { (self.api.deregister_queue)(standing.env.cast(), self.queue) };
            if !ended {
                return Err(Mistake::Refused);
            }
        }
        self.waiting.clear();
        self.none(self.queue, standing)
    }

    /// What is no queue answers as one.
    fn none(&self, queue: *mut Queue, standing: &Standing<'_>) -> Result<(), Mistake> {
        // SAFETY: any word may be given for a queue.
        unsafe {
            let answer = (self.api.enqueue)(queue, standing.context, std::ptr::null_mut());
            if answer != error::ENQUEUE_NO_QUEUE {
                return Err(Mistake::Ended(answer));
            }
            let info = (self.api.get_queue_size_info)(queue);
            let element = (self.api.get_queue_element)(queue, 0);
            if !element.is_null() || info.size != 0 || info.capacity != 0 {
                return Err(Mistake::Ended(info.capacity));
            }
            (self.api.resize_queue)(queue, 7);
            if (self.api.deregister_queue)(standing.env.cast(), queue) {
                return Err(Mistake::Ended(1));
            }
        }
        Ok(())
    }

    /// Makes calls until the thread is to be let go; how many.
    fn calls(&mut self, ops: &[Op], standing: &Standing<'_>) -> Result<usize, Mistake> {
        for (index, op) in ops.iter().enumerate() {
            match *op {
                Op::Enqueue(count) => {
                    for _ in 0..=count % 32 {
                        self.enqueue(standing)?;
                    }
                }
                Op::Get(n) => self.get(n.into())?,
                Op::Resize(size) => {
                    // SAFETY: any size may be asked for.
                    unsafe { (self.api.resize_queue)(self.queue, size.into()) };
                    if size > 0 {
                        self.wanted = Some(size.into());
                    }
                }
                Op::LetGo => return Ok(index + 1),
                Op::Deregister(capacity) | Op::ThreadEnds(capacity) => {
                    self.end(standing, matches!(op, Op::ThreadEnds(_)))?;
                    self.begin(standing, capacity % 64)?;
                }
                Op::NoQueue(number) => self.none(number as usize as *mut Queue, standing)?,
            }
            self.sizes()?;
        }
        Ok(ops.len())
    }
}

/// Makes an input's calls. What the implementation got wrong, if anything.
///
/// # Errors
/// No thread could be held.
pub fn run(held: &mut Held, api: &QueueApi, ops: &[Op]) -> Result<Option<Mistake>, QueueError> {
    let ops = ops.get(..ops.len().min(MOST)).unwrap_or(ops);
    let mut work = Work::new(api, held.is_own);
    let (mut done, mut result) = (0, Ok(()));
    let mut begun = false;
    let mut over = false;
    while !over {
        // An operation that lets the thread go leads to the next moment; the first calls need no new one.
        held.hold(begun, &mut |standing| {
            let mut turn = || -> Result<bool, Mistake> {
                if !begun {
                    work.begin(standing, ops.len() as u8 % 64)?;
                } else if !work.settle()? && done == ops.len() {
                    work.ask();
                    return Ok(false);
                }
                done += work.calls(ops.get(done..).unwrap_or(&[]), standing)?;
                if done < ops.len() || !work.waiting.is_empty() {
                    return Ok(false);
                }
                work.end(standing, false)?;
                Ok(true)
            };
            match turn() {
                Ok(ended) => over = ended,
                Err(mistake) => {
                    result = Err(mistake);
                    over = true;
                }
            }
            begun = true;
        })?;
    }
    if result.is_err() && !work.queue.is_null() {
        // So that nothing of it reaches the next input.
        // SAFETY: a queue, or what was one.
        unsafe {
            held.api
                .queue
                .map(|own| (own.deregister_queue)(std::ptr::null_mut(), work.queue))
        };
    }
    Ok(result.err())
}
