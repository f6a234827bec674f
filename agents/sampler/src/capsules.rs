//! Capsules of faults from which the guard recovered in walks of untouched contexts.
//!
//! The handler forks the process, whose copy forks once more, and goes on: [`take`], signal-safe. A thread of the agent's makes a
//! capsule of the two copies beside the record: [`write`]. The first fault at each place has one, and no more than [`PLACES`] places do.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use walkfuzz_capsule::capture::{Copies, Ground, Keep, KnownFile, Meeting, Request};
use walkfuzz_capsule::{Outcome, SafeFetch};
use walkfuzz_context::{Address, Pc};
use walkfuzz_guard::{Fault, SafeFetchSite, with_signals_blocked};
use walkfuzz_symbols::Modules;
use walkfuzz_triage::Signal;
use walkfuzz_triage::signature::{Kind, Signature};
use walkfuzz_walkers::Call;

use crate::sampler::Sampler;

/// Places whose faults are kept.
const PLACES: usize = 4;
/// How long the end of a sampling waits for capsules that are being made.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a place is tried: what other threads did meanwhile may keep a walk from ending as it did.
const TRIES: u32 = 3;

/// Nobody's.
const FREE: u32 = 0;
/// A handler is filling it.
const TAKEN: u32 = 1;
/// Copies wait in it.
const READY: u32 = 2;
/// The writer is at it.
const WRITING: u32 = 3;
/// A capsule was made, or was tried often enough.
const DONE: u32 = 4;

struct Place {
    state: AtomicU32,
    /// Where the walker faulted; counts where the place is not free.
    pc: AtomicU64,
    tries: AtomicU32,
    taken: UnsafeCell<Option<Taken>>,
    /// Where its copies meet; none: nothing can be taken.
    meeting: OnceLock<Meeting>,
}

// SAFETY: `taken` is written by the handler that set TAKEN, and taken out by the thread that set WRITING: it is empty in between.
unsafe impl Sync for Place {}

/// A walk that faulted, and the process as it was then.
struct Taken {
    copies: Copies,
    call: Call,
    signal: i32,
}

// SAFETY: the call's pointers are addresses of the copies.
unsafe impl Send for Taken {}

static TAKEN_PLACES: [Place; PLACES] = [const {
    Place {
        state: AtomicU32::new(FREE),
        pc: AtomicU64::new(0),
        tries: AtomicU32::new(0),
        taken: UnsafeCell::new(None),
        meeting: OnceLock::new(),
    }
}; PLACES];

/// The thread that writes, and how it is told to end.
struct Writer {
    thread: JoinHandle<()>,
    ending: Arc<AtomicBool>,
}

static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

/// Makes what handlers need, before the first of them.
pub(crate) fn prepare() {
    for place in &TAKEN_PLACES {
        if place.meeting.get().is_none()
            && let Ok(meeting) = Meeting::new()
        {
            let _ = place.meeting.set(meeting);
        }
        // Of an earlier sampling.
        place.tries.store(0, Relaxed);
        let _ = place.state.compare_exchange(DONE, FREE, AcqRel, Relaxed);
    }
}

/// Copies the process for the fault that `call`, prepared anew, ended with; the first at its place. Signal-safe.
#[cold]
pub(crate) fn take(fault: &Fault, call: Call) {
    let pc = fault.pc().0;
    let known = |place: &Place| place.state.load(Acquire) != FREE && place.pc.load(Relaxed) == pc;
    if TAKEN_PLACES.iter().any(known) {
        return;
    }
    let free = |place: &&Place| {
        let claimed = place.state.compare_exchange(FREE, TAKEN, AcqRel, Relaxed);
        claimed.is_ok()
    };
    let Some(place) = TAKEN_PLACES.iter().find(free) else {
        return;
    };
    place.pc.store(pc, Relaxed);
    let copies = place.meeting.get().map(|meeting| Copies::fork(*meeting));
    let Some(Ok(copies)) = copies else {
        place.state.store(FREE, Release);
        return;
    };
    let taken = Taken {
        copies,
        call,
        signal: fault.signal,
    };
    // SAFETY: this handler took the place, in which nothing is, so that nothing is dropped here.
    unsafe { place.taken.get().write(Some(taken)) };
    place.state.store(READY, Release);
}

