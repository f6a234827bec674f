//! From the JVM's first call to its last.
//!
//! Everything that can be refused is refused in [`load`] or before anything is changed in [`attach`]: the JVM ends, or unloads the library.
//!
//! Contract: runs in JVMTI's callbacks, on threads of the JVM.

use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM, jclass, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_THREAD_END,
    JVMTI_EVENT_THREAD_START, JVMTI_EVENT_VM_DEATH, JVMTI_EVENT_VM_INIT, jvmtiEnv,
    jvmtiEventCallbacks,
};
use walkfuzz_guard::{Guard, GuardOptions, wiped_in_copies};
use walkfuzz_jvm::check::inspect;
use walkfuzz_jvm::{
    HostError, HostJvm, Jvmti, Libjvm, java_thread_of, libjvm_module, library_facts,
};
use walkfuzz_record::{Recorder, code_names};
use walkfuzz_vmstructs::{LiveMemory, Perturber, ThreadSearch, java_threads};
use walkfuzz_walkers::{Agct, Library, Manner, ReferenceWalker, RemoteFacts};

use crate::asgst::{self, AsgstWalk};
use crate::capsules::{self, Surroundings};
use crate::chosen::WalkerChoice;
use crate::clock::{self, Clock};
use crate::control;
use crate::keeper;
use crate::options::{Options, Wanted};
use crate::planted::Planted;
use crate::queue::QueueSampling;
use crate::refusal::Refusal;
use crate::remote::{self, Outside, RemoteSampling};
use crate::sampler::Sampler;
use crate::sampling::Sampling;
use crate::signals;
use crate::threads::{self, Identity};

/// What was made before the JVM has started.
struct Prepared {
    options: Options,
    libjvm: Libjvm,
    recorder: Recorder,
    signals: Vec<(Clock, i32)>,
    /// The walker's, if it is in one.
    library: Option<Library>,
}

// SAFETY: the library's handle may be used by any thread.
unsafe impl Send for Prepared {}

static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);
static JVMTI: OnceLock<Jvmti> = OnceLock::new();
/// From a `JavaThread` to its `JNIEnv`; 0: not known yet.
static ENV_OFFSET: AtomicU32 = AtomicU32::new(0);

/// At the JVM's start.
///
/// # Safety
/// `vm` is the JVM's, in its OnLoad phase.
pub(crate) unsafe fn load(vm: *mut JavaVM, text: &str) -> Result<(), Refusal> {
    let Wanted::Sample(options) = Wanted::parse(text, std::process::id())? else {
        return Err(Refusal::NothingToStop);
    };
    // SAFETY: the caller's.
    let (jvmti, prepared) = unsafe { prepare(vm, *options)? };
    listen(jvmti)?;
    jvmti.enable(JVMTI_EVENT_VM_INIT)?;
    *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
    Ok(())
}

/// In a running JVM.
///
/// # Safety
/// `vm` is the JVM's, in its live phase, and this thread is attached.
pub(crate) unsafe fn attach(vm: *mut JavaVM, text: &str) -> Result<(), Refusal> {
    let wanted = Wanted::parse(text, std::process::id())?;
    let Wanted::Sample(options) = wanted else {
        return if control::end() {
            Ok(())
        } else {
            Err(Refusal::NothingToStop)
        };
    };
    if control::lock().is_some() {
        return Err(Refusal::Already);
    }
    // SAFETY: the caller's.
    let (jvmti, prepared) = unsafe { prepare(vm, *options)? };
    listen(jvmti)?;
    let mut env: *mut JNIEnv = std::ptr::null_mut();
    /// JNI_VERSION_1_8.
    const VERSION: i32 = 0x0001_0008;
    // SAFETY: the JVM lives; this thread is attached.
    let code = unsafe { ((**vm).GetEnv)(vm, std::ptr::from_mut(&mut env).cast(), VERSION) };
    if code != 0 || env.is_null() {
        return Err(Refusal::NoIdentity);
    }
    // SAFETY: as above.
    unsafe { go(jvmti, env, prepared) }
}

