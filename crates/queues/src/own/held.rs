//! A JVM in this process whose threads are held in Java code, where ASGST's functions are called on them as in a signal handler.

use std::ffi::c_void;

use walkfuzz_asgst::Api;
use walkfuzz_context::{LandscapeTable, Registers};
use walkfuzz_engine::{Engine, Moment, Request};
use walkfuzz_guard::write_registers;
use walkfuzz_harness::start::{Subject, jvm_options, start};
use walkfuzz_harness::{HarnessError, Settings, asgst};

use crate::error::QueueError;

/// Moments after which the code cache is looked at anew.
const REFRESH: u64 = 512;

/// See the module.
pub struct Held {
    subject: Subject,
    /// The implementation: the JVM's own where it exports one.
    pub api: Api,
    /// Whether it is walkfuzz's.
    pub is_own: bool,
    context: Box<libc::ucontext_t>,
    moments: u64,
}

/// A thread that stands still.
pub struct Standing<'a> {
    /// Its `JNIEnv`.
    pub env: *mut c_void,
    /// Its `JavaThread`.
    pub java_thread: u64,
    /// Its registers.
    pub registers: Registers,
    /// Its context.
    pub context: *mut c_void,
    /// What value classes resolve to.
    pub landscape: &'a LandscapeTable,
}

impl Held {
    /// Starts the JVM that the environment names. Its crash logs go where the settings' runs do.
    ///
    /// # Errors
    /// What this machine or this JVM lacks.
    pub fn start(settings: &Settings) -> Result<Self, QueueError> {
        std::fs::create_dir_all(&settings.runs).map_err(|source| QueueError::File {
            path: settings.runs.clone(),
            source,
        })?;
        let subject = start(settings, jvm_options()?, &settings.runs)?;
        let jvm = &subject.jvm;
        // SAFETY: what a libjvm exports under ASGST's names has ASGST's types.
        let of_jvm = unsafe { Api::of_library(&|name| jvm.exported(name)) };
        let is_own = of_jvm.queue.is_none() || of_jvm.iterator.is_none();
        if is_own {
            prepare(&subject)?;
        }
        Ok(Self {
            api: if is_own { Api::own() } else { of_jvm },
            is_own,
            subject,
            // SAFETY: all-zero is a valid ucontext_t.
            context: Box::new(unsafe { std::mem::zeroed() }),
            moments: 0,
        })
    }

    /// Lets the thread go and holds it again, at another moment; or, not `fresh`, shows it where it stands.
    ///
    /// # Errors
    /// It could not be held.
    pub fn hold(
        &mut self,
        fresh: bool,
        work: &mut dyn FnMut(&Standing<'_>),
    ) -> Result<(), QueueError> {
        self.moments += u64::from(fresh);
        if fresh && self.moments.is_multiple_of(REFRESH) {
            self.subject.world.refresh(self.moments);
        }
        let Self {
            subject, context, ..
        } = self;
        let landscape = &subject.world.landscape;
        let request = Request {
            worker: Some(0),
            fresh,
            ..Request::fresh()
        };
        let mut show = |moment: &mut Moment| {
            let context: *mut libc::ucontext_t = &raw mut **context;
            // SAFETY: ours.
            unsafe { write_registers(context, &moment.untouched) };
            work(&Standing {
                env: moment.thread.env,
                java_thread: moment.java_thread,
                registers: moment.untouched,
                context: context.cast(),
                landscape,
            });
        };
        let visited = subject.live.visit(&request, &mut show);
        visited.map_err(|error| QueueError::Harness(HarnessError::from(error)))
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// Makes the JVM known to walkfuzz's own functions.
fn prepare(subject: &Subject) -> Result<(), QueueError> {
    let vm = asgst::publish(&subject.world, &subject.jvm)?;
    Ok(asgst::prepare_queues(&subject.world, vm)?)
}
