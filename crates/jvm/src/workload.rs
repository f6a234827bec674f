//! The embedded Java workload: threads whose stacks show every kind of frame.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use jni::objects::JValue;
use jni::sys::{JNIEnv, jclass, jint};
use jni::{NativeMethod, jni_sig, jni_str};

use crate::JvmError;
use crate::start::Jvm;

/// The class files, built from `stress/workloads/frames` by `scripts/build-workloads`.
pub const FRAMES_JAR: &[u8] = include_bytes!("../../../stress/workloads/frames/frames.jar");

/// What the workload's threads call. All three run on the worker itself, in native state: they may block without holding up the JVM.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadHooks {
    /// Before the worker's first turn.
    pub started: extern "C" fn(env: *mut JNIEnv, index: i32),
    /// Waits for the worker's next turn. Negative: stop. 0: the worker chooses the kind of work. Positive: do kind (result - 1),
    /// modulo the number of kinds that this JVM has.
    pub await_turn: extern "C" fn(index: i32) -> i32,
    /// After the worker's last turn.
    pub stopped: extern "C" fn(index: i32),
}

/// How to run the workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// How many worker threads.
    pub threads: i32,
    /// What the workers' random choices begin with.
    pub seed: i64,
    /// How often a further thread deoptimises, unloads and collects; `None` for never.
    pub antagonist: Option<Duration>,
    /// How long each worker runs everything before its first turn, so that compiled code exists.
    pub warm_up: Duration,
    /// What the workers call.
    pub hooks: WorkloadHooks,
}

impl Workload {
    /// Four workers, a low-duty antagonist, no warm-up.
    #[must_use]
    pub fn new(hooks: WorkloadHooks) -> Workload {
        Workload {
            threads: 4,
            seed: 1,
            antagonist: Some(Duration::from_millis(200)),
            warm_up: Duration::ZERO,
            hooks,
        }
    }
}

static HOOKS: OnceLock<WorkloadHooks> = OnceLock::new();

/// Writes the workload's jar into a folder, unless it is there, and returns its path for the class path.
///
/// # Errors
/// If the folder cannot be written.
pub fn place_frames(folder: &Path) -> Result<PathBuf, JvmError> {
    place_jar(folder, "frames", FRAMES_JAR)
}

/// Writes a jar that this program holds into a folder, unless it is there; its name has a hash of what it holds.
///
/// # Errors
/// If the folder cannot be written.
pub fn place_jar(folder: &Path, name: &str, jar: &[u8]) -> Result<PathBuf, JvmError> {
    let unwritable = |path: &Path| {
        let path = path.to_owned();
        move |source| JvmError::Unwritable { path, source }
    };
    let mut hasher = DefaultHasher::new();
    jar.hash(&mut hasher);
    let path = folder.join(format!("{name}-{:016x}.jar", hasher.finish()));
    if fs::read(&path).is_ok_and(|bytes| bytes == jar) {
        return Ok(path);
    }
    fs::create_dir_all(folder).map_err(unwritable(folder))?;
    // Renamed into place, so that another process never sees half a jar.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritable(folder))?;
    file.write_all(jar).map_err(unwritable(&path))?;
    file.persist(&path).map_err(|e| JvmError::Unwritable {
        path: path.clone(),
        source: e.error,
    })?;
    Ok(path)
}

impl Jvm {
    /// Binds the workload's natives and starts its threads. The jar of [`place_frames`] must be on the class path. The hooks of the first
    /// call stay for ever.
    ///
    /// # Errors
    /// If the class is not found or throws.
    pub fn start_workload(&self, workload: &Workload) -> Result<(), JvmError> {
        HOOKS.get_or_init(|| workload.hooks);
        let millis = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        let antagonist = workload
            .antagonist
            .map_or(0, |period| millis(period).max(1));
        let arguments = [
            JValue::Int(workload.threads),
            JValue::Long(workload.seed),
            JValue::Int(antagonist),
            JValue::Int(millis(workload.warm_up)),
        ];
        let started: unsafe extern "system" fn(*mut JNIEnv, jclass, jint) = thread_started;
        let turn: unsafe extern "system" fn(*mut JNIEnv, jclass, jint) -> jint = await_turn;
        let stopped: unsafe extern "system" fn(*mut JNIEnv, jclass, jint) = thread_stopped;
        self.with_env("starting the workload", |env| {
            let class = env.find_class(jni_str!("walkfuzz/frames/Frames"))?;
            // SAFETY: the functions have the types that these signatures prescribe for static natives.
            unsafe {
                let natives = [
                    NativeMethod::from_raw_parts(
                        jni_str!("threadStarted"),
                        jni_str!("(I)V"),
                        started as *mut _,
                    ),
                    NativeMethod::from_raw_parts(
                        jni_str!("awaitTurn"),
                        jni_str!("(I)I"),
                        turn as *mut _,
                    ),
                    NativeMethod::from_raw_parts(
                        jni_str!("threadStopped"),
                        jni_str!("(I)V"),
                        stopped as *mut _,
                    ),
                ];
                env.register_native_methods(&class, &natives)?;
            }
            env.call_static_method(&class, jni_str!("start"), jni_sig!("(IJII)V"), &arguments)?;
            Ok(())
        })
    }

    /// The names of the kinds of work that this JVM has, in the order in which `await_turn` counts them.
    ///
    /// # Errors
    /// If the class is not found or throws.
    pub fn workload_kinds(&self) -> Result<Vec<String>, JvmError> {
        let names = self.with_env("listing the workload's kinds", |env| {
            let class = env.find_class(jni_str!("walkfuzz/frames/Frames"))?;
            let names = env
                .call_static_method(
                    &class,
                    jni_str!("kinds"),
                    jni_sig!("()Ljava/lang/String;"),
                    &[],
                )?
                .l()?;
            let names = env.cast_local::<jni::objects::JString>(names)?;
            names.try_to_string(env)
        })?;
        Ok(names
            .split(',')
            .filter(|name| !name.starts_with('-'))
            .map(str::to_owned)
            .collect())
    }
}

unsafe extern "system" fn thread_started(env: *mut JNIEnv, _class: jclass, index: jint) {
    if let Some(hooks) = HOOKS.get() {
        (hooks.started)(env, index);
    }
}

unsafe extern "system" fn await_turn(_env: *mut JNIEnv, _class: jclass, index: jint) -> jint {
    HOOKS.get().map_or(-1, |hooks| (hooks.await_turn)(index))
}

unsafe extern "system" fn thread_stopped(_env: *mut JNIEnv, _class: jclass, index: jint) {
    if let Some(hooks) = HOOKS.get() {
        (hooks.stopped)(index);
    }
}
