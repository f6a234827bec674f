//! The glue between libFuzzer and a [`SnapshotSession`]: what `walk_capsule` consists of, beside the symbols.
//!
//! libFuzzer must leave the synchronous signals alone, as beside a JVM; its alarm would interrupt walks that have another
//! thread's storage, so it gets no timer. Hangs are the engine's to end.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};

use walkfuzz_capsule::resident::with_own_thread_pointer;
use walkfuzz_context::generate::{crossover, mutate};

use crate::libfuzzer::{arguments_of, mode, replace_arguments};
use crate::replay::quoted;
use crate::run::end_process;
use crate::snapshots::{SnapshotSession, start_again};
use crate::supervisor::LIBFUZZER_INTERRUPTED;
use crate::{HarnessError, InputVerdict, Settings, interrupt};

/// Where the snapshots are.
const FOLDER: &str = "WALKFUZZ_SNAPSHOTS";
const DEFAULT_FOLDER: &str = "walkfuzz-runs/snapshots";
/// libFuzzer's alarm: none.
const TIMEOUT: &str = "-timeout=0";

static SESSION: AtomicPtr<SnapshotSession> = AtomicPtr::new(std::ptr::null_mut());

/// `LLVMFuzzerInitialize`.
///
/// # Safety
/// As [`crate::libfuzzer::initialize`].
pub unsafe fn initialize(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller passes main's arguments.
    let mut arguments = unsafe { arguments_of(argc, argv) };
    arguments.insert(arguments.len().min(1), TIMEOUT.to_owned());
    let mode = match std::env::var_os("RUST_LIBFUZZER_DEBUG_PATH") {
        Some(_) => None,
        None => mode(&arguments, |argument| Path::new(argument).is_file()),
    };
    // SAFETY: as above.
    unsafe { replace_arguments(&arguments, argc, argv) };
    let Some(mode) = mode else { return 0 };
    let folder =
        std::env::var_os(FOLDER).map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from);
    let seed = Settings::from_environment().map(|settings| settings.seed);
    let started = seed.and_then(|seed| SnapshotSession::start(mode, &folder, seed, &arguments));
    match started {
        Ok(session) => SESSION.store(Box::into_raw(Box::new(session)), Ordering::Release),
        Err(error) => {
            // Another program may lie at other addresses; for other reasons it says the same again.
            if matches!(error, HarnessError::Snapshot(_)) {
                start_again();
            }
            give_up(&error)
        }
    }
    catch_interrupts();
    // SAFETY: the handler may run on any thread that ends the process.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    0
}

/// Ctrl-C as a flag, as [`interrupt::catch_once`] has it, also where it comes in the midst of a walk.
pub fn catch_interrupts() {
    interrupt::catch_once(LIBFUZZER_INTERRUPTED);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        with_own_thread_pointer(signal);
    }
}

unsafe extern "C" {
    /// glibc's and musl's.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn at_exit(_: c_int, _: *mut c_void) {
    finish();
}

/// Writes everything down and says what was done.
fn finish() {
    if let Some(session) = session() {
        let effort = session.end();
        eprintln!(
            "walkfuzz: {} walks in {:.1} s of CPU time, {} left their snapshot; {} signatures confirmed, {} not; run folder {}",
            effort.walks,
            effort.cpu_seconds,
            effort.left,
            effort.signatures.0,
            effort.signatures.1,
            session.run_folder().path().display()
        );
        let synthetic = effort.synthetic;
        if synthetic.walks > 0 {
            eprintln!(
                "walkfuzz: of edited memory {} hits in {} walks, counted apart; {} signatures confirmed, {} not",
                synthetic.hits, synthetic.walks, synthetic.signatures.0, synthetic.signatures.1
            );
        }
        if effort.signatures.0 > 0 {
            eprintln!(
                "walkfuzz: in a running JVM: walkfuzz snapshots live {}",
                quoted(&session.run_folder().path().display().to_string())
            );
        }
    }
}

fn give_up(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    end_process(error.exit_code())
}

fn session() -> Option<&'static mut SnapshotSession> {
    // SAFETY: null or the leaked session's; libFuzzer runs one input at a time, so nobody else borrows it.
    unsafe { SESSION.load(Ordering::Acquire).as_mut() }
}

/// `rust_fuzzer_test_input`.
pub fn test_input(data: &[u8]) -> c_int {
    let Some(session) = session() else {
        return -1;
    };
    let verdict = session.run_input(data);
    if interrupt::seen() {
        finish();
        end_process(LIBFUZZER_INTERRUPTED)
    }
    match verdict {
        Ok(InputVerdict::Keep) => 0,
        Ok(InputVerdict::Reject) => -1,
        Err(error) => give_up(&error),
    }
}

/// The custom mutator.
pub fn mutate_input(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    match session() {
        Some(session) => session.mutate(data, size, max_size, seed),
        None => mutate(data, size, max_size, seed),
    }
}

/// The custom crossover.
pub fn cross_inputs(a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
    match session() {
        Some(session) => session.crossover(a, b, out, seed),
        None => crossover(a, b, out, seed),
    }
}
