//! AsyncGetStackTrace of JEP 435, in both of its ABIs.
//!
//! Contract: signal-safe. docs/asgst.md lists where it differs from the prototypes on purpose.

mod walk;

use std::ffi::{c_int, c_void};
use std::ptr;

use walkfuzz_context::{Address, Registers};
use walkfuzz_guard::read_registers;
use walkfuzz_reference::{CheckedMemory, Thread};

use crate::abi::jep435::{CallTrace, EarlyCallTrace, early_kind, error, kind, options};
use crate::thread::Doing;
use crate::vm::Vm;

use walk::{Form, Room, walk_c, walk_java};

/// The state of a thread that is none of Java's.
const NO_STATE: i32 = -1;

/// What is walked.
enum Subject {
    Java(Thread),
    /// A thread of the process's that the JVM has not made, or not yet.
    Other,
}

/// What came of a walk.
struct Outcome {
    frames: c_int,
    kind: u8,
    state: i32,
}

impl Outcome {
    const fn error(frames: c_int) -> Self {
        Self {
            frames,
            kind: kind::UNKNOWN,
            state: NO_STATE,
        }
    }
}

/// `AsyncGetStackTrace`, late ABI.
///
/// # Safety
/// `trace` is null, or its frames have room for `depth`; `context` is null or a `ucontext_t`, of a thread that stands still.
pub unsafe extern "C" fn async_get_stack_trace(
    trace: *mut CallTrace,
    depth: i32,
    context: *mut c_void,
    options: i32,
) {
    // SAFETY: the caller's promise.
    let Some(trace) = (unsafe { trace.as_mut() }) else {
        return;
    };
    let (kinds, states) = (trace.kind, trace.state);
    trace.frame_info = ptr::null_mut();
    // SAFETY: as above.
    let room = unsafe { Room::new(trace.frames, depth, Form::Late) };
    // SAFETY: as above.
    let outcome = match (room, unsafe { registers(context) }) {
        (Some(room), Some(registers)) => late(room, &registers, options, (kinds, states)),
        _ => Outcome::error(error::UNKNOWN_STATE),
    };
    trace.num_frames = outcome.frames;
    trace.kind = outcome.kind;
    trace.state = outcome.state;
}

/// `AsyncGetStackTrace`, early ABI; ours is called `AsyncGetStackTrace_early`.
///
/// # Safety
/// As for [`async_get_stack_trace`]; the context is the calling thread's.
pub unsafe extern "C" fn async_get_stack_trace_early(
    trace: *mut EarlyCallTrace,
    depth: i32,
    context: *mut c_void,
    options: i32,
) {
    // SAFETY: the caller's promise.
    let Some(trace) = (unsafe { trace.as_mut() }) else {
        return;
    };
    trace.frame_info = ptr::null_mut();
    let known = options::INCLUDE_C_FRAMES | options::INCLUDE_NON_JAVA_THREADS;
    // What the late form refuses without an option the early one has no option for.
    let options = options & known | options::WALK_SAME_THREAD | options::WALK_DURING_UNSAFE_STATES;
    // SAFETY: as above.
    let room = unsafe { Room::new(trace.frames, depth, Form::Early) };
    // SAFETY: as above.
    let outcome = match (room, unsafe { registers(context) }) {
        (Some(room), Some(registers)) => late(room, &registers, options, (0, 0)),
        _ => Outcome::error(error::UNKNOWN_STATE),
    };
    trace.num_frames = match outcome.frames {
        error::NOT_WALKABLE_JAVA => error::UNKNOWN_JAVA,
        frames => frames,
    };
    trace.kind = match outcome.kind {
        kind::JAVA => early_kind::JAVA,
        kind::CPP => early_kind::CPP,
        _ => early_kind::UNKNOWN,
    };
}

/// # Safety
/// `context` is null or a `ucontext_t`.
unsafe fn registers(context: *mut c_void) -> Option<Registers> {
    // SAFETY: the caller's promise.
    (!context.is_null()).then(|| unsafe { read_registers(context.cast()) })
}

/// The late form; the masks are of kinds and of states, 0 for all.
fn late(mut room: Room<'_>, registers: &Registers, options: i32, masks: (u8, i32)) -> Outcome {
    let Some(vm) = Vm::get() else {
        return Outcome::error(error::NO_CLASS_LOAD);
    };
    let has = |option: i32| options & option != 0;
    let subject = match subject(vm, registers, has(options::WALK_SAME_THREAD)) {
        Ok(subject) => subject,
        Err(error) => return Outcome::error(error),
    };
    let (kinds, states) = masks;
    let accepts = |kind: u8| kinds == 0 || kinds & kind != 0;
    let wants_c = has(options::INCLUDE_C_FRAMES);
    let thread = match subject {
        Subject::Java(thread) => thread,
        Subject::Other if !has(options::INCLUDE_NON_JAVA_THREADS) => {
            return Outcome::error(error::THREAD_NOT_JAVA);
        }
        Subject::Other => {
            let refused = !accepts(kind::CPP);
            let frames = match refused {
                true => error::WRONG_KIND,
                false => walk_c(vm, registers, &mut room, wants_c),
            };
            return Outcome {
                frames,
                kind: kind::CPP,
                state: NO_STATE,
            };
        }
    };
    let state = vm.thread_fields.jvmti_state(thread.address);
    let unsafe_too = has(options::WALK_DURING_UNSAFE_STATES);
    let outcome = |frames, kind| Outcome {
        frames,
        kind,
        state,
    };
    match vm.thread_fields.doing(thread.address) {
        Doing::Exiting => return outcome(error::THREAD_EXIT, kind::UNKNOWN),
        Doing::Unknown => return outcome(error::UNKNOWN_STATE, kind::UNKNOWN),
        Doing::Passing | Doing::New if !unsafe_too => {
            return outcome(error::UNSAFE_STATE, kind::UNKNOWN);
        }
        Doing::New if !accepts(kind::NEW_THREAD) => {
            return outcome(error::WRONG_KIND, kind::NEW_THREAD);
        }
        Doing::New => {
            let frames = walk_c(vm, registers, &mut room, wants_c);
            return outcome(frames, kind::NEW_THREAD);
        }
        Doing::Passing | Doing::Something => {}
    }
    if states != 0 && states & state == 0 {
        return outcome(error::WRONG_STATE, kind::UNKNOWN);
    }
    let has_java = thread.in_java || thread.anchor.sp.0 != 0;
    let kind = if has_java { kind::JAVA } else { kind::CPP };
    if !accepts(kind) {
        return outcome(error::WRONG_KIND, kind);
    }
    let frames = walk_java(vm, &thread, registers, &mut room, wants_c);
    outcome(frames, kind)
}

/// Whose stack is walked: the calling thread's, or that of the Java thread on whose stack the context stands.
fn subject(vm: &Vm, registers: &Registers, same: bool) -> Result<Subject, c_int> {
    let own = vm.own_java_thread();
    let read = |address: Address| vm.reference.thread(&CheckedMemory, address);
    if same {
        return match own {
            Some(address) => read(address)
                .map(Subject::Java)
                .map_err(|_| error::UNKNOWN_STATE),
            None => Ok(Subject::Other),
        };
    }
    let sp = Address(registers.sp().0);
    let found = vm.threads.find(&CheckedMemory, |address| {
        Ok(read(address)?.stack.contains(sp))
    });
    match found.thread {
        Some(address) if Some(address) != own => read(address)
            .map(Subject::Java)
            .map_err(|_| error::NO_THREAD),
        _ => Err(error::NO_THREAD),
    }
}
