//! The safepoint queue: what is sampled in a signal handler is completed where the thread stands at a safepoint.
//!
//! - `register_queue` makes a `queue` of a thread, a `ring` with exactly the capacity that was asked for, known by a handle (`slots`).
//! - `enqueue` finds the first Java frame (`element`), puts it in and brings the thread to its next poll (`crate::safepoint`).
//! - There the elements are handed out in order (`process`), each with an iterator that begins with the sampled frame if that still stands (`standing`).
//!   What does not is counted (`statistics`).
//!
//! Contract: the functions are as `include/asgst_queue.h` says: those that are signal-safe allocate nothing and take no lock. Handlers run outside signal
//! handlers, on the queue's thread.

mod callback;
mod element;
mod offer;
mod process;
#[expect(clippy::module_inception, reason = "a queue is what is in it")]
mod queue;
mod ring;
mod slots;
mod standing;
mod statistics;
mod tidy;

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;

use jvmti_bindings::sys::jni::JNIEnv;
use walkfuzz_context::Address;
use walkfuzz_reference::CheckedMemory;

use crate::abi::iterator::{error, options as iterator_options, trace_kind};
use crate::abi::queue::{
    FrameMark, FrameMarkHandler, OnQueueSafepointHandler, Queue as Handle, QueueElement,
    QueueHandler, QueueSizeInfo, capabilities::REGISTER_QUEUE,
};
use crate::{SafepointError, Vm, safepoint};

pub use callback::{get_safepoint_callback, set_safepoint_callback, trigger_safe_point};
use queue::{Around, Queue};
use ring::Refused;
use statistics::Counts;
pub use statistics::QueueStatistics;

/// No queue has more elements.
pub const MOST_ELEMENTS: c_int = 1 << 20;

/// Makes queues possible. Before that, and where it fails, [`capabilities`] denies them.
///
/// # Errors
/// [`SafepointError`]: the JVM is as it was.
///
/// # Safety
/// `java_thread` is one of the JVM's and lives, and the guard is installed.
pub unsafe fn prepare(
    vm: &'static Vm,
    symbol: &dyn Fn(&str) -> Option<u64>,
    java_thread: Address,
) -> Result<(), SafepointError> {
    // SAFETY: the caller's promises; what is called lives as long as the process.
    unsafe { safepoint::install(&vm.hotspot, symbol, java_thread, process::at_safepoint) }
}

/// A thread ends: its queues with it. For JVMTI's ThreadEnd.
pub fn thread_ended(java_thread: Address) {
    slots::close_all_of(java_thread);
    callback::take(java_thread);
}

/// What became of a queue's elements, of those of all queues for null; `None` if there is no such queue.
pub fn statistics(queue: *mut Handle) -> Option<QueueStatistics> {
    if !queue.is_null() {
        return Some(slots::enter(queue)?.counts.read());
    }
    let all = Counts::default();
    all.add(&statistics::ENDED.read());
    for queue in slots::all() {
        all.add(&queue.counts.read());
    }
    Some(all.read())
}

