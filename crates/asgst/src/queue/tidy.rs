//! What a handler must not leave behind.
//!
//! A handler that calls JNI, which it must not, leaves its thread in the state of native code, in which the JVM would collect garbage under its feet, and
//! perhaps an exception that nobody threw. Both are put back.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

use walkfuzz_context::Address;
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Memory as _;

use crate::Vm;

/// How a thread was before handlers were called.
pub(super) struct Tidy {
    state: Option<(u64, i32)>,
    exception: Option<(u64, u64)>,
}

impl Tidy {
    /// How the calling thread is.
    pub(super) fn of(vm: &Vm, java_thread: Address) -> Self {
        let tables = vm.hotspot.tables();
        let at = |types: [&str; 3], name| {
            let field = types.iter().find_map(|of| tables.field(of, name))?;
            Some(java_thread.0.wrapping_add(field.offset))
        };
        let types = ["JavaThread", "ThreadShadow", "Thread"];
        let state = at(types, "_thread_state");
        let exception = at(types, "_pending_exception");
        let read = |at| Some((at, CheckedMemory.read_i32(Address(at)).ok()?));
        let word = |at| Some((at, CheckedMemory.read_u64(Address(at)).ok()?));
        Self {
            state: state.and_then(read),
            exception: exception.and_then(word),
        }
    }

    /// Makes it so again.
    pub(super) fn up(&self) {
        // SAFETY: fields of the calling thread, which it alone writes while it runs.
        unsafe {
            if let Some((at, state)) = self.state {
                let place = AtomicI32::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize));
                if place.load(Acquire) != state {
                    place.store(state, SeqCst);
                }
            }
            if let Some((at, exception)) = self.exception {
                let place = AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize));
                if place.load(Acquire) != exception {
                    place.store(exception, SeqCst);
                }
            }
        }
    }
}
