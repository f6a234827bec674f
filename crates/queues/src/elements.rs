//! The target `queue_elements`: words of queued elements edited, in the queue that `WALKFUZZ_QUEUE` names.
//!
//! Contract: one input at a time.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use walkfuzz_harness::{Mode, Settings, libfuzzer};
use walkfuzz_jvm::{JvmOptions, Places};
use walkfuzz_stress::agents::{self, INTERPOSER};

use crate::end::{at_exit, fail};
use crate::error::QueueError;
use crate::jfr::{Outcome, Target};

static TARGET: Mutex<Option<(Target, Mode)>> = Mutex::new(None);

fn target() -> MutexGuard<'static, Option<(Target, Mode)>> {
    TARGET.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn finish() {
    if let Some((mut target, _)) = target().take() {
        match target.finish() {
            Ok(said) => eprintln!("{said}"),
            Err(error) => eprintln!("error: {error}"),
        }
    }
}

/// Starts what libFuzzer's arguments ask for, or ends the process with a sentence.
pub fn start() {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(mode) = libfuzzer::mode(&arguments, |argument| Path::new(argument).is_file()) else {
        return;
    };
    let settings =
        Settings::from_environment().unwrap_or_else(|error| fail(error.exit_code(), &error));
    let mode = if settings.strict { Mode::Strict } else { mode };
    let made = made(&settings.runs).unwrap_or_else(|error| fail(error.exit_code(), &error));
    *target() = Some((made, mode));
    at_exit(finish);
}

fn made(runs: &Path) -> Result<Target, QueueError> {
    let jdk = JvmOptions::from_env(&Places::from_env())?.jdk;
    Target::new(runs, jdk, agents::find(&INTERPOSER)?)
}

/// Runs one input. `false`: it is of no use in a corpus.
pub fn input(data: &[u8]) -> bool {
    let mut target = target();
    let Some((running, mode)) = target.as_mut() else {
        return false;
    };
    let ran = match mode {
        Mode::Strict => running.strict(data),
        Mode::Survey | Mode::Merge => running.input(data),
    };
    match ran {
        Ok(Outcome::Died) if *mode == Mode::Strict => std::process::abort(),
        Ok(outcome) => outcome != Outcome::Empty,
        Err(error) => {
            // What runs at the end takes it, too.
            drop(target);
            fail(error.exit_code(), &error)
        }
    }
}
