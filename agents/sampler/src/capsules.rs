//! Capsules of faults from which the guard recovered in walks of untouched contexts.
//!
//! The handler forks the process twice and goes on: [`take`], signal-safe. A thread of the agent's makes a capsule of the copies
//! beside the record: [`write`]. The first fault at each place has one, and no more than [`PLACES`] places do.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use walkfuzz_capsule::capture::{Copies, Ground, Keep, KnownFile, Meeting, Request};
use walkfuzz_capsule::{Outcome, SafeFetch};
use walkfuzz_context::{Address, Pc};
use walkfuzz_guard::{Fault, SafeFetchSite};
use walkfuzz_symbols::Modules;
use walkfuzz_triage::Signal;
use walkfuzz_triage::signature::{Kind, Signature};
use walkfuzz_walkers::Call;

use crate::sampler::Sampler;
use crate::signals;

/// Places whose faults are kept.
const PLACES: usize = 4;
/// Libraries that a debugger should know.
const LIBRARIES: [&str; 2] = ["libjvm.so", "libc.so.6"];
/// How long the end of a sampling waits for capsules that are being made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nobody's.
const FREE: u32 = 0;
/// A handler is filling it.
const TAKEN: u32 = 1;
/// Copies wait in it.
const READY: u32 = 2;
/// A capsule was made, or could not be.
const DONE: u32 = 3;

struct Place {
    state: AtomicU32,
    /// Where the walker faulted; 0: nowhere yet.
    pc: AtomicU64,
    taken: UnsafeCell<Option<Taken>>,
    /// Where its copies meet; none: nothing can be taken.
    meeting: OnceLock<Meeting>,
}

// SAFETY: `taken` is written by the handler that set TAKEN, and read by the thread that found READY.
unsafe impl Sync for Place {}

/// A walk that faulted, and the process as it was then.
struct Taken {
    copies: Copies,
    call: Call,
    signal: i32,
}

// SAFETY: the call's pointers are addresses of the copies.
unsafe impl Send for Taken {}

static PLACES_TAKEN: [Place; PLACES] = [const {
    Place {
        state: AtomicU32::new(FREE),
        pc: AtomicU64::new(0),
        taken: UnsafeCell::new(None),
        meeting: OnceLock::new(),
    }
}; PLACES];

/// The thread that writes, and whether it shall end.
static WRITER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static ENDING: AtomicBool = AtomicBool::new(false);

/// Copies the process for the fault that `call`, prepared anew, ended with; the first at its place. Signal-safe.
#[cold]
pub(crate) fn take(fault: &Fault, call: Call) {
    let pc = fault.pc().0;
    for place in &PLACES_TAKEN {
        match place.pc.compare_exchange(0, pc, AcqRel, Acquire) {
            Ok(_) => {
                place.state.store(TAKEN, Relaxed);
                let copies = place.meeting.get().map(|meeting| Copies::fork(*meeting));
                let taken = copies.and_then(Result::ok).map(|copies| Taken {
                    copies,
                    call,
                    signal: fault.signal,
                });
                // SAFETY: this handler took the place.
                unsafe { *place.taken.get() = taken };
                place.state.store(READY, Release);
                return;
            }
            Err(known) if known == pc => return,
            Err(_) => {}
        }
    }
}

/// What the capsules' writer knows of the JVM.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) safefetch: Vec<SafeFetchSite>,
    pub(crate) jvm: String,
}

/// Makes capsules of what handlers took, on a thread of its own, as long as the sampling goes on.
pub(crate) fn start(sampler: &'static Sampler, surroundings: Surroundings) -> std::io::Result<()> {
    for place in &PLACES_TAKEN {
        if place.meeting.get().is_none()
            && let Ok(meeting) = Meeting::new()
        {
            let _ = place.meeting.set(meeting);
        }
        // Of an earlier sampling.
        if place
            .state
            .compare_exchange(DONE, FREE, AcqRel, Relaxed)
            .is_ok()
        {
            place.pc.store(0, Release);
        }
    }
    ENDING.store(false, Release);
    let writer = signals::with_signals_blocked(|| {
        thread::Builder::new()
            .name("walkfuzz-capsules".to_owned())
            .spawn(move || {
                loop {
                    let ending = ENDING.load(Acquire);
                    write_all(sampler, &surroundings);
                    if ending {
                        return;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            })
    })?;
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    Ok(())
}

/// Waits until what handlers took is written; no handler takes anything any more.
pub(crate) fn finish() {
    let writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(writer) = writer else { return };
    ENDING.store(true, Release);
    let began = Instant::now();
    while !writer.is_finished() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

fn write_all(sampler: &Sampler, surroundings: &Surroundings) {
    for place in &PLACES_TAKEN {
        if place.state.load(Acquire) != READY {
            continue;
        }
        // SAFETY: READY gives it to this thread.
        let taken = unsafe { (*place.taken.get()).take() };
        if let Some(taken) = taken {
            let pc = Pc(place.pc.load(Relaxed));
            if let Err(problem) = write(sampler, surroundings, taken, pc) {
                eprintln!("walkfuzz: no capsule of the fault at {pc}: {problem}");
            }
        }
        place.state.store(DONE, Release);
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
        safefetch: surroundings.safefetch.iter().map(safefetch).collect(),
        files: files(&modules),
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

fn safefetch(site: &SafeFetchSite) -> SafeFetch {
    SafeFetch {
        fault: site.fault_pc,
        continuation: site.continuation_pc,
    }
}

fn files(modules: &Modules) -> Vec<KnownFile> {
    let known = LIBRARIES.iter().filter_map(|name| {
        let module = modules.by_name(name)?;
        Some(KnownFile {
            path: module.path.clone(),
            identity: module.table()?.identity()?.to_owned(),
        })
    });
    known.collect()
}
