//! The stacks of Java threads as JVMTI gives them: the JVM's own answer, made where the thread can be asked for it.
//!
//! Contract: not for signal handlers. JVMTI waits until the asked thread stands at a safepoint or in native code: nobody may be held meanwhile.

use jvmti_bindings::sys::jni::{JNIEnv, jthread};
use jvmti_bindings::sys::jvmti::jvmtiFrameInfo;

use crate::JvmError;
use crate::jvmti::{Jvmti, java_thread_of};
use crate::methods::MethodId;
use crate::start::Jvm;

/// A frame of a stack that JVMTI gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// Its method.
    pub method: MethodId,
    /// The bytecode; -1 for native methods.
    pub location: i64,
}

/// A live platform thread that can be asked for its stack.
#[derive(Debug)]
pub struct PlatformThread {
    jvmti: Jvmti,
    thread: jthread,
    java_thread: u64,
}

impl PlatformThread {
    /// Address of its `JavaThread`.
    #[must_use]
    pub fn java_thread(&self) -> u64 {
        self.java_thread
    }

    /// Its innermost frames, at most `depth`.
    ///
    /// # Errors
    /// JVMTI refuses: the thread has ended, say.
    pub fn stack(&self, depth: u16) -> Result<Vec<StackFrame>, JvmError> {
        // SAFETY: all-zero is a frame without a method.
        let nothing: jvmtiFrameInfo = unsafe { std::mem::zeroed() };
        let mut frames = vec![nothing; usize::from(depth)];
        let mut count = 0;
        self.jvmti.call("GetStackTrace", |f| {
            f.GetStackTrace.map(|f| {
                let room = frames.as_mut_ptr();
                // SAFETY: a live environment and a valid reference on this attached thread; there is room for `depth` frames.
                unsafe {
                    f(
                        self.jvmti.raw(),
                        self.thread,
                        0,
                        i32::from(depth),
                        room,
                        &mut count,
                    )
                }
            })
        })?;
        let given = frames.iter().take(usize::try_from(count).unwrap_or(0));
        Ok(given
            .map(|frame| StackFrame {
                method: MethodId(frame.method as usize),
                location: frame.location,
            })
            .collect())
    }
}

impl Jvm {
    /// Shows each live platform thread that JVMTI shows, the calling one among them if it is attached.
    ///
    /// # Errors
    /// JVMTI refuses, or the calling thread cannot be attached.
    pub fn each_platform_thread(
        &self,
        visit: &mut dyn FnMut(&PlatformThread),
    ) -> Result<(), JvmError> {
        let jvmti = self.methods().jvmti();
        let mut shown = Ok(());
        self.with_env("asking for threads", |env| {
            let env: *mut JNIEnv = env.get_raw().cast();
            // SAFETY: this thread's environment.
            shown = unsafe {
                jvmti.each_thread(env, &mut |thread| {
                    // SAFETY: a reference that is valid while it is shown.
                    if let Some(java_thread) = java_thread_of(env, thread) {
                        visit(&PlatformThread {
                            jvmti,
                            thread,
                            java_thread,
                        });
                    }
                })
            };
            Ok(())
        })?;
        shown
    }
}
