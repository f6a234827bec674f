//! From the JVM's first call to its last.
//!
//! What can be refused is refused in [`load`], and the JVM ends. The profiler is loaded after our JVMTI environment was made, so that our VMInit comes
//! before its own: the guard is in place when it installs its handlers.
//!
//! Contract: runs in JVMTI's callbacks, on threads of the JVM.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_THREAD_END, JVMTI_EVENT_THREAD_START, JVMTI_EVENT_VM_DEATH, JVMTI_EVENT_VM_INIT,
    jvmtiEnv, jvmtiEventCallbacks,
};
use walkfuzz_guard::{Guard, GuardError, GuardOptions, set_fault_hook, wiped_in_copies};
use walkfuzz_jvm::check::inspect;
use walkfuzz_jvm::{HostError, HostJvm, JvmError, Jvmti, Libjvm, libjvm_module};
use walkfuzz_record::{Generation, RecordError, Recorder, WalkerInfo};
use walkfuzz_vmstructs::{Maps, Perturber, Span};
use walkfuzz_walkers::agct_mark;

use crate::actions;
use crate::checkpoint::{Checkpoint, Marks};
use crate::interpose::{Interposer, Tools};
use crate::keeper;
use crate::loading::{self, LoadError};
use crate::options::{OptionError, Options, QueueEdits, Subject};
use crate::queue::{Queue, Source};
use crate::threads;
use crate::turn::Turn;

/// Lanes of the record: the keeper's, and some for threads, each of which remembers the places of sixteen faults.
const LANES: u32 = 9;

/// How long the end waits for the handler at work: more than the guard leaves one that hangs. One that never ends must not stop the JVM from ending.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is nothing to interpose.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Options(#[from] OptionError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Jvm(#[from] JvmError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("cannot set up crash protection: {0}")]
    Guard(#[from] GuardError),
    #[error("cannot get a page of memory or a thread: {0}")]
    System(#[from] std::io::Error),
    #[error("cannot open {0}, which the queue's edits are in: {1}")]
    Feed(String, std::io::Error),
    #[error("this JVM does not say how long a JavaThread is: JFR's queue cannot be looked for")]
    NoSize,
    #[error("this JVM does not say which thread is which")]
    NoIdentity,
}

/// What was made before the JVM has started.
struct Prepared {
    options: Options,
    libjvm: Libjvm,
    recorder: Recorder,
    /// The profiler's writable memory.
    writable: Vec<Span>,
    queue: Option<Source>,
}

// SAFETY: the library's handle may be used by any thread.
unsafe impl Send for Prepared {}

static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);
static JVMTI: OnceLock<Jvmti> = OnceLock::new();
/// From a `JavaThread` to its `JNIEnv`; 0: not known yet.
static ENV_OFFSET: AtomicU64 = AtomicU64::new(0);

/// At the JVM's start.
///
/// # Safety
/// `vm` is the JVM's, in its OnLoad phase.
pub(crate) unsafe fn load(vm: *mut JavaVM, text: &str) -> Result<(), Refusal> {
    let options = Options::parse(text, std::process::id())?;
    // SAFETY: the caller's.
    let (libjvm, jvmti) = unsafe { (Libjvm::of(vm)?, Jvmti::of(vm)?) };
    let mut callbacks = jvmtiEventCallbacks::default();
    callbacks.VMInit = Some(vm_init);
    callbacks.VMDeath = Some(vm_death);
    callbacks.ThreadStart = Some(thread_start);
    callbacks.ThreadEnd = Some(thread_end);
    // SAFETY: functions of this library, which stays loaded.
    unsafe { jvmti.set_callbacks(&callbacks)? };
    jvmti.enable(JVMTI_EVENT_VM_INIT)?;
    let jvmti = *JVMTI.get_or_init(|| jvmti);
    let recorder = record(&options, jvmti)?;
    let agct = libjvm.symbol(c"AsyncGetCallTrace")?;
    let writable = match &options.subject {
        Subject::Jfr => {
            loading::stand_before_jvm(agct)?;
            Vec::new()
        }
        // SAFETY: the caller's.
        Subject::Library(path, text) => unsafe { loading::load(vm, path, text)?.writable },
    };
    let queue = match &options.queue {
        None => None,
        Some(QueueEdits::Random) => Some(Source::Random),
        Some(QueueEdits::Fixed(edits)) => Some(Source::Fixed(*edits)),
        Some(QueueEdits::Fed(path)) => {
            let file = File::options().read(true).write(true).open(path);
            Some(Source::Fed(file.map_err(|error| {
                Refusal::Feed(path.display().to_string(), error)
            })?))
        }
    };
    let prepared = Prepared {
        queue,
        options,
        libjvm,
        recorder,
        writable,
    };
    *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
    Ok(())
}