/// What becomes of the element whose handler runs: 1 delivered as sampled, 2 its frame had returned, 3 it could not be told; 0 outside handlers. Signal-safe.
pub extern "C" fn outcome(queue: *mut Handle) -> c_int {
    slots::enter(queue).map_or(0, |queue| queue.fate.load(Acquire))
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// `ASGST_Capabilities`. Signal-safe.
pub extern "C" fn capabilities() -> c_int {
    if safepoint::is_installed() {
        REGISTER_QUEUE
    } else {
        0
    }
}

/// `ASGST_RegisterQueue`: null where there are no queues, for a size outside 1 to [`MOST_ELEMENTS`], without a handler, for unknown options, for no thread, and when
/// there are too many queues.
///
/// # Safety
/// `handler` may be called with `arg` at safepoints of the thread, until the queue has ended.
pub unsafe extern "C" fn register_queue(
    env: *mut JNIEnv,
    size: c_int,
    options: c_int,
    handler: Option<QueueHandler>,
    arg: *mut c_void,
) -> *mut Handle {
    let queue = || {
        let vm = Vm::get().filter(|_| safepoint::is_installed())?;
        let capacity = capacity(size)?;
        let handler = handler.filter(|_| are_known(options))?;
        let thread = Address((env as u64).wrapping_sub(vm.env_offset));
        vm.threads.at(&CheckedMemory, thread).thread?;
        let queue = Queue::new(thread, capacity, options, handler, arg);
        slots::open(Box::new(queue))
    };
    queue().unwrap_or(std::ptr::null_mut())
}

fn capacity(size: c_int) -> Option<usize> {
    (1..=MOST_ELEMENTS)
        .contains(&size)
        .then(|| usize::try_from(size).ok())
        .flatten()
}

fn are_known(options: c_int) -> bool {
    options & !iterator_options::ALL == 0
}

/// `ASGST_DeregisterQueue`: whether there was such a queue. In a handler of its own it ends with this handler.
pub extern "C" fn deregister_queue(_: *mut JNIEnv, queue: *mut Handle) -> bool {
    slots::close(queue, false)
}

/// `ASGST_SetOnQueueProcessingStart`. A null handler, or unknown options, take it back.
///
/// # Safety
/// As for [`register_queue`].
pub unsafe extern "C" fn set_on_queue_processing_start(
    queue: *mut Handle,
    options: c_int,
    offers_iterator: bool,
    handler: Option<OnQueueSafepointHandler>,
    arg: *mut c_void,
) {
    if let Some(queue) = slots::enter(queue) {
        let around = around(options, offers_iterator, handler, arg);
        *queue.before.write().unwrap_or_else(PoisonError::into_inner) = around;
    }
}

/// `ASGST_SetOnQueueProcessingEnd`. A null handler, or unknown options, take it back.
///
/// # Safety
/// As for [`register_queue`].
pub unsafe extern "C" fn set_on_queue_processing_end(
    queue: *mut Handle,
    options: c_int,
    offers_iterator: bool,
    handler: Option<OnQueueSafepointHandler>,
    arg: *mut c_void,
) {
    if let Some(queue) = slots::enter(queue) {
        let around = around(options, offers_iterator, handler, arg);
        *queue.after.write().unwrap_or_else(PoisonError::into_inner) = around;
    }
}

fn around(
    options: c_int,
    offers_iterator: bool,
    handler: Option<OnQueueSafepointHandler>,
    arg: *mut c_void,
) -> Option<Around> {
    handler
        .filter(|_| are_known(options))
        .map(|handler| Around {
            handler,
            options,
            offers_iterator,
            arg: arg.expose_provenance(),
        })
}

/// `ASGST_Enqueue`. Signal-safe.
///
/// # Safety
/// The calling thread is the queue's, or the queue's stands still. The context may be anything.
pub unsafe extern "C" fn enqueue(
    handle: *mut Handle,
    context: *mut c_void,
    arg: *mut c_void,
) -> c_int {
    let (Some(vm), Some(queue)) = (Vm::get(), slots::enter(handle)) else {
        return error::ENQUEUE_NO_QUEUE;
    };
    queue.attempts.fetch_add(1, AcqRel);
    let answer = put(vm, &queue, context, arg);
    match answer {
        error::ENQUEUE_FULL_QUEUE => queue.counts.refused(true),
        code if code <= 0 => queue.counts.refused(false),
        _ => queue.counts.taken(),
    }
    if answer <= 0 {
        arm_again(vm, &queue);
    }
    answer
}

/// The JVM takes the armed value back at some calls that lead nowhere near a safepoint. So whoever looks at a queue in which something waits, on its own thread,
/// arms it again.
fn arm_again(vm: &Vm, queue: &Queue) {
    let waits = queue.waiting() > 0 && !queue.processing.load(Acquire);
    if waits && vm.own_java_thread() == Some(queue.thread) {
        // SAFETY: the calling thread's own.
        unsafe { safepoint::arm(queue.thread) };
    }
}

fn put(vm: &Vm, queue: &Queue, context: *mut c_void, arg: *mut c_void) -> c_int {
    if queue.processing.load(Acquire) {
        return error::ENQUEUE_OTHER_ERROR;
    }
    if queue.ring().is_full() {
        return error::ENQUEUE_FULL_QUEUE;
    }
    let Some(registers) = element::registers_of(context) else {
        return error::ENQUEUE_OTHER_ERROR;
    };
    let element = match element::capture(vm, queue.thread, &registers, arg) {
        Ok(element) => element,
        Err(code) => return code,
    };
    match queue.ring().push(element) {
        Ok(()) => {
            // SAFETY: the queue's thread is the calling one, or stands still.
            unsafe { safepoint::arm(queue.thread) };
            trace_kind::JAVA
        }
        Err(Refused::Full) => error::ENQUEUE_FULL_QUEUE,
        Err(Refused::Busy) => error::ENQUEUE_OTHER_ERROR,
    }
}

/// `ASGST_GetEnqueuableElement`. Signal-safe.
///
/// # Safety
/// `into` is null or can be written. The context may be anything.
pub unsafe extern "C" fn get_enqueuable_element(
    context: *mut c_void,
    into: *mut QueueElement,
) -> c_int {
    let Some((vm, thread)) = Vm::get().and_then(|vm| Some((vm, vm.own_java_thread()?))) else {
        return error::NO_THREAD;
    };
    if into.is_null() || !into.is_aligned() {
        return error::ENQUEUE_OTHER_ERROR;
    }
    let Some(registers) = element::registers_of(context) else {
        return error::ENQUEUE_OTHER_ERROR;
    };
    match element::capture(vm, thread, &registers, std::ptr::null_mut()) {
        Ok(element) => {
            // SAFETY: the caller's room for one.
            unsafe { into.write(element.public) };
            trace_kind::JAVA
        }
        Err(code) => code,
    }
}

/// `ASGST_GetQueueElement`. Signal-safe.
pub extern "C" fn get_queue_element(queue: *mut Handle, n: c_int) -> *mut QueueElement {
    slots::enter(queue)
        .and_then(|queue| queue.ring().get(i64::from(n)))
        .map_or(std::ptr::null_mut(), <*mut element::Element>::cast)
}

/// `ASGST_GetQueueSizeInfo`: nothing for no queue. Signal-safe.
pub extern "C" fn get_queue_size_info(queue: *mut Handle) -> QueueSizeInfo {
    let (Some(vm), Some(queue)) = (Vm::get(), slots::enter(queue)) else {
        return QueueSizeInfo::default();
    };
    arm_again(vm, &queue);
    QueueSizeInfo {
        size: queue.waiting() as i32,
        capacity: queue.ring().capacity() as i32,
        attempts: queue.attempts.load(Acquire),
    }
}

/// `ASGST_ResizeQueue`; sizes as for [`register_queue`], others change nothing. Signal-safe.
pub extern "C" fn resize_queue(queue: *mut Handle, size: c_int) {
    if let Some(queue) = slots::enter(queue)
        && capacity(size).is_some()
    {
        queue.wanted.store(size, Release);
        // SAFETY: the queue's thread is the calling one, or stands still.
        unsafe { safepoint::arm(queue.thread) };
    }
}

/// `ASGST_RegisterFrameMark`: frame marks are not offered.
pub extern "C" fn register_frame_mark(
    _: *mut JNIEnv,
    _: Option<FrameMarkHandler>,
    _: c_int,
    _: *mut c_void,
) -> *mut FrameMark {
    std::ptr::null_mut()
}

/// `ASGST_MoveFrameMark`: nothing happens.
pub extern "C" fn move_frame_mark(_: *mut FrameMark, _: *mut c_void) {}

/// `ASGST_GetFrameMarkStackPointer`: null.
pub extern "C" fn get_frame_mark_stack_pointer(_: *mut FrameMark) -> *mut c_void {
    std::ptr::null_mut()
}

/// `ASGST_RemoveFrameMark`: nothing happens.
pub extern "C" fn remove_frame_mark(_: *mut FrameMark) {}
