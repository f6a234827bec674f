//! The iterator generation's functions.

use std::ffi::{c_int, c_void};

use jvmti_bindings::sys::jni::{jclass, jmethodID};

use super::table::function_table;
use crate::abi::iterator::{
    Class, ClassInfo, ClassUnloadHandler, Frame, Iterator, IteratorHandler, LineNumberEntry,
    Method, MethodInfo,
};
use crate::{iterator, methods, unload};

function_table! {
    /// Iterators, methods, classes. Each is as `include/asgst_iterator.h` says.
    IteratorApi {
        /// From a context.
        run_with_iterator = "RunWithIterator":
            (*mut c_void, i32, Option<IteratorHandler>, *mut c_void) -> c_int;
        /// From sp, fp and pc.
        run_with_iterator_from_frame = "RunWithIteratorFromFrame":
            (*mut c_void, *mut c_void, *mut c_void, c_int, Option<IteratorHandler>, *mut c_void) -> c_int;
        /// Back to the first frame.
        rewind_iterator = "RewindIterator": (*mut Iterator);
        /// The next frame.
        next_frame = "NextFrame": (*mut Iterator, *mut Frame) -> c_int;
        /// What the last NextFrame came to.
        state = "State": (*mut Iterator) -> c_int;
        /// The calling thread's state.
        thread_state = "ThreadState": () -> c_int;
        /// A method's `jmethodID`.
        method_to_jmethod_id = "MethodToJMethodID": (Method) -> jmethodID;
        /// The method of a `jmethodID`.
        jmethod_id_to_method = "JMethodIDToMethod": (jmethodID) -> Method;
        /// What a method is.
        get_method_info = "GetMethodInfo": (Method, *mut MethodInfo);
        /// A method's number.
        get_method_id_num = "GetMethodIdNum": (Method) -> i32;
        /// A method's lines.
        get_method_line_number_table = "GetMethodLineNumberTable":
            (Method, *mut LineNumberEntry, c_int) -> c_int;
        /// The line of a bytecode.
        get_method_line_number = "GetMethodLineNumber": (Method, i32) -> i32;
        /// What a class is.
        get_class_info = "GetClassInfo": (Class, *mut ClassInfo);
        /// A class's number.
        get_class_id_num = "GetClassIdNum": (Class) -> i64;
        /// A method's class.
        get_class = "GetClass": (Method) -> Class;
        /// A mirror's class.
        jclass_to_class = "JClassToClass": (jclass) -> Class;
        /// A class's mirror.
        class_to_jclass = "ClassToJClass": (Class) -> jclass;
        /// Wants to know of unloading.
        register_class_unload_handler = "RegisterClassUnloadHandler":
            (Option<ClassUnloadHandler>, *mut c_void);
        /// Wants so no more.
        deregister_class_unload_handler = "DeregisterClassUnloadHandler":
            (Option<ClassUnloadHandler>, *mut c_void) -> bool;
    }
}

impl IteratorApi {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self {
            run_with_iterator: iterator::run_with_iterator,
            run_with_iterator_from_frame: iterator::run_with_iterator_from_frame,
            rewind_iterator: iterator::rewind_iterator,
            next_frame: iterator::next_frame,
            state: iterator::state,
            thread_state: iterator::thread_state,
            method_to_jmethod_id: methods::method_to_jmethod_id,
            jmethod_id_to_method: methods::jmethod_id_to_method,
            get_method_info: methods::get_method_info,
            get_method_id_num: methods::get_method_id_num,
            get_method_line_number_table: methods::get_method_line_number_table,
            get_method_line_number: methods::get_method_line_number,
            get_class_info: methods::get_class_info,
            get_class_id_num: methods::get_class_id_num,
            get_class: methods::get_class,
            jclass_to_class: methods::jclass_to_class,
            class_to_jclass: methods::class_to_jclass,
            register_class_unload_handler: unload::register_class_unload_handler,
            deregister_class_unload_handler: unload::deregister_class_unload_handler,
        }
    }
}
