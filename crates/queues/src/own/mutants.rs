//! Implementations with one mistake each: walkfuzz's own functions, one of them replaced. Most of the mistakes were made by implementations in forks of the JDK.
//! For tests: the targets find each and name what is wrong.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};

use jvmti_bindings::sys::jni::JNIEnv;
use walkfuzz_asgst::abi::iterator::{
    Frame, Iterator, IteratorHandler, LineNumberEntry, Method, error,
};
use walkfuzz_asgst::abi::queue::{Queue, QueueElement, QueueHandler};
use walkfuzz_asgst::api::{IteratorApi, QueueApi};
use walkfuzz_asgst::{iterator, methods, queue};

/// A queue with a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMutant {
    /// The ring holds one element less than its capacity.
    OneLess,
    /// Nobody notices that it is full: what does not go in is another error.
    NeverFull,
    /// A resize drops what waits.
    ResizeDrops,
    /// Indices from the young end are off by one.
    IndexOffByOne,
    /// A queue that was removed goes on.
    StaysOpen,
    /// Each sixteenth element is handed out twice.
    Twice,
    /// Each sixteenth element is lost.
    Loses,
}

/// An iterator with a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IteratorMutant {
    /// The table of lines has bytecode and line swapped.
    LinesSwapped,
    /// Rewind does nothing.
    NoRewind,
    /// The end of a nested iterator ends the outer one, too.
    NestedEndsOuter,
    /// An iterator outlives its handler.
    Outlives,
}

/// How many elements of a resized queue are dropped.
static DROP: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static HANDLER: Mutex<Option<QueueHandler>> = Mutex::new(None);
static DEPTH: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

impl QueueMutant {
    /// Every one.
    pub const ALL: [QueueMutant; 7] = [
        QueueMutant::OneLess,
        QueueMutant::NeverFull,
        QueueMutant::ResizeDrops,
        QueueMutant::IndexOffByOne,
        QueueMutant::StaysOpen,
        QueueMutant::Twice,
        QueueMutant::Loses,
    ];

    /// Its functions.
    #[must_use]
    pub fn api(self) -> QueueApi {
        DROP.store(0, Relaxed);
        COUNT.store(0, Relaxed);
        let mut api = QueueApi::own();
        match self {
            QueueMutant::OneLess => api.enqueue = one_less,
            QueueMutant::NeverFull => api.enqueue = never_full,
            QueueMutant::ResizeDrops => {
                api.resize_queue = resize_drops;
                api.register_queue = register_dropping;
            }
            QueueMutant::IndexOffByOne => api.get_queue_element = off_by_one,
            QueueMutant::StaysOpen => api.deregister_queue = stays_open,
            QueueMutant::Twice => api.register_queue = register_twice,
            QueueMutant::Loses => api.register_queue = register_losing,
        }
        api
    }
}

impl IteratorMutant {
    /// Every one.
    pub const ALL: [IteratorMutant; 4] = [
        IteratorMutant::LinesSwapped,
        IteratorMutant::NoRewind,
        IteratorMutant::NestedEndsOuter,
        IteratorMutant::Outlives,
    ];

    /// Its functions.
    #[must_use]
    pub fn api(self) -> IteratorApi {
        ENDED.store(false, Relaxed);
        DEPTH.store(0, Relaxed);
        let mut api = IteratorApi::own();
        match self {
            IteratorMutant::LinesSwapped => api.get_method_line_number_table = lines_swapped,
            IteratorMutant::NoRewind => api.rewind_iterator = no_rewind,
            IteratorMutant::NestedEndsOuter => {
                api.run_with_iterator = nested;
                api.next_frame = next_unless_ended;
                api.state = state_unless_ended;
            }
            IteratorMutant::Outlives => api.next_frame = next_of_anything,
        }
        api
    }
}

unsafe extern "C" fn one_less(handle: *mut Queue, context: *mut c_void, arg: *mut c_void) -> c_int {
    let info = queue::get_queue_size_info(handle);
    if info.capacity > 0 && info.size + 1 >= info.capacity {
        return error::ENQUEUE_FULL_QUEUE;
    }
    // SAFETY: the caller's arguments.
    unsafe { queue::enqueue(handle, context, arg) }
}

unsafe extern "C" fn never_full(
    handle: *mut Queue,
    context: *mut c_void,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { queue::enqueue(handle, context, arg) } {
        error::ENQUEUE_FULL_QUEUE => error::ENQUEUE_OTHER_ERROR,
        answer => answer,
    }
}

