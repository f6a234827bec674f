//! The agent's own thread: it looks at the code cache and the landscape every second, and writes what no lane counts.
//!
//! It has all signals blocked and is unknown to the JVM.
//!
//! Contract: not for handlers.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use walkfuzz_guard::with_signals_blocked;
use walkfuzz_jvm::HostJvm;
use walkfuzz_record::Counter;

use crate::interpose::Interposer;
use crate::turn::{self, Turn};

/// How often it looks, at most.
const EVERY: Duration = Duration::from_secs(1);
/// A look may cost one part in so many of a core.
const SHARE: u32 = 50;
/// How long it waits for the turn.
const PATIENCE: Duration = Duration::from_millis(10);
/// Held by who writes counters, which are differences to what stands there, and by who closes the record.
static WRITING: Mutex<()> = Mutex::new(());

/// Starts it; it ends with the interposer.
pub(crate) fn start(interposer: &'static Interposer, vm: HostJvm) -> std::io::Result<()> {
    with_signals_blocked(|| {
        thread::Builder::new()
            .name("walkfuzz-keeper".to_owned())
            .spawn(move || keep(interposer, &vm))?;
        Ok(())
    })
}

fn keep(interposer: &'static Interposer, vm: &HostJvm) {
    while Interposer::current().is_some() {
        let began = Instant::now();
        look(interposer, vm);
        let writing = writing();
        if Interposer::current().is_none() {
            return;
        }
        write_counters(interposer);
        interposer.recorder.alive();
        drop(writing);
        thread::sleep(EVERY.max(began.elapsed() * SHARE));
    }
}

/// Reads the code cache anew, and the landscape.
fn look(interposer: &'static Interposer, vm: &HostJvm) {
    if let Some(map) = vm.code_map() {
        let turn = Turn::wait(PATIENCE);
        let old = turn.map(|turn| interposer.tools.replace_code(&turn, map));
        // Freed after the turn.
        drop(old);
    }
    interposer.perturber.survey(&vm.hotspot, &vm.maps);
}

/// Writes the last numbers and closes the record. The interposer has been retired: the keeper writes nothing any more.
pub(crate) fn finish(interposer: &Interposer) {
    let _writing = writing();
    write_counters(interposer);
    interposer.recorder.close();
}

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes what handlers without a lane have counted, into the lane that is nobody else's.
fn write_counters(interposer: &Interposer) {
    let Some(lane) = interposer.recorder.lane(0) else {
        return;
    };
    for (counter, now) in [
        (Counter::Drops, turn::dropped()),
        (Counter::Requested, interposer.came.load(Relaxed)),
    ] {
        lane.add(counter, now.saturating_sub(lane.counter(counter)));
    }
}
