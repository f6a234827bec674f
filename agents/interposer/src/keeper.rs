//! The agent's own thread: it looks at the code cache and the landscape every second, and writes what no lane counts.
//!
//! It has all signals blocked and is unknown to the JVM.
//!
//! Contract: not for handlers.

use std::sync::atomic::Ordering::Relaxed;
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
/// How often the turn is asked for.
const TRIES: u32 = 100;

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
        write_counters(interposer);
        interposer.recorder.alive();
        thread::sleep(EVERY.max(began.elapsed() * SHARE));
    }
}

/// Reads the code cache anew, and the landscape.
fn look(interposer: &'static Interposer, vm: &HostJvm) {
    if let Some(map) = vm.code_map() {
        // SAFETY: no arguments.
        let tid = unsafe { libc::gettid() };
        let turn = (0..TRIES).find_map(|_| {
            let turn = Turn::take(tid);
            if turn.is_none() {
                thread::sleep(Duration::from_micros(100));
            }
            turn
        });
        let old = turn.map(|turn| interposer.tools.replace_code(&turn, map));
        // Freed after the turn.
        drop(old);
    }
    interposer.perturber.survey(&vm.hotspot, &vm.maps);
}

/// Writes what handlers without a lane have counted, into the lane that is nobody else's.
pub(crate) fn write_counters(interposer: &Interposer) {
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