fn record(options: &Options, jvmti: Jvmti) -> Result<Recorder, Refusal> {
    let version = jvmti.system_property("java.vm.version").unwrap_or_default();
    let build_id = libjvm_module()
        .ok()
        .and_then(|module| Some(inspect(&module.path).ok()?.identity));
    let name = match &options.subject {
        Subject::Jfr => "jfr".to_owned(),
        Subject::Library(path, _) => path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default(),
    };
    let walker = WalkerInfo {
        name,
        generation: Generation::Profiler,
        version: version.clone(),
    };
    let record = walkfuzz_record::Options {
        lanes: LANES,
        walkers: vec![walker],
        jvm_build_id: build_id.unwrap_or_default(),
        jvm_version: version,
        tick_hz: walkfuzz_walkers::tick_hz(),
    };
    Ok(Recorder::create(&options.record, &record)?)
}

/// Begins, in a JVM that has started.
///
/// # Safety
/// `env` is that of the calling thread.
unsafe fn go(jvmti: Jvmti, env: *mut JNIEnv, prepared: Prepared) -> Result<(), Refusal> {
    // Behind the JVM's handlers, which are in place by now, and before the profiler's.
    let guard = Guard::install(GuardOptions::default())?;
    let _ = actions::GUARD.set(guard);
    // SAFETY: signal-safe, in guarded calls of threads that have the turn.
    unsafe { set_fault_hook(Some(actions::on_fault)) };
    let agct = prepared.libjvm.symbol(c"AsyncGetCallTrace")?;
    let vm = HostJvm::attach(prepared.libjvm, &libjvm_module()?, true)?;
    let maps = Maps::read_own().map_err(|error| HostError::Structures(error.to_string()))?;
    let own = vm.own_java_thread().ok_or(Refusal::NoIdentity)?;
    let way_out = vm.hotspot.tables().field("ThreadShadow", "_exception_file");
    let marks = Marks {
        // SAFETY: libjvm's function, and this thread, of which no profiler has heard yet.
        walked: unsafe { agct_mark(agct, own) },
        way_out: way_out.map(|field| field.offset),
    };
    let bytes = vm.hotspot.tables().type_size("JavaThread");
    if prepared.queue.is_some() && bytes.is_none() {
        return Err(Refusal::NoSize);
    }
    let bytes = bytes.unwrap_or(0);
    let checkpoint = Checkpoint::new(&prepared.writable, &maps, marks);
    ENV_OFFSET.store((env as u64).wrapping_sub(own), Release);
    threads::add(own)?;
    let interposer = Interposer {
        recorder: prepared.recorder,
        facts: vm.facts.clone(),
        perturber: Perturber::new(prepared.options.seed),
        perturb: prepared.options.perturb,
        queue: prepared.queue.map(|source| Queue::new(source, bytes)),
        original: wiped_in_copies()?,
        tools: Tools::new(checkpoint),
        came: AtomicU64::new(0),
    };
    let interposer = interposer.publish();
    for event in [
        JVMTI_EVENT_THREAD_START,
        JVMTI_EVENT_THREAD_END,
        JVMTI_EVENT_VM_DEATH,
    ] {
        jvmti.enable(event)?;
    }
    keeper::start(interposer, vm)?;
    Ok(())
}

unsafe extern "system" fn vm_init(_: *mut jvmtiEnv, env: *mut JNIEnv, _: jthread) {
    let prepared = PREPARED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (Some(prepared), Some(jvmti)) = (prepared, JVMTI.get()) else {
        return;
    };
    // SAFETY: JVMTI's arguments.
    if let Err(refusal) = unsafe { go(*jvmti, env, prepared) } {
        eprintln!("walkfuzz-interposer: {refusal}");
        // The JVM cannot be told any more, and must not go on as if somebody stood before its profiler.
        // SAFETY: ends the process.
        unsafe { libc::_exit(1) };
    }
}

unsafe extern "system" fn vm_death(_: *mut jvmtiEnv, _: *mut JNIEnv) {
    if let Some(interposer) = Interposer::retire() {
        let turn = Turn::wait(PATIENCE);
        keeper::finish(interposer);
        drop(turn);
        if !actions::any() {
            eprintln!("walkfuzz-interposer: the profiler never installed a handler");
        }
    }
}

unsafe extern "system" fn thread_start(_: *mut jvmtiEnv, env: *mut JNIEnv, _: jthread) {
    let java_thread = (env as u64).wrapping_sub(ENV_OFFSET.load(Acquire));
    // A thread for which there is no room is passed on.
    let _ = threads::add(java_thread);
}

unsafe extern "system" fn thread_end(_: *mut jvmtiEnv, _: *mut JNIEnv, _: jthread) {
    threads::remove();
}
