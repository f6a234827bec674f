//! Handlers that are told of classes that were unloaded.
//!
//! A stock JVM says neither beforehand nor by its handle that a class goes. So while there is a handler, each class is tagged with a copy of what it and its methods are
//! called, and JVMTI's ObjectFree event of its mirror stands for its unloading. The event may come in a collection's pause, where nothing is allowed; so a thread of ours
//! calls the handlers, a little later. Within the call the copy answers for the handles (`crate::methods`).
//!
//! Contract: not for signal handlers, but for `mourned_method` and `mourned_class`.

mod copy;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use jvmti_bindings::sys::jni::{JNIEnv, jclass, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_OBJECT_FREE, jvmtiEnv, jvmtiEventCallbacks,
};
use walkfuzz_jvm::{JvmError, Jvmti};

use crate::abi::iterator::{Class, ClassUnloadHandler, Method};
use crate::methods::{Description, Symbol};
use crate::vm::Vm;

use copy::{ClassCopy, Copies};

/// Who wants to be told; the argument as a number.
static HANDLERS: Mutex<Vec<(ClassUnloadHandler, usize)>> = Mutex::new(Vec::new());
static COPIES: Mutex<Copies> = Mutex::new(Copies::new());
/// Where the event leaves the tags of what is gone. Set once everything is watched.
static GONE: OnceLock<Sender<i64>> = OnceLock::new();
/// The thread that calls handlers, and whose class it is telling of.
static TELLER: AtomicUsize = AtomicUsize::new(0);
static MOURNED: AtomicPtr<ClassCopy> = AtomicPtr::new(ptr::null_mut());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ASGST_RegisterClassUnloadHandler`. Where the JVM does not allow it nobody is ever told.
pub extern "C" fn register_class_unload_handler(
    handler: Option<ClassUnloadHandler>,
    argument: *mut c_void,
) {
    let (Some(handler), Some(vm)) = (handler, Vm::get()) else {
        return;
    };
    let mut handlers = lock(&HANDLERS);
    handlers.push((handler, argument as usize));
    if GONE.get().is_none() {
        // A JVM without the capability: the handler stays, and Deregister finds it.
        let _ = watch(vm);
    }
}

/// `ASGST_DeregisterClassUnloadHandler`.
pub extern "C" fn deregister_class_unload_handler(
    handler: Option<ClassUnloadHandler>,
    argument: *mut c_void,
) -> bool {
    let mut handlers = lock(&HANDLERS);
    let is_it = |known: &(ClassUnloadHandler, usize)| {
        handler.is_some_and(|handler| ptr::fn_addr_eq(known.0, handler))
            && known.1 == argument as usize
    };
    let found = handlers.iter().position(is_it);
    found.map(|at| handlers.remove(at)).is_some()
}

/// Begins to copy and to tag.
fn watch(vm: &'static Vm) -> Result<(), JvmError> {
    let jvmti = vm.new_jvmti()?;
    jvmti.allow_tags()?;
    let mut callbacks = jvmtiEventCallbacks::default();
    callbacks.ObjectFree = Some(object_free);
    callbacks.ClassPrepare = Some(class_prepare);
    // SAFETY: functions of this library, which stays loaded.
    unsafe { jvmti.set_callbacks(&callbacks)? };
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("asgst-unload".to_owned());
    // Without a thread nobody is told.
    let _ = thread.spawn(move || tell(&receiver));
    let _ = GONE.set(sender);
    jvmti.enable(JVMTI_EVENT_OBJECT_FREE)?;
    jvmti.enable(JVMTI_EVENT_CLASS_PREPARE)?;
    let Some(env) = vm.own_env() else {
        return Ok(());
    };
    // SAFETY: the calling thread's.
    let all = unsafe {
        jvmti.find_class(env, &mut |class| {
            keep(jvmti, class);
            false
        })
    };
    all.map(|_| ())
}

/// Copies a class and tags its mirror. One that is copied twice is told of once: the second tag takes the place of the first.
fn keep(jvmti: Jvmti, class: jclass) {
    let copy = ClassCopy::of(jvmti, class);
    if let Some(copy) = copy {
        let tag = lock(&COPIES).add(copy);
        // SAFETY: the caller's reference.
        let tagged = unsafe { jvmti.tag(class, tag) };
        if tagged.is_err() {
            lock(&COPIES).take(tag);
        }
    }
}

unsafe extern "system" fn class_prepare(
    jvmti: *mut jvmtiEnv,
    _: *mut JNIEnv,
    _: jthread,
    class: jclass,
) {
    // SAFETY: JVMTI calls this on an attached thread with its own environment and a valid reference.
    keep(unsafe { Jvmti::from_raw(jvmti) }, class);
}

/// In a pause, perhaps: takes no lock that a stopped thread could hold.
unsafe extern "system" fn object_free(_: *mut jvmtiEnv, tag: i64) {
    if let Some(gone) = GONE.get() {
        // The receiver lives as long as the process.
        let _ = gone.send(tag);
    }
}

/// The thread that calls the handlers.
fn tell(gone: &Receiver<i64>) {
    // SAFETY: no arguments.
    TELLER.store(unsafe { libc::pthread_self() } as usize, Release);
    while let Ok(tag) = gone.recv() {
        let Some(mut copy) = lock(&COPIES).take(tag) else {
            continue;
        };
        let handlers = lock(&HANDLERS).clone();
        let mut methods: Vec<Method> = copy.handles().collect();
        let class = copy.class;
        MOURNED.store(&raw mut *copy, Release);
        for (handler, argument) in handlers {
            let count = methods.len() as c_int;
            // SAFETY: a handler that was registered, with its own argument; the methods are the call's.
            unsafe {
                handler(
                    class,
                    methods.as_mut_ptr(),
                    count,
                    false,
                    argument as *mut c_void,
                );
            }
        }
        MOURNED.store(ptr::null_mut(), Release);
    }
}

/// The class that the calling thread is told of, if it is.
fn mourned() -> Option<&'static ClassCopy> {
    let copy = MOURNED.load(Acquire);
    // SAFETY: no arguments.
    if copy.is_null() || TELLER.load(Acquire) != unsafe { libc::pthread_self() } as usize {
        return None;
    }
    // SAFETY: on the thread that owns it, within the handler's call.
    Some(unsafe { &*copy })
}

/// What the method was called, within a handler that is told of its class. Signal-safe.
pub(crate) fn mourned_method(method: Method) -> Option<Description> {
    mourned()?.method(method)
}

/// What the class was called, within a handler that is told of it. Signal-safe.
pub(crate) fn mourned_class(class: Class) -> Option<(Symbol, Option<Symbol>, i32)> {
    mourned()?.class_if(class)
}
