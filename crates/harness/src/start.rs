//! Bringing up a session: guard, JVM, tables, engine, workload.

use std::ffi::c_void;
use std::path::Path;
use std::time::{Duration, Instant};

use jni::sys::JNIEnv;
use walkfuzz_engine::{Bounds, Live, await_turn, worker_started};
use walkfuzz_guard::{Guard, GuardOptions};
use walkfuzz_jvm::{Jvm, JvmOptions, Places, Workload, WorkloadHooks, place_frames};
use walkfuzz_walkers::Agct;

use crate::error::HarnessError;
use crate::settings::Settings;
use crate::world::World;

/// How long the workload's threads may take to register: with -Xcomp each method that they call is compiled before.
const PATIENCE: Duration = Duration::from_secs(60);

/// A JVM with its workload running, ready to be walked.
pub struct Subject {
    /// The JVM.
    pub jvm: Jvm,
    /// Proof that the guard's handlers are installed.
    pub guard: Guard,
    /// What is known about the JVM.
    pub world: World,
    /// The engine, with its filter set.
    pub live: Live,
    /// The walker.
    pub agct: Agct,
    /// How long each part of the start took.
    pub timings: Vec<(&'static str, Duration)>,
}

extern "C" fn started(env: *mut JNIEnv, index: i32) {
    let code = worker_started(env.cast::<c_void>(), index);
    if code != 0 {
        eprintln!("walkfuzz: workload thread {index} could not be registered (step {code})");
    }
}

extern "C" fn stopped(_index: i32) {}

/// Chooses a JDK as the environment says.
///
/// # Errors
/// When there is none, or it cannot be used.
pub fn jvm_options() -> Result<JvmOptions, HarnessError> {
    Ok(JvmOptions::from_env(&Places::from_env())?)
}

/// Starts everything. Crash logs of the JVM go to `folder`.
///
/// # Errors
/// What this machine or this JVM lacks.
pub fn start(
    settings: &Settings,
    mut options: JvmOptions,
    folder: &Path,
) -> Result<Subject, HarnessError> {
    let mut timings = Vec::new();
    let mut lap = Instant::now();
    let mut timed = |what: &'static str, timings: &mut Vec<(&'static str, Duration)>| {
        timings.push((what, lap.elapsed()));
        lap = Instant::now();
    };
    let places = Places::from_env();
    options
        .class_path
        .push(place_frames(&places.cache.join("workloads"))?);
    options.error_folder = Some(folder.to_owned());
    let jvm = walkfuzz_jvm::start(&options)?;
    timed("jvm", &mut timings);
    // After the JVM, which asks handlers that were there before it and then writes no crash log.
    let guard = Guard::install(GuardOptions::default())?;
    let exported = |name: &'static str| {
        jvm.exported(name)
            .ok_or_else(|| HarnessError::VmStructs(format!("libjvm does not export {name}")))
    };
    // SAFETY: exported by the running libjvm; ClassLoad events and method ids were seen to by `walkfuzz_jvm::start`.
    let agct = unsafe { Agct::new(exported("AsyncGetCallTrace")?) };
    // SAFETY: as above.
    unsafe { World::ask_jvm_at_safefetch(exported("JVM_handle_linux_signal")?) };
    let mut world = World::attach()?;
    timed("tables", &mut timings);
    let bounds = Bounds {
        hang: settings.hang,
        ..Bounds::default()
    };
    let mut live = Live::install(&guard, world.env_offset()?, bounds)?;
    live.set_filter(&world.filter()?);
    let hooks = WorkloadHooks {
        started,
        await_turn,
        stopped,
    };
    let threads = settings.threads as i32;
    jvm.start_workload(&Workload {
        threads,
        seed: settings.seed.cast_signed(),
        warm_up: settings.warm_up,
        ..Workload::new(hooks)
    })?;
    let began = Instant::now();
    while live.workers() < settings.threads {
        if began.elapsed() > PATIENCE + settings.warm_up {
            return Err(HarnessError::Workload {
                registered: live.workers(),
                wanted: settings.threads,
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    timed("workload", &mut timings);
    world.refresh(u64::MAX);
    live.start_clock();
    timed("survey", &mut timings);
    Ok(Subject {
        jvm,
        guard,
        world,
        live,
        agct,
        timings,
    })
}
