//! AFL++'s entry to the body of `walk_ucontext`.
//!
//! AFL++ forks before `main` goes on, and a JVM does not survive a fork: so the session starts in the child, at its first
//! input, and serves all further inputs of that child (the afl crate's loop has no other end by itself).

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};

use walkfuzz_coverage::{COUNTERS, Feedback};
use walkfuzz_harness::{HarnessError, Mode, Session};

unsafe extern "C" {
    /// AFL++'s map (afl-compiler-rt.o.c).
    static __afl_area_ptr: *mut u8;
}

/// As many places in AFL++'s map as there are feedback counters: its runtime numbers the guards of this section one after
/// the other, ours like those of instrumented blocks.
#[used]
#[unsafe(link_section = "__sancov_guards")]
static GUARDS: [AtomicU32; COUNTERS] = [const { AtomicU32::new(0) }; COUNTERS];

/// The feedback counters, in AFL++'s map.
fn feedback() -> Feedback {
    let first = GUARDS[0].load(Ordering::Relaxed) as usize;
    let last = GUARDS[COUNTERS - 1].load(Ordering::Relaxed) as usize;
    let in_a_row = last.wrapping_sub(first) == COUNTERS - 1;
    assert!(in_a_row, "needs `cargo afl build`, and no AFL_INST_RATIO");
    // SAFETY: the runtime has made the map at least as long as its last guard says, before the fork server came up; this
    // process alone writes it while an input runs.
    unsafe { Feedback::in_map(__afl_area_ptr.add(first), COUNTERS) }
}

/// Ends this child at once: a JVM runs in it, and threads that no exit handler may meet. AFL++ starts another.
fn end(error: &HarnessError) -> ! {
    eprintln!("error: {error}");
    // SAFETY: ends the process, runs nothing.
    unsafe { libc::_exit(error.exit_code()) }
}

/// Starts the session of this child; it lives as long as the process.
fn start() -> &'static mut Session {
    let arguments: Vec<String> = std::env::args().collect();
    let session = Session::start(Mode::Survey, &arguments, None);
    let session = Box::leak(Box::new(session.unwrap_or_else(|error| end(&error))));
    session.set_feedback(feedback());
    session
}

fn main() {
    let mut session = AssertUnwindSafe(None);
    afl::fuzz(true, move |data| {
        let session = &mut session; // the whole wrapper, not only what is in it
        let session = session.get_or_insert_with(start);
        if let Err(error) = session.run_input(data) {
            session.finish();
            end(&error);
        }
    });
}
