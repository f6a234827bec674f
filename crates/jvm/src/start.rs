//! Starting a JVM inside this process.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use jni::sys::{self, JNI_OK, JNI_VERSION_1_8};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

use crate::JvmError;
use crate::hooks;
use crate::jdk::Jdk;
use crate::jvmti::Jvmti;
use crate::methods::Methods;
use crate::options::JvmOptions;
use crate::predecessors;

/// The stack of the thread that creates the JVM, as large as the launcher's main thread usually has.
const STACK: usize = 8 << 20;

static STARTED: AtomicBool = AtomicBool::new(false);

/// The JVM that runs in this process. It ends with the process.
pub struct Jvm {
    jdk: Jdk,
    library: Library,
    vm: jni::JavaVM,
    methods: Methods,
    arguments: Vec<String>,
}

type CreateJavaVm = unsafe extern "system" fn(
    vm: *mut *mut sys::JavaVM,
    env: *mut *mut c_void,
    arguments: *mut c_void,
) -> sys::jint;

/// A raw JavaVM pointer on its way from the creating thread; JavaVM's functions may be called by any thread.
struct Created(*mut sys::JavaVM);

// SAFETY: the invocation API's JavaVM is valid in all threads of the process.
unsafe impl Send for Created {}

enum Outcome {
    Running(Created),
    Refused(c_int),
    /// The JVM wanted to end the process; its thread is parked for ever.
    Ended,
}

/// Starts the JVM, makes every method id known that a walker may meet, and keeps it so.
///
/// The JVM is created by a thread of its own, as the launcher does: the primordial thread's stack grows on demand, which
/// HotSpot's guard pages cannot live with. After a failure the process should end, because parts of the JVM remain.
///
/// Handlers of SIGSEGV, SIGBUS, SIGILL and SIGFPE that are in place are removed before: HotSpot would ask them instead of writing a crash
/// log. Install a guard afterwards.
///
/// # Errors
/// If libjvm cannot be loaded, the JVM refuses its options or cannot start, or a JVM was started before.
pub fn start(options: &JvmOptions) -> Result<Jvm, JvmError> {
    let arguments = options.arguments();
    let refused = |message: String| JvmError::Refused {
        home: options.jdk.home.clone(),
        options: arguments.join(" "),
        message,
    };
    let texts: Vec<CString> = arguments
        .iter()
        .map(|argument| CString::new(argument.as_str()))
        .collect::<Result<_, _>>()
        .map_err(|_| refused("an option contains a zero byte".to_owned()))?;
    if STARTED.swap(true, Ordering::SeqCst) {
        return Err(JvmError::AlreadyStarted);
    }
    let library = load(&options.jdk)?;
    // SAFETY: the invocation API gives this symbol this type.
    let create = unsafe { library.get::<CreateJavaVm>(b"JNI_CreateJavaVM\0") }
        .map_err(|e| load_error(&options.jdk.libjvm, &e))?;
    let create: CreateJavaVm = *create;

    predecessors::dismiss();
    let (ended, outcome) = mpsc::channel();
    let created = ended.clone();
    hooks::begin(move || {
        // The receiver is gone only if the start has ended otherwise.
        let _ = ended.send(Outcome::Ended);
    });
    let spawned = thread::Builder::new()
        .name("walkfuzz-jvm".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            let _ = created.send(create_here(create, &texts));
        });
    let outcome = match spawned {
        Ok(_) => outcome.recv().unwrap_or(Outcome::Ended),
        Err(e) => {
            hooks::end();
            return Err(refused(format!("no thread could be started for it: {e}")));
        }
    };
    let said = hooks::end();
    let vm = match outcome {
        Outcome::Running(Created(vm)) => vm,
        Outcome::Refused(code) if said.is_empty() => {
            return Err(refused(format!("JNI_CreateJavaVM returned {code}")));
        }
        // Java code of the JVM's start writes to standard error by itself.
        Outcome::Ended if said.is_empty() => {
            return Err(refused("its last words stand above".to_owned()));
        }
        Outcome::Refused(_) | Outcome::Ended => return Err(refused(said.replace('\n', "; "))),
    };
    if !said.is_empty() {
        eprintln!("{said}");
    }
    // SAFETY: JNI_CreateJavaVM has just returned it.
    let vm = unsafe { jni::JavaVM::from_raw(vm) };
    let methods = Methods::attach(&vm)?;
    Ok(Jvm {
        jdk: options.jdk.clone(),
        library,
        vm,
        methods,
        arguments,
    })
}

