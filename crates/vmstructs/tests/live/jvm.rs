//! A JVM in this process, through the raw invocation interface.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use jni::sys::{
    JNI_OK, JNI_VERSION_1_8, JNIEnv, JavaVM, JavaVMInitArgs, JavaVMOption, jclass, jint, jmethodID,
    jobject, jvalue,
};

/// `-Xmx`: enough for Epsilon, which never collects.
pub(crate) const HEAP_BYTES: u64 = 2 << 30;

pub(crate) struct Jvm {
    vm: *mut JavaVM,
    env: *mut JNIEnv,
    pub(crate) libjvm: PathBuf,
}

/// One attached thread's way into the JVM.
#[derive(Clone, Copy)]
pub(crate) struct Env(*mut JNIEnv);

type CreateJavaVm = unsafe extern "C" fn(*mut *mut JavaVM, *mut *mut c_void, *mut c_void) -> jint;

impl Jvm {
    pub(crate) fn start(home: &Path, chosen: String) -> Self {
        let libjvm = home.join("lib/server/libjvm.so");
        let options: Vec<CString> = [
            format!("-Xmx{HEAP_BYTES}"),
            "-XX:+UnlockExperimentalVMOptions".to_owned(),
            chosen,
            "-XX:-UsePerfData".to_owned(),
            // So that all tiers are met soon.
            "-XX:Tier4InvocationThreshold=1000".to_owned(),
            "-XX:Tier4MinInvocationThreshold=200".to_owned(),
            "-XX:Tier4CompileThreshold=2000".to_owned(),
        ]
        .into_iter()
        .map(|option| CString::new(option).unwrap())
        .collect();
        let mut options: Vec<JavaVMOption> = options
            .iter()
            .map(|option| JavaVMOption {
                optionString: option.as_ptr().cast_mut(),
                extraInfo: ptr::null_mut(),
            })
            .collect();
        let mut arguments = JavaVMInitArgs {
            version: JNI_VERSION_1_8,
            nOptions: options.len() as jint,
            options: options.as_mut_ptr(),
            ignoreUnrecognized: false,
        };
        let mut vm = ptr::null_mut();
        let mut env = ptr::null_mut();
        // SAFETY: the library stays loaded for ever; JNI_CreateJavaVM is called as the invocation interface says.
        let outcome = unsafe {
            let library = libloading::Library::new(&libjvm).expect("loading libjvm");
            let create: libloading::Symbol<'_, CreateJavaVm> =
                library.get(b"JNI_CreateJavaVM\0").unwrap();
            let outcome = create(&raw mut vm, &raw mut env, (&raw mut arguments).cast());
            std::mem::forget(library);
            outcome
        };
        assert_eq!(outcome, JNI_OK, "JNI_CreateJavaVM");
        Self {
            vm,
            env: env.cast(),
            libjvm,
        }
    }

    pub(crate) fn env(&self) -> Env {
        Env(self.env)
    }

    /// A way in for threads that attach themselves.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.vm)
    }
}

/// The JVM, for other threads.
#[derive(Clone, Copy)]
pub(crate) struct Handle(*mut JavaVM);

// SAFETY: a JavaVM pointer is valid in all threads.
unsafe impl Send for Handle {}

impl Handle {
    pub(crate) fn attach(self) -> Env {
        let mut env = ptr::null_mut();
        // SAFETY: the invocation interface of a live JVM.
        let outcome = unsafe {
            ((**self.0).v1_4.AttachCurrentThreadAsDaemon)(self.0, &raw mut env, ptr::null_mut())
        };
        assert_eq!(outcome, JNI_OK, "AttachCurrentThreadAsDaemon");
        Env(env.cast())
    }
}

impl Env {
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn class(self, name: &str) -> jclass {
        let text = CString::new(name).unwrap();
        // SAFETY: a valid environment of this thread, a C string.
        let class = unsafe { ((**self.0).v1_1.FindClass)(self.0, text.as_ptr()) };
        assert!(!class.is_null(), "class {name}");
        class
    }

    fn method(self, class: jclass, name: &str, signature: &str, is_static: bool) -> jmethodID {
        let (method, text) = (
            CString::new(name).unwrap(),
            CString::new(signature).unwrap(),
        );
        // SAFETY: a valid environment, class and C strings.
        let id = unsafe {
            let table = &(**self.0).v1_1;
            let find = if is_static {
                table.GetStaticMethodID
            } else {
                table.GetMethodID
            };
            find(self.0, class, method.as_ptr(), text.as_ptr())
        };
        assert!(!id.is_null(), "method {name}{signature}");
        id
    }

    pub(crate) fn call_static(
        self,
        class: &str,
        name: &str,
        signature: &str,
        arguments: &[jvalue],
    ) -> jobject {
        let class = self.class(class);
        let method = self.method(class, name, signature, true);
        // SAFETY: the arguments fit the signature: the callers write both side by side.
        let result = unsafe {
            ((**self.0).v1_1.CallStaticObjectMethodA)(self.0, class, method, arguments.as_ptr())
        };
        self.check();
        result
    }

    pub(crate) fn call(
        self,
        on: jobject,
        class: &str,
        name: &str,
        signature: &str,
        arguments: &[jvalue],
    ) -> jobject {
        let class = self.class(class);
        let method = self.method(class, name, signature, false);
        // SAFETY: as above, on an object of that class.
        let result =
            unsafe { ((**self.0).v1_1.CallObjectMethodA)(self.0, on, method, arguments.as_ptr()) };
        self.check();
        result
    }

    pub(crate) fn construct(self, class: &str, signature: &str, arguments: &[jvalue]) -> jobject {
        let class = self.class(class);
        let method = self.method(class, "<init>", signature, false);
        // SAFETY: as above.
        let result =
            unsafe { ((**self.0).v1_1.NewObjectA)(self.0, class, method, arguments.as_ptr()) };
        self.check();
        result
    }

    pub(crate) fn string(self, text: &str) -> jobject {
        let text = CString::new(text).unwrap();
        // SAFETY: a valid environment and a C string.
        unsafe { ((**self.0).v1_1.NewStringUTF)(self.0, text.as_ptr()) }
    }

    /// Runs `body` and drops the local references that it made.
    pub(crate) fn frame(self, body: impl FnOnce()) {
        // SAFETY: a valid environment; push and pop are paired.
        unsafe { ((**self.0).v1_2.PushLocalFrame)(self.0, 64) };
        body();
        // SAFETY: as above.
        unsafe { ((**self.0).v1_2.PopLocalFrame)(self.0, ptr::null_mut()) };
    }

    fn check(self) {
        // SAFETY: a valid environment.
        unsafe {
            if ((**self.0).v1_2.ExceptionCheck)(self.0) {
                ((**self.0).v1_1.ExceptionDescribe)(self.0);
                panic!("a Java exception");
            }
        }
    }
}

/// Ends this process at once.
pub(crate) fn exit(code: i32) -> ! {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    // SAFETY: ends the process; nothing is left to be cleaned up.
    unsafe { libc::_exit(code) }
}