unsafe extern "C" fn resize_drops(handle: *mut Queue, size: c_int) {
    DROP.store(queue::get_queue_size_info(handle).size, Relaxed);
    queue::resize_queue(handle, size);
}

unsafe extern "C" fn off_by_one(handle: *mut Queue, n: c_int) -> *mut QueueElement {
    queue::get_queue_element(handle, if n < 0 { n - 1 } else { n })
}

unsafe extern "C" fn stays_open(_: *mut JNIEnv, handle: *mut Queue) -> bool {
    queue::get_queue_size_info(handle).capacity > 0
}

/// Registers `own` in the place of the handler that is asked for.
unsafe fn register(
    env: *mut JNIEnv,
    size: c_int,
    options: c_int,
    handler: Option<QueueHandler>,
    arg: *mut c_void,
    own: QueueHandler,
) -> *mut Queue {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    // SAFETY: the caller's arguments.
    unsafe { queue::register_queue(env, size, options, Some(own), arg) }
}

macro_rules! registering {
    ($($name:ident => $handler:ident;)*) => {
        $(unsafe extern "C" fn $name(
            env: *mut JNIEnv,
            size: c_int,
            options: c_int,
            handler: Option<QueueHandler>,
            arg: *mut c_void,
        ) -> *mut Queue {
            // SAFETY: the caller's arguments.
            unsafe { register(env, size, options, handler, arg, $handler) }
        })*
    };
}

registering! {
    register_dropping => dropping;
    register_twice => twice;
    register_losing => losing;
}

/// # Safety
/// As the handler that was asked for.
unsafe fn pass_on(iterator: *mut Iterator, arg: *mut c_void, element: *mut c_void) {
    let handler = *HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handler) = handler {
        // SAFETY: the caller's arguments.
        unsafe { handler(iterator, arg, element) };
    }
}

unsafe extern "C" fn dropping(iterator: *mut Iterator, arg: *mut c_void, element: *mut c_void) {
    if DROP.fetch_sub(1, Relaxed) > 0 {
        return;
    }
    DROP.store(0, Relaxed);
    // SAFETY: the caller's arguments.
    unsafe { pass_on(iterator, arg, element) };
}

fn is_sixteenth() -> bool {
    COUNT.fetch_add(1, Relaxed) % 16 == 15
}

unsafe extern "C" fn twice(iterator: *mut Iterator, arg: *mut c_void, element: *mut c_void) {
    // SAFETY: the caller's arguments.
    unsafe {
        pass_on(iterator, arg, element);
        if is_sixteenth() {
            pass_on(iterator, arg, element);
        }
    }
}

unsafe extern "C" fn losing(iterator: *mut Iterator, arg: *mut c_void, element: *mut c_void) {
    if !is_sixteenth() {
        // SAFETY: the caller's arguments.
        unsafe { pass_on(iterator, arg, element) };
    }
}

unsafe extern "C" fn lines_swapped(
    method: Method,
    entries: *mut LineNumberEntry,
    length: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let count = methods::get_method_line_number_table(method, entries, length);
        for index in 0..count.min(length).max(0) as usize {
            let entry = &mut *entries.add(index);
            std::mem::swap(&mut entry.start_bci, &mut entry.line_number);
        }
        count
    }
}

unsafe extern "C" fn no_rewind(_: *mut Iterator) {}

unsafe extern "C" fn nested(
    context: *mut c_void,
    options: i32,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    let outer = DEPTH.fetch_add(1, Relaxed) > 0;
    ENDED.store(false, Relaxed);
    // SAFETY: the caller's arguments.
    let kind = unsafe { iterator::run_with_iterator(context, options, handler, argument) };
    DEPTH.fetch_sub(1, Relaxed);
    ENDED.store(outer, Relaxed);
    kind
}

unsafe extern "C" fn next_unless_ended(of: *mut Iterator, frame: *mut Frame) -> c_int {
    if ENDED.load(Relaxed) {
        return error::NO_FRAME;
    }
    // SAFETY: the caller's arguments.
    unsafe { iterator::next_frame(of, frame) }
}

unsafe extern "C" fn state_unless_ended(of: *mut Iterator) -> c_int {
    if ENDED.load(Relaxed) {
        return error::NO_FRAME;
    }
    // SAFETY: the caller's arguments.
    unsafe { iterator::state(of) }
}

unsafe extern "C" fn next_of_anything(of: *mut Iterator, frame: *mut Frame) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { iterator::next_frame(of, frame) } {
        code if code < error::OWN && !of.is_null() => 1,
        code => code,
    }
}