/// Loads libjvm, and those libraries of the JDK that others look up by bare name: under a sanitizer, dlopen is called on behalf of
/// the program, whose search path lacks the JDK's folder, while a library already loaded is found by its name.
fn load(jdk: &Jdk) -> Result<Library, JvmError> {
    // SAFETY: libjvm's initialisers run as in every Java launcher; it was checked when the JDK was found.
    let library = unsafe { Library::open(Some(&jdk.libjvm), RTLD_NOW | RTLD_GLOBAL) }
        .map_err(|e| load_error(&jdk.libjvm, &e))?;
    for name in ["libjava.so", "libjimage.so", "libzip.so"] {
        let path = jdk.home.join("lib").join(name);
        if path.is_file() {
            // SAFETY: the JVM itself would load the same library in a moment.
            let helper = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
            // Never unloaded: the JVM keeps pointers into it.
            std::mem::forget(helper.map_err(|e| load_error(&path, &e))?);
        }
    }
    Ok(library)
}

fn load_error(path: &Path, error: &libloading::Error) -> JvmError {
    JvmError::Load {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// Creates the JVM and detaches the thread from it.
fn create_here(create: CreateJavaVm, texts: &[CString]) -> Outcome {
    let hook = |name: &'static std::ffi::CStr, function: *mut c_void| sys::JavaVMOption {
        optionString: name.as_ptr().cast_mut(),
        extraInfo: function,
    };
    let vfprintf: unsafe extern "C" fn(*mut libc::FILE, *const c_char, *mut c_void) -> c_int =
        hooks::vfprintf;
    let abort: extern "C" fn() = hooks::abort;
    let exit: extern "C" fn(c_int) = hooks::exit;
    // The hooks come first, so that they are there when the JVM complains about what follows.
    let mut options = vec![
        hook(c"vfprintf", vfprintf as *mut c_void),
        hook(c"abort", abort as *mut c_void),
        hook(c"exit", exit as *mut c_void),
    ];
    options.extend(texts.iter().map(|text| sys::JavaVMOption {
        optionString: text.as_ptr().cast_mut(),
        extraInfo: ptr::null_mut(),
    }));
    let mut arguments = sys::JavaVMInitArgs {
        version: JNI_VERSION_1_8,
        nOptions: options.len() as sys::jint,
        options: options.as_mut_ptr(),
        ignoreUnrecognized: sys::JNI_FALSE,
    };
    let mut vm = ptr::null_mut();
    let mut env = ptr::null_mut();
    // SAFETY: the arguments and the strings they point to live until the call returns; the JVM copies what it keeps.
    let code = unsafe { create(&mut vm, &mut env, ptr::from_mut(&mut arguments).cast()) };
    if code != JNI_OK {
        return Outcome::Refused(code);
    }
    // SAFETY: the JVM has just been created, and this thread is attached and has no Java frames.
    unsafe { ((**vm).v1_1.DetachCurrentThread)(vm) };
    Outcome::Running(Created(vm))
}

impl Jvm {
    /// The JDK that it comes from.
    #[must_use]
    pub fn jdk(&self) -> &Jdk {
        &self.jdk
    }

    /// The options that it was started with.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The address of a function or variable that libjvm exports, such as AsyncGetCallTrace.
    #[must_use]
    pub fn exported(&self, name: &str) -> Option<*const c_void> {
        // SAFETY: the symbol's address is only read, whatever its type is.
        let symbol = unsafe { self.library.get::<*const c_void>(name.as_bytes()) }.ok()?;
        Some(symbol.as_raw_ptr().cast_const())
    }

    /// The JavaVM, for calls through JNI.
    #[must_use]
    pub fn java_vm(&self) -> &jni::JavaVM {
        &self.vm
    }

    /// A JVMTI environment of its own.
    #[must_use]
    pub fn jvmti(&self) -> Jvmti {
        self.methods.jvmti()
    }

    /// The methods that frames refer to.
    #[must_use]
    pub fn methods(&self) -> &Methods {
        &self.methods
    }

    /// Attaches the current thread as long as `body` runs.
    ///
    /// # Errors
    /// If the thread cannot be attached or `body` fails or leaves a Java exception; `what` says what was tried.
    pub fn with_env<T>(
        &self,
        what: &'static str,
        body: impl FnOnce(&mut jni::Env<'_>) -> Result<T, jni::errors::Error>,
    ) -> Result<T, JvmError> {
        self.vm
            .attach_current_thread_for_scope(body)
            .map_err(|e| java_error(what, &e))
    }
}

/// A JNI error with the exception's text, if there was one.
pub(crate) fn java_error(what: &'static str, error: &jni::errors::Error) -> JvmError {
    let reason = match error {
        jni::errors::Error::CaughtJavaException {
            name, msg, stack, ..
        } => format!("{name}: {msg}\n{stack}"),
        other => other.to_string(),
    };
    JvmError::Java { what, reason }
}
