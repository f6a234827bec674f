//! Method ids: AsyncGetCallTrace hands out only ids that already exist, so each class's ids are made when it is prepared.
//!
//! The walker also answers -1 for everything unless some JVMTI environment listens to class loading, therefore the ClassLoad event is
//! enabled although there is nothing to do in it.

use std::collections::HashSet;
use std::fmt;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM, jclass, jmethodID, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_THREAD_END,
    JVMTI_EVENT_THREAD_START, jvmtiEnv, jvmtiEventCallbacks,
};

use crate::JvmError;
use crate::jvmti::Jvmti;
use crate::start::java_error;

/// A jmethodID as a walker writes it into a frame. It may be garbage until [`Methods::name`] has looked at it.
///
/// It can be 0 in a good walk. Seen with 21.0.4 in 17 of 338,164 walks, in 12 of 120 runs of 0.9 s, in and around classes of the JDK that
/// were just being used for the first time, and in none of 79,492 walks of one run of 15 s. The likely reason, not proven: ids are
/// made in the ClassPrepare event, and another thread may run the class's methods before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(pub usize);

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Functions that are called on each Java thread as it begins and ends, whoever started it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadHooks {
    /// On the new thread, before it runs Java code.
    pub started: extern "C" fn(env: *mut jni::sys::JNIEnv),
    /// On the ending thread.
    pub ended: extern "C" fn(env: *mut jni::sys::JNIEnv),
}

/// Every id that the JVM gave out. Looking at any other address as if it were an id crashes HotSpot.
static KNOWN: Mutex<Option<HashSet<usize>>> = Mutex::new(None);
static THREAD_HOOKS: OnceLock<ThreadHooks> = OnceLock::new();

/// The methods of a running JVM.
pub struct Methods {
    jvmti: Jvmti,
    vm: jni::JavaVM,
}

impl Methods {
    pub(crate) fn jvmti(&self) -> Jvmti {
        self.jvmti
    }

    /// Listens to class loading and makes the ids of all classes that exist already.
    pub(crate) fn attach(vm: &jni::JavaVM) -> Result<Methods, JvmError> {
        vm.attach_current_thread_for_scope(|_| {
            Ok::<_, jni::errors::Error>(Methods::attach_here(vm))
        })
        .map_err(|e| java_error("attaching to the new JVM", &e))?
    }

    fn attach_here(vm: &jni::JavaVM) -> Result<Methods, JvmError> {
        let raw: *mut JavaVM = vm.get_raw().cast();
        // SAFETY: the JVM runs.
        let jvmti = unsafe { Jvmti::of(raw)? };
        let methods = Methods {
            jvmti,
            vm: vm.clone(),
        };
        let mut callbacks = jvmtiEventCallbacks::default();
        callbacks.ClassLoad = Some(class_load);
        callbacks.ClassPrepare = Some(class_prepare);
        callbacks.ThreadStart = Some(thread_start);
        callbacks.ThreadEnd = Some(thread_end);
        // SAFETY: functions of this program, made for any thread.
        unsafe { jvmti.set_callbacks(&callbacks)? };
        // Listen first, then prime: a class prepared in between is seen twice rather than never.
        jvmti.enable(JVMTI_EVENT_CLASS_LOAD)?;
        jvmti.enable(JVMTI_EVENT_CLASS_PREPARE)?;
        // SAFETY: this thread's.
        unsafe { jvmti.make_all_ids(methods.env()?, &mut learn)? };
        Ok(methods)
    }

    fn env(&self) -> Result<*mut JNIEnv, JvmError> {
        let raw: *mut JavaVM = self.vm.get_raw().cast();
        let mut env: *mut JNIEnv = ptr::null_mut();
        // SAFETY: the JVM runs; GetEnv writes the JNI environment of an attached thread.
        let code = unsafe {
            ((**raw).GetEnv)(
                raw,
                ptr::from_mut(&mut env).cast(),
                jni::sys::JNI_VERSION_1_8,
            )
        };
        if code == 0 {
            Ok(env)
        } else {
            Err(JvmError::Jvmti {
                function: "GetEnv",
                code,
            })
        }
    }

    /// How many ids the JVM gave out.
    #[must_use]
    pub fn count(&self) -> usize {
        known(|ids| ids.len())
    }

