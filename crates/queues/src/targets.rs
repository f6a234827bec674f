//! The targets `queue_elements`, `queue_ops` and `iterator_ops`: what libFuzzer's entry points do.
//!
//! Contract: one input at a time. An input may end on another thread than it began on: nothing here is thread-local.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use walkfuzz_asgst::api::{IteratorApi, QueueApi};
use walkfuzz_context::element::folded;
use walkfuzz_context::{Arch, Batch, MAX_WALKS, Perturbation};
use walkfuzz_harness::campaign::end_process;
use walkfuzz_harness::{Mode, Settings, libfuzzer};
use walkfuzz_jvm::{JvmOptions, Places};
use walkfuzz_stress::agents::{self, INTERPOSER};

use crate::end::{at_exit, fail};
use crate::error::QueueError;
use crate::jfr::{self, Outcome};
use crate::own::elements::Elements;
use crate::own::{Held, iterator_ops, operations, queue_ops};

/// Chooses the queue of `queue_elements`.
const QUEUE: &str = "WALKFUZZ_QUEUE";
/// Inputs of `iterator_ops` at one moment.
const MOMENT: u64 = 64;

/// One of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Words of queued elements.
    QueueElements,
    /// Sequences of a queue's calls.
    QueueOps,
    /// Sequences of an iterator's calls.
    IteratorOps,
}

enum Running {
    Jfr(jfr::Target, Mode),
    Elements(Held, QueueApi, Elements),
    QueueOps(Held, QueueApi),
    IteratorOps(Held, IteratorApi, u64),
}

static RUNNING: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn finish(status: c_int, _: *mut c_void) {
    let running = RUNNING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: `start` leaked it, and nobody else takes it from now on.
    match unsafe { running.as_mut() } {
        Some(Running::Jfr(target, _)) => match target.finish() {
            Ok(said) => eprintln!("{said}"),
            Err(error) => fail(error.exit_code(), &error),
        },
        Some(Running::Elements(_, _, elements)) => {
            eprintln!("walkfuzz: {} elements edited", elements.edited);
        }
        _ => {}
    }
    end_process(status)
}

fn start(target: Target, mode: Mode) -> Result<Running, QueueError> {
    let settings = Settings::from_environment()?;
    let mode = if settings.strict { Mode::Strict } else { mode };
    let queue = std::env::var(QUEUE).unwrap_or_default();
    match (target, queue.as_str()) {
        (Target::QueueElements, "jfr") => {
            let jdk = JvmOptions::from_env(&Places::from_env())?.jdk;
            let interposer = agents::find(&INTERPOSER)?;
            let target = jfr::Target::new(&settings.runs, jdk, interposer)?;
            return Ok(Running::Jfr(target, mode));
        }
        (_, "" | "own") => {}
        _ => return Err(QueueError::Choice(queue)),
    }
    let mut held = Held::start(&settings)?;
    let lacks = || QueueError::Incomplete;
    Ok(match target {
        Target::IteratorOps => {
            let api = held.api.iterator.ok_or_else(lacks)?;
            Running::IteratorOps(held, api, 0)
        }
        Target::QueueOps => {
            let api = held.api.queue.ok_or_else(lacks)?;
            Running::QueueOps(held, api)
        }
        Target::QueueElements => {
            let api = held.api.queue.ok_or_else(lacks)?;
            let elements = Elements::new(&mut held, &api, MAX_WALKS)?;
            Running::Elements(held, api, elements)
        }
    })
}

/// `LLVMFuzzerInitialize`.
///
/// # Safety
/// `argc` and `argv` are main's.
pub unsafe fn initialize(target: Target, argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let arguments = unsafe { libfuzzer::share_signals(argc, argv) };
    let is_file = |argument: &str| Path::new(argument).is_file();
    if let Some(mode) = libfuzzer::mode(&arguments, is_file) {
        let running = start(target, mode).unwrap_or_else(|error| fail(error.exit_code(), &error));
        RUNNING.store(Box::into_raw(Box::new(running)), Ordering::Release);
        at_exit(finish);
    }
    0
}