/// Everything that may be refused.
unsafe fn prepare(vm: *mut JavaVM, options: Options) -> Result<(Jvmti, Prepared), Refusal> {
    // SAFETY: the caller's.
    let libjvm = unsafe { Libjvm::of(vm)? };
    libjvm.symbol(c"AsyncGetCallTrace")?;
    let signals = signals::choose(&options.clocks)?;
    if options.clocks.contains(&Clock::Perf) {
        clock::try_perf().map_err(Refusal::Perf)?;
    }
    if options.clocks.contains(&Clock::Itimer) && clock::itimer_is_taken() {
        return Err(Refusal::Itimer);
    }
    if options.steps > 0 && !walkfuzz_guard::has_trap_flag() {
        return Err(Refusal::CannotStep);
    }
    let jvmti = match JVMTI.get() {
        Some(jvmti) => *jvmti,
        None => {
            // SAFETY: the caller's.
            let made = unsafe { Jvmti::of(vm)? };
            *JVMTI.get_or_init(|| made)
        }
    };
    let version = jvmti.system_property("java.vm.version").unwrap_or_default();
    // As every other record has it: some builds of libjvm have no build id, and are told apart by their exports.
    let build_id = libjvm_module()
        .ok()
        .and_then(|module| Some(inspect(&module.path).ok()?.identity));
    if options.walker == WalkerChoice::Request {
        jvmti.requester()?;
    }
    let library = options.walker.library()?;
    let walkers = options.walker.recorded(&version, library.as_ref())?;
    let record = walkfuzz_record::Options {
        lanes: options.lanes,
        walkers,
        jvm_build_id: build_id.unwrap_or_default(),
        jvm_version: version,
        tick_hz: walkfuzz_walkers::tick_hz(),
    };
    let recorder = Recorder::create(&options.record, &record)?;
    if let Some(library) = &library {
        code_names::write(&options.record, library.code_names())?;
    }
    let prepared = Prepared {
        options,
        libjvm,
        recorder,
        signals,
        library,
    };
    Ok((jvmti, prepared))
}

/// Wants the events that sampling needs.
fn listen(jvmti: Jvmti) -> Result<(), Refusal> {
    let mut callbacks = jvmtiEventCallbacks::default();
    callbacks.VMInit = Some(vm_init);
    callbacks.VMDeath = Some(vm_death);
    callbacks.ThreadStart = Some(thread_start);
    callbacks.ThreadEnd = Some(thread_end);
    callbacks.ClassLoad = Some(class_load);
    callbacks.ClassPrepare = Some(class_prepare);
    // SAFETY: functions of this library, which stays loaded.
    unsafe { jvmti.set_callbacks(&callbacks)? };
    // AsyncGetCallTrace answers -1 for everything unless somebody listens to class loading.
    for event in [
        JVMTI_EVENT_CLASS_LOAD,
        JVMTI_EVENT_CLASS_PREPARE,
        JVMTI_EVENT_VM_DEATH,
    ] {
        jvmti.enable(event)?;
    }
    Ok(())
}

/// Begins to sample a JVM that has started.
///
/// # Safety
/// `env` is that of the calling thread.
unsafe fn go(jvmti: Jvmti, env: *mut JNIEnv, prepared: Prepared) -> Result<(), Refusal> {
    let options = prepared.options;
    let guarded = options.guard;
    if guarded || options.steps > 0 {
        // Behind the JVM's handlers, which are in place by now; what is not ours goes to them.
        Guard::install(GuardOptions::default())?;
    }
    if options.steps > 0 {
        signals::hook_traps();
    }
    let libjvm = libjvm_module()?;
    let vm = HostJvm::attach(prepared.libjvm, &libjvm, guarded)?;
    // SAFETY: the calling thread's.
    unsafe { jvmti.make_all_ids(env, &mut |_| {})? };
    let function = prepared.libjvm.symbol(c"AsyncGetCallTrace")?;
    // SAFETY: this JVM's own; ClassLoad is listened to, and the ids are made.
    let agct = unsafe { Agct::new(function) };
    let mut from_outside = None;
    let walker = match (options.plant, options.walker, prepared.library) {
        (_, WalkerChoice::Request, _) => Sampling::Other(Box::leak(Box::new(jvmti.requester()?))),
        (_, WalkerChoice::Reference, _) => {
            let own = vm.own_java_thread().ok_or(Refusal::NoIdentity)?;
            let symbol = |name: &str| libjvm.address_of(name);
            let env_offset = (env as u64).wrapping_sub(own);
            let walker = ReferenceWalker::attach(&vm.hotspot, &symbol, env_offset)?;
            Sampling::Other(Box::leak(Box::new(walker)))
        }
        (_, WalkerChoice::Asgst(walk), _) => {
            // SAFETY: the calling thread's.
            unsafe { asgst::publish(walk, &vm, &libjvm, jvmti, env)? };
            Sampling::Other(walk.walker())
        }
        (_, _, Some(library)) => {
            let feature = vm.hotspot.version().feature;
            let mut java_vm: *mut JavaVM = std::ptr::null_mut();
            // SAFETY: the calling thread's.
            let facts = unsafe {
                ((**env).GetJavaVM)(env, &raw mut java_vm);
                library_facts(java_vm, feature, function, vm.facts.code.clone())?
            };
            let plugin = library.start(&facts)?;
            if let WalkerChoice::Plugin(manner @ (Manner::Held | Manner::Running), _) =
                options.walker
            {
                let walker = plugin.remote(manner);
                from_outside = walker.map(|walker| Outside::Library { walker, manner });
            }
            Sampling::Other(Box::leak(Box::new(plugin)))
        }
        (Some(plant), _, None) => Sampling::Other(Box::leak(Box::new(Planted::new(agct, plant)))),
        (None, _, None) => Sampling::Agct(agct),
    };
    if let WalkerChoice::Remote(mode) = options.walker {
        let threads = ThreadSearch::new(vm.hotspot.threads());
        let own = vm.own_java_thread().ok_or(Refusal::NoIdentity)?;
        // SAFETY: this JVM's own function; a thread in JVMTI's callback is in native code.
        let facts = unsafe { RemoteFacts::find(function, env.cast(), own, threads)? };
        from_outside = Some(Outside::agct(facts, mode));
    }
    let remote =
        from_outside.map(|outside| RemoteSampling::new(outside, prepared.recorder.tick_hz()));
    let queue = (options.walker == WalkerChoice::Asgst(AsgstWalk::Queue)).then(QueueSampling::new);
    let perturber = (options.perturb > 0).then(|| Perturber::new(options.seed));
    let sampler = Sampler::new(
        options,
        prepared.recorder,
        vm.facts.clone(),
        walker,
        wiped_in_copies()?,
        perturber,
        remote,
    )
    .with_queue(queue);
    if guarded {
        capsules::prepare();
    }
    signals::install(&prepared.signals)?;
    let sampler = sampler.publish();
    control::begin(sampler);
    jvmti.enable(JVMTI_EVENT_THREAD_START)?;
    jvmti.enable(JVMTI_EVENT_THREAD_END)?;
    // SAFETY: the calling thread's.
    unsafe { meet_all(jvmti, env, &vm)? };
    if guarded {
        let surroundings = Surroundings {
            safefetch: vm.safefetch.clone(),
            jvm: jvmti.system_property("java.version").unwrap_or_default(),
        };
        capsules::start(sampler, surroundings)?;
    }
    remote::start(sampler)?;
    keeper::start(sampler, vm)?;
    Ok(())
}

