//! One JVMTI environment: what this crate and the agents need of it.
//!
//! Contract: not for signal handlers. Functions that take references want a thread that is attached to the JVM.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use jvmti_bindings::sys::jni::{JNIEnv, JavaVM, jclass, jmethodID, jobject, jthread};
use jvmti_bindings::sys::jvmti::{
    JVMTI_DISABLE, JVMTI_ENABLE, JVMTI_VERSION_11, jvmtiCapabilities, jvmtiEnv, jvmtiError,
    jvmtiEvent, jvmtiEventCallbacks, jvmtiInterface_1_,
};

use crate::JvmError;

/// A JVMTI environment. It lives as long as the JVM.
#[derive(Clone, Copy, Debug)]
pub struct Jvmti {
    raw: *mut jvmtiEnv,
}

// SAFETY: JVMTI environments may be used by any thread.
unsafe impl Send for Jvmti {}
// SAFETY: as above.
unsafe impl Sync for Jvmti {}

impl Jvmti {
    /// Makes a new environment of the JVM.
    ///
    /// # Errors
    /// The JVM offers none.
    ///
    /// # Safety
    /// `vm` is a JVM's, which has not ended.
    pub unsafe fn of(vm: *mut JavaVM) -> Result<Self, JvmError> {
        let mut raw: *mut jvmtiEnv = ptr::null_mut();
        // SAFETY: the caller's promise; GetEnv writes a JVMTI environment for a JVMTI version.
        let code = unsafe { ((**vm).GetEnv)(vm, ptr::from_mut(&mut raw).cast(), JVMTI_VERSION_11) };
        if code != 0 || raw.is_null() {
            return Err(JvmError::Jvmti {
                function: "GetEnv",
                code,
            });
        }
        Ok(Self { raw })
    }

    /// An environment that JVMTI passes to a callback.
    ///
    /// # Safety
    /// `raw` is a live environment.
    #[must_use]
    pub unsafe fn from_raw(raw: *mut jvmtiEnv) -> Self {
        Self { raw }
    }

    /// The environment as JVMTI's functions take it.
    #[must_use]
    pub fn raw(self) -> *mut jvmtiEnv {
        self.raw
    }

    /// Sets the functions that events call; each event still has to be [enabled](Self::enable).
    ///
    /// # Errors
    /// JVMTI refuses.
    ///
    /// # Safety
    /// The functions live for ever and may be called on any thread.
    pub unsafe fn set_callbacks(self, callbacks: &jvmtiEventCallbacks) -> Result<(), JvmError> {
        let size = size_of::<jvmtiEventCallbacks>() as i32;
        self.call("SetEventCallbacks", |f| {
            f.SetEventCallbacks
                // SAFETY: the caller's promise; JVMTI copies the table.
                .map(|f| unsafe { f(self.raw, callbacks, size) })
        })
    }

    /// Wants an event of all threads.
    ///
    /// # Errors
    /// JVMTI refuses.
    pub fn enable(self, event: jvmtiEvent) -> Result<(), JvmError> {
        self.set_mode(JVMTI_ENABLE, event)
    }

    /// Wants an event no more.
    ///
    /// # Errors
    /// JVMTI refuses.
    pub fn disable(self, event: jvmtiEvent) -> Result<(), JvmError> {
        self.set_mode(JVMTI_DISABLE, event)
    }

    fn set_mode(self, mode: u32, event: jvmtiEvent) -> Result<(), JvmError> {
        self.call("SetEventNotificationMode", |f| {
            f.SetEventNotificationMode
                // SAFETY: a live environment; a null thread means all threads.
                .map(|f| unsafe { f(self.raw, mode, event, ptr::null_mut()) })
        })
    }

    /// Wants to be told when objects that were [tagged](Self::tag) are gone.
    ///
    /// # Errors
    /// JVMTI refuses.
    pub fn allow_tags(self) -> Result<(), JvmError> {
        let mut capabilities = jvmtiCapabilities::default();
        capabilities.set_can_tag_objects(true);
        capabilities.set_can_generate_object_free_events(true);
        self.call("AddCapabilities", |f| {
            f.AddCapabilities
                // SAFETY: a live environment; JVMTI copies the capabilities.
                .map(|f| unsafe { f(self.raw, &capabilities) })
        })
    }

    /// Marks an object with a number, which is not 0.
    ///
    /// # Errors
    /// JVMTI refuses.
    ///
    /// # Safety
    /// `object` is a reference valid on this attached thread.
    pub unsafe fn tag(self, object: jobject, tag: i64) -> Result<(), JvmError> {
        self.call("SetTag", |f| {
            // SAFETY: the caller's promise.
            f.SetTag.map(|f| unsafe { f(self.raw, object, tag) })
        })
    }

    /// A system property of the JVM, such as `java.vm.version`.
    #[must_use]
    pub fn system_property(self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let mut value = ptr::null_mut();
        self.call("GetSystemProperty", |f| {
            f.GetSystemProperty
                // SAFETY: a live environment and a string.
                .map(|f| unsafe { f(self.raw, name.as_ptr(), &mut value) })
        })
        .ok()?;
        // SAFETY: JVMTI's string, used up here.
        Some(unsafe { self.text(value) })
    }

    /// Makes the ids of a class's methods and shows them. Classes that are not prepared yet have none; they come later.
    ///
    /// # Safety
    /// `class` is a reference valid on this attached thread.
    pub unsafe fn make_ids(self, class: jclass, visit: &mut dyn FnMut(&[jmethodID])) {
        let (mut count, mut methods): (i32, *mut jmethodID) = (0, ptr::null_mut());
        let made = self.call("GetClassMethods", |f| {
            f.GetClassMethods
                // SAFETY: the caller's promise.
                .map(|f| unsafe { f(self.raw, class, &mut count, &mut methods) })
        });
        if made.is_err() || methods.is_null() {
            return;
        }
        // SAFETY: JVMTI returned `count` ids, and allocated the array.
        unsafe {
            visit(std::slice::from_raw_parts(
                methods,
                usize::try_from(count).unwrap_or(0),
            ));
            self.deallocate(methods.cast());
        }
    }