/// What the capsules' writer knows of the JVM.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) safefetch: Vec<SafeFetchSite>,
    pub(crate) jvm: String,
}

/// Makes capsules of what handlers took, on a thread of its own, until [`finish`].
pub(crate) fn start(sampler: &'static Sampler, surroundings: Surroundings) -> std::io::Result<()> {
    let ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ending);
    let thread = with_signals_blocked(|| {
        thread::Builder::new()
            .name("walkfuzz-capsules".to_owned())
            .spawn(move || {
                loop {
                    let last = told.load(Acquire);
                    write_all(sampler, &surroundings);
                    if last {
                        return;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            })
    })?;
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Writer { thread, ending });
    Ok(())
}

/// Waits until what handlers took is written; no handler takes anything any more.
pub(crate) fn finish() {
    let writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(writer) = writer else { return };
    writer.ending.store(true, Release);
    let began = Instant::now();
    while !writer.thread.is_finished() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

fn write_all(sampler: &Sampler, surroundings: &Surroundings) {
    for place in &TAKEN_PLACES {
        let claimed = place
            .state
            .compare_exchange(READY, WRITING, AcqRel, Relaxed);
        if claimed.is_err() {
            continue;
        }
        // SAFETY: WRITING gives it to this thread.
        let taken = unsafe { (*place.taken.get()).take() };
        let pc = Pc(place.pc.load(Relaxed));
        let written = taken.map_or(Ok(()), |taken| write(sampler, surroundings, taken, pc));
        let tries = place.tries.fetch_add(1, Relaxed) + 1;
        let next = match written {
            Err(_) if tries < TRIES => FREE,
            Err(problem) => {
                eprintln!("walkfuzz: no capsule of the fault at {pc}: {problem}");
                DONE
            }
            Ok(()) => DONE,
        };
        place.state.store(next, Release);
    }
}

fn write(
    sampler: &Sampler,
    surroundings: &Surroundings,
    taken: Taken,
    pc: Pc,
) -> Result<(), String> {
    let modules = Modules::of_this_process().map_err(|error| error.to_string())?;
    let signal = Signal::from_number(taken.signal).ok_or("of no signal")?;
    let place = modules.symbolise(pc).site();
    let keep = Keep {
        signature: Signature::new(Kind::Signal(signal), place, sampler.walker_name()).to_string(),
        minimise: true,
        ..Keep::default()
    };
    let request = Request {
        function: Pc(taken.call.function as *const () as u64),
        trace: Address(taken.call.first as u64),
        depth: taken.call.depth,
        context: Address(taken.call.last as u64),
        safefetch: surroundings.safefetch.iter().map(SafeFetch::from).collect(),
        files: KnownFile::libraries(&modules),
        walker: sampler.walker_name().to_owned(),
        jvm: surroundings.jvm.clone(),
        keep,
    };
    let text = |error: walkfuzz_capsule::CaptureError| error.to_string();
    let mut ground = Ground::of_copies(taken.copies, &request).map_err(text)?;
    let (capsule, _) = ground.capsule(&request.keep).map_err(text)?;
    match &capsule.facts.expected {
        Outcome::Fault(fault) if fault.registers.pc() == pc => {}
        other => return Err(format!("walked again it ends otherwise: {other}")),
    }
    capsule
        .write(&file(sampler, pc))
        .map_err(|error| error.to_string())
}

/// Beside the record, named after the place: `record-17.map` has `record-17-7f12ab.wfcap`.
fn file(sampler: &Sampler, pc: Pc) -> PathBuf {
    let record = sampler.recorder.path();
    let stem = record.file_stem().unwrap_or_default().to_string_lossy();
    record.with_file_name(format!("{stem}-{:x}.wfcap", pc.0))
}
