//! At a safepoint: what waits in the thread's queues is handed to their handlers, in the order of its coming.
//!
//! Runs on the queues' thread, outside signal handlers. Signals may come in between; what they want to enqueue is refused.

use std::sync::atomic::Ordering::*;
use std::sync::{PoisonError, RwLock};

use walkfuzz_context::Address;
use walkfuzz_reference::{CheckedMemory, Thread};

use super::element::{Element, INTERPRETED};
use super::offer::{Begin, offer};
use super::queue::Around;
use super::slots::{self, Inside};
use super::standing::fate;
use super::statistics::Fate;
use super::tidy::Tidy;
use super::{callback, pointer};
use crate::{Vm, safepoint};

/// Called at every safepoint of every thread.
pub(super) extern "C" fn at_safepoint(java_thread: u64) {
    let thread = Address(java_thread);
    // SAFETY: the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(vm) = Vm::get() {
        let mut ended = false;
        for queue in slots::of_thread(thread) {
            process(vm, &queue);
            ended |= !queue.is_open();
        }
        if ended {
            slots::reap();
        }
        callback::at_safepoint(vm, thread);
    }
    // SAFETY: this thread's, which is at a safepoint.
    unsafe {
        safepoint::disarm(thread);
        *libc::__errno_location() = errno;
    }
}

fn process(vm: &'static Vm, queue: &Inside) {
    if queue.processing.swap(true, AcqRel) {
        // A handler of this queue has come to a safepoint.
        return;
    }
    let count = queue.waiting();
    if let Some(thread) = (count > 0)
        .then(|| vm.reference.thread(&CheckedMemory, queue.thread).ok())
        .flatten()
    {
        let tidy = Tidy::of(vm, queue.thread);
        around(vm, queue, &thread, &queue.before);
        for n in 0..count {
            if !queue.is_open() {
                break;
            }
            queue.delivered.store(n + 1, Release);
            let Some(element) = queue.ring().get(n as i64) else {
                break;
            };
            // SAFETY: the ring's own; its thread is here, and what it enqueues is refused.
            let element = unsafe { *element };
            deliver(vm, queue, &thread, &element);
            tidy.up();
        }
        around(vm, queue, &thread, &queue.after);
        tidy.up();
        queue.ring().remove(count);
        queue.delivered.store(0, Release);
        queue.attempts.store(0, Release);
    }
    let wanted = queue.wanted.swap(0, AcqRel);
    if let Ok(capacity) = usize::try_from(wanted)
        && capacity > 0
        && queue.waiting() == 0
    {
        // SAFETY: its thread is here and does nothing else with it.
        unsafe { queue.resize(capacity) };
    }
    queue.processing.store(false, Release);
}

/// Hands one element to the queue's handler.
fn deliver(vm: &'static Vm, queue: &Inside, thread: &Thread, element: &Element) {
    let fate = fate(vm, thread, element);
    queue.counts.delivered(fate);
    queue.fate.store(fate as i32 + 1, Release);
    let begin = if fate == Fate::Unbiased {
        Begin {
            thread: element.thread(thread),
            registers: element.registers(),
            bci: (element.flags & INTERPRETED != 0).then_some(element.bci as i32),
        }
    } else {
        Begin::at_safepoint(thread)
    };
    offer(vm, &begin, queue.options, &mut |iterator| {
        // SAFETY: the client's handler, as it promised with RegisterQueue.
        unsafe { (queue.handler)(iterator, pointer(queue.arg), element.public.arg) };
    });
    queue.fate.store(0, Release);
}

/// Calls what is to be called before or after the elements.
fn around(vm: &'static Vm, queue: &Inside, thread: &Thread, handler: &RwLock<Option<Around>>) {
    let handler = *handler.read().unwrap_or_else(PoisonError::into_inner);
    let Some(handler) = handler.filter(|_| queue.is_open()) else {
        return;
    };
    let mut call = |iterator| {
        // SAFETY: the client's handler, as it promised when it set it.
        unsafe { (handler.handler)(queue.handle(), iterator, pointer(handler.arg)) };
    };
    if handler.offers_iterator {
        offer(vm, &Begin::at_safepoint(thread), handler.options, &mut call);
    } else {
        call(std::ptr::null_mut());
    }
}