    /// Makes the ids of all loaded classes.
    ///
    /// # Errors
    /// JVMTI refuses.
    ///
    /// # Safety
    /// `env` is that of the calling thread.
    pub unsafe fn make_all_ids(
        self,
        env: *mut JNIEnv,
        visit: &mut dyn FnMut(&[jmethodID]),
    ) -> Result<(), JvmError> {
        // SAFETY: the caller's promise.
        let none = unsafe {
            self.find_class(env, &mut |class| {
                self.make_ids(class, visit);
                false
            })
        };
        none.map(|_| ())
    }

    /// A reference to the first loaded class that is the one, on which the search ends.
    ///
    /// # Errors
    /// JVMTI refuses.
    ///
    /// # Safety
    /// `env` is that of the calling thread.
    pub unsafe fn find_class(
        self,
        env: *mut JNIEnv,
        is_it: &mut dyn FnMut(jclass) -> bool,
    ) -> Result<Option<jclass>, JvmError> {
        let (mut count, mut classes) = (0, ptr::null_mut());
        self.call("GetLoadedClasses", |f| {
            f.GetLoadedClasses
                // SAFETY: a live environment and an attached thread.
                .map(|f| unsafe { f(self.raw, &mut count, &mut classes) })
        })?;
        let mut found = None;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: JVMTI returned `count` local references; each is valid until it is deleted, which happens once.
            unsafe {
                let class = *classes.add(index);
                if found.is_none() && is_it(class) {
                    found = Some(class);
                } else {
                    ((**env).DeleteLocalRef)(env, class);
                }
            }
        }
        // SAFETY: JVMTI allocated the array.
        unsafe { self.deallocate(classes.cast()) };
        Ok(found)
    }

    /// Shows each live platform thread that JVMTI shows: not the JVM's own, no virtual ones.
    ///
    /// # Errors
    /// JVMTI refuses.
    ///
    /// # Safety
    /// `env` is that of the calling thread.
    pub unsafe fn each_thread(
        self,
        env: *mut JNIEnv,
        visit: &mut dyn FnMut(jthread),
    ) -> Result<(), JvmError> {
        let (mut count, mut threads) = (0, ptr::null_mut());
        self.call("GetAllThreads", |f| {
            f.GetAllThreads
                // SAFETY: a live environment and an attached thread.
                .map(|f| unsafe { f(self.raw, &mut count, &mut threads) })
        })?;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: JVMTI returned `count` local references; each is valid until it is deleted, which happens once.
            unsafe {
                let thread = *threads.add(index);
                visit(thread);
                ((**env).DeleteLocalRef)(env, thread);
            }
        }
        // SAFETY: JVMTI allocated the array.
        unsafe { self.deallocate(threads.cast()) };
        Ok(())
    }

    /// Calls a function of the table.
    pub(crate) fn call(
        self,
        function: &'static str,
        body: impl FnOnce(&jvmtiInterface_1_) -> Option<jvmtiError>,
    ) -> Result<(), JvmError> {
        // SAFETY: a live environment points to its function table, which lives as long as the JVM.
        match body(unsafe { &*(*self.raw).functions }) {
            Some(error) if error == jvmtiError::NONE => Ok(()),
            Some(error) => Err(JvmError::Jvmti {
                function,
                code: error.raw(),
            }),
            None => Err(JvmError::Jvmti { function, code: -1 }),
        }
    }

    /// # Safety
    /// `memory` comes from this environment and is not used afterwards.
    pub(crate) unsafe fn deallocate(self, memory: *mut u8) {
        // That it cannot be freed would only mean that it stays.
        let _ = self.call("Deallocate", |f| {
            // SAFETY: the caller's promise.
            f.Deallocate.map(|f| unsafe { f(self.raw, memory) })
        });
    }

    /// # Safety
    /// `string` is null or a string from this environment, and is not used afterwards.
    pub(crate) unsafe fn text(self, string: *mut c_char) -> String {
        if string.is_null() {
            return String::new();
        }
        // SAFETY: JVMTI's strings end with zero.
        let text = unsafe { CStr::from_ptr(string) }
            .to_string_lossy()
            .into_owned();
        // SAFETY: as required of the caller.
        unsafe { self.deallocate(string.cast()) };
        text
    }
}

/// The JVM's `JavaThread*` behind a `java.lang.Thread`, which keeps it in its field `eetop`; `None` if the thread has ended or has not begun.
///
/// # Safety
/// `env` is that of the calling thread, `thread` a reference to a platform thread that is valid on it.
#[must_use]
pub unsafe fn java_thread_of(env: *mut JNIEnv, thread: jthread) -> Option<u64> {
    // SAFETY: the caller's promise; the field has been there since Java 1.2.
    unsafe {
        let class = ((**env).GetObjectClass)(env, thread as jobject);
        // A subclass of Thread: the lookup goes up by itself.
        let field = ((**env).GetFieldID)(env, class, c"eetop".as_ptr(), c"J".as_ptr());
        ((**env).DeleteLocalRef)(env, class);
        if field.is_null() {
            ((**env).ExceptionClear)(env);
            return None;
        }
        let address = ((**env).GetLongField)(env, thread as jobject, field);
        (address != 0).then_some(address.cast_unsigned())
    }
}