fn elements(data: &[u8], elements: &Elements) -> (Vec<Perturbation>, bool) {
    let batch = Batch::decode(data);
    let walks = batch.walks().iter().filter(|walk| !walk.is_untouched());
    let edits = walks.map(|walk| folded(walk, elements.words(), Arch::NATIVE));
    (edits.collect(), batch.thread & 1 == 1)
}

/// One input; what is wrong, if anything, in words.
fn run(running: &mut Running, data: &[u8]) -> Result<Option<String>, QueueError> {
    let words = |held: &Held, mistake: &dyn std::fmt::Display| match held.is_own {
        true => format!("self-test: {mistake}"),
        false => mistake.to_string(),
    };
    Ok(match running {
        Running::Jfr(target, Mode::Strict) => match target.strict(data)? {
            Outcome::Died => Some("the JVM died".to_owned()),
            Outcome::Lives | Outcome::Empty => None,
        },
        Running::Jfr(target, _) => {
            target.input(data)?;
            None
        }
        Running::Elements(held, api, queue) => {
            let (edits, late) = elements(data, queue);
            let mistake = queue.run(held, api, &edits, late)?;
            mistake.map(|mistake| words(held, &mistake))
        }
        Running::QueueOps(held, api) => {
            let ops = operations(Unstructured::new(data));
            let mistake = queue_ops::run(held, api, &ops)?;
            mistake.map(|mistake| words(held, &mistake))
        }
        Running::IteratorOps(held, api, inputs) => {
            let mut data = Unstructured::new(data);
            let options = u8::arbitrary(&mut data).unwrap_or(0);
            let ops = operations(data);
            let fresh = inputs.is_multiple_of(MOMENT);
            *inputs += 1;
            let mistake = iterator_ops::run(held, api, options, &ops, fresh)?;
            mistake.map(|mistake| words(held, &mistake))
        }
    })
}

/// `rust_fuzzer_test_input`, in libFuzzer's codes. What is wrong aborts, so that libFuzzer keeps the input.
pub fn test_input(data: &[u8]) -> c_int {
    // SAFETY: null or leaked; libFuzzer runs one input at a time.
    let Some(running) = (unsafe { RUNNING.load(Ordering::Acquire).as_mut() }) else {
        return -1;
    };
    match run(running, data) {
        Ok(None) => 0,
        Ok(Some(wrong)) => {
            eprintln!("walkfuzz: {wrong}");
            std::process::abort()
        }
        Err(error) => fail(error.exit_code(), &error),
    }
}

/// Defines the symbols that libFuzzer looks for, but for the generator's.
#[macro_export]
macro_rules! queue_target {
    ($target:expr) => {
        /// Called by libFuzzer before anything else.
        ///
        /// # Safety
        /// libFuzzer passes main's arguments.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn LLVMFuzzerInitialize(
            argc: *mut ::std::ffi::c_int,
            argv: *mut *mut *mut ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: libFuzzer passes main's argc and argv.
            unsafe { $crate::targets::initialize($target, argc, argv) }
        }

        /// Called by libfuzzer-sys for each input.
        #[unsafe(no_mangle)]
        #[expect(
            improper_ctypes_definitions,
            reason = "libfuzzer-sys declares it with a slice; both sides are Rust"
        )]
        pub extern "C" fn rust_fuzzer_test_input(data: &[u8]) -> i32 {
            $crate::targets::test_input(data)
        }

        /// Read by AddressSanitizer's runtime, if it is linked in, before `main`.
        #[unsafe(no_mangle)]
        pub extern "C" fn __asan_default_options() -> *const ::std::ffi::c_char {
            $crate::ASAN_OPTIONS.as_ptr()
        }
    };
}