/// Makes the threads known that began before anybody listened.
///
/// A thread that ends meanwhile waits for the lock in its ThreadEnd, and so leaves the table after it has come in.
unsafe fn meet_all(jvmti: Jvmti, env: *mut JNIEnv, vm: &HostJvm) -> Result<(), Refusal> {
    let mut control = control::lock();
    let (known, _) = java_threads(&vm.hotspot, &LiveMemory::new())
        .map_err(|error| HostError::Structures(error.to_string()))?;
    let offset = Some((env as u64).wrapping_sub(vm.own_java_thread().ok_or(Refusal::NoIdentity)?))
        .filter(|offset| (1..1 << 16).contains(offset))
        .ok_or(Refusal::NoIdentity)?;
    ENV_OFFSET.store(offset as u32, Release);
    let mut met = Vec::new();
    // SAFETY: the calling thread's, and references that JVMTI shows.
    unsafe {
        jvmti.each_thread(env, &mut |thread| met.extend(java_thread_of(env, thread)))?;
    }
    for thread in known
        .iter()
        .filter(|thread| met.contains(&thread.address.0))
    {
        let who = Identity {
            key: thread.pthread,
            tid: thread.tid.0,
            env: (thread.address.0 + offset) as usize,
            java_thread: thread.address.0,
        };
        control::add(&mut control, who);
    }
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
        eprintln!("walkfuzz-sampler: {refusal}");
        // The JVM cannot be told any more, and must not go on as if it were sampled.
        // SAFETY: ends the process.
        unsafe { libc::_exit(1) };
    }
}

unsafe extern "system" fn vm_death(_: *mut jvmtiEnv, _: *mut JNIEnv) {
    control::end();
}

unsafe extern "system" fn thread_start(_: *mut jvmtiEnv, env: *mut JNIEnv, _: jthread) {
    let mut control = control::lock();
    let offset = ENV_OFFSET.load(Acquire);
    if offset == 0 {
        // `meet_all`, which has not had the lock yet, will find this thread.
        return;
    }
    let who = Identity {
        key: threads::own_key(),
        // SAFETY: no arguments.
        tid: unsafe { libc::gettid() },
        env: env as usize,
        java_thread: (env as u64).wrapping_sub(u64::from(offset)),
    };
    control::add(&mut control, who);
}

unsafe extern "system" fn thread_end(_: *mut jvmtiEnv, _: *mut JNIEnv, _: jthread) {
    control::remove_current();
}

unsafe extern "system" fn class_load(_: *mut jvmtiEnv, _: *mut JNIEnv, _: jthread, _: jclass) {}

unsafe extern "system" fn class_prepare(
    jvmti: *mut jvmtiEnv,
    _: *mut JNIEnv,
    _: jthread,
    class: jclass,
) {
    // SAFETY: JVMTI calls this on an attached thread with its own environment and a valid reference.
    unsafe { Jvmti::from_raw(jvmti).make_ids(class, &mut |_| {}) };
}