    /// Whether the JVM ever gave out this id.
    #[must_use]
    pub fn is_known(&self, id: MethodId) -> bool {
        known(|ids| ids.contains(&id.0))
    }

    /// Calls functions on each Java thread that begins or ends from now on. The first call wins.
    ///
    /// # Errors
    /// If JVMTI refuses the events.
    pub fn watch_threads(&self, hooks: ThreadHooks) -> Result<(), JvmError> {
        if THREAD_HOOKS.set(hooks).is_err() {
            return Ok(());
        }
        self.attached("watching threads", || {
            self.jvmti.enable(JVMTI_EVENT_THREAD_START)?;
            self.jvmti.enable(JVMTI_EVENT_THREAD_END)
        })
    }

    /// A method's name, such as `java.lang.String.indexOf(II)I`.
    ///
    /// # Errors
    /// If the JVM never gave out this id, or the method's class has been unloaded.
    pub fn name(&self, id: MethodId) -> Result<String, JvmError> {
        if !self.is_known(id) {
            return Err(JvmError::UnknownMethod(id.0));
        }
        self.attached("naming a method", || self.name_here(id))
    }

    /// Runs `body` while the current thread is attached, which JVMTI's functions demand.
    fn attached<T>(
        &self,
        what: &'static str,
        body: impl FnOnce() -> Result<T, JvmError>,
    ) -> Result<T, JvmError> {
        let attached = self
            .vm
            .attach_current_thread_for_scope(|_| Ok::<_, jni::errors::Error>(body()));
        attached.map_err(|e| java_error(what, &e))?
    }

    fn name_here(&self, id: MethodId) -> Result<String, JvmError> {
        let (jvmti, raw) = (self.jvmti, self.jvmti.raw());
        let method = id.0 as jmethodID;
        let (mut name, mut signature, mut class_name) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut class: jclass = ptr::null_mut();
        // SAFETY: the id is known, so it is valid or, after unloading, refused by JVMTI; null pointers mean "not wanted".
        unsafe {
            jvmti.call("GetMethodDeclaringClass", |f| {
                f.GetMethodDeclaringClass
                    .map(|f| f(raw, method, &mut class))
            })?;
            jvmti.call("GetClassSignature", |f| {
                f.GetClassSignature
                    .map(|f| f(raw, class, &mut class_name, ptr::null_mut()))
            })?;
            let class_name = jvmti.text(class_name);
            jvmti.call("GetMethodName", |f| {
                f.GetMethodName
                    .map(|f| f(raw, method, &mut name, &mut signature, ptr::null_mut()))
            })?;
            let class_name = class_name
                .trim_start_matches('L')
                .trim_end_matches(';')
                .replace('/', ".");
            Ok(format!(
                "{class_name}.{}{}",
                jvmti.text(name),
                jvmti.text(signature)
            ))
        }
    }
}

fn known<T>(body: impl FnOnce(&mut HashSet<usize>) -> T) -> T {
    body(
        KNOWN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default(),
    )
}

/// Remembers ids.
fn learn(ids: &[jmethodID]) {
    known(|known| known.extend(ids.iter().map(|id| *id as usize)));
}

unsafe extern "system" fn class_load(
    _jvmti: *mut jvmtiEnv,
    _env: *mut JNIEnv,
    _thread: jthread,
    _class: jclass,
) {
}

unsafe extern "system" fn class_prepare(
    jvmti: *mut jvmtiEnv,
    _env: *mut JNIEnv,
    _thread: jthread,
    class: jclass,
) {
    // SAFETY: JVMTI calls this on an attached thread with its own environment and a valid reference.
    unsafe { Jvmti::from_raw(jvmti).make_ids(class, &mut learn) };
}

unsafe extern "system" fn thread_start(_jvmti: *mut jvmtiEnv, env: *mut JNIEnv, _thread: jthread) {
    if let Some(hooks) = THREAD_HOOKS.get() {
        (hooks.started)(env.cast());
    }
}

unsafe extern "system" fn thread_end(_jvmti: *mut jvmtiEnv, env: *mut JNIEnv, _thread: jthread) {
    if let Some(hooks) = THREAD_HOOKS.get() {
        (hooks.ended)(env.cast());
    }
}
