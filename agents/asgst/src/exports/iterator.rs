//! The iterator generation's C names.

use std::ffi::{c_int, c_void};

use jvmti_bindings::sys::jni::{jclass, jmethodID};
use walkfuzz_asgst::abi::iterator::{
    Class, ClassInfo, ClassUnloadHandler, Frame, Iterator, IteratorHandler, LineNumberEntry,
    Method, MethodInfo,
};
use walkfuzz_asgst::{iterator, methods, unload};

/// See [`iterator::run_with_iterator`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_RunWithIterator(
    context: *mut c_void,
    options: i32,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterator::run_with_iterator(context, options, handler, argument) }
}

/// See [`iterator::run_with_iterator_from_frame`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_RunWithIteratorFromFrame(
    sp: *mut c_void,
    fp: *mut c_void,
    pc: *mut c_void,
    options: c_int,
    handler: Option<IteratorHandler>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterator::run_with_iterator_from_frame(sp, fp, pc, options, handler, argument) }
}

/// See [`iterator::rewind_iterator`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_RewindIterator(iterator: *mut Iterator) {
    // SAFETY: the caller's promise.
    unsafe { iterator::rewind_iterator(iterator) };
}

/// See [`iterator::next_frame`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_NextFrame(iterator: *mut Iterator, frame: *mut Frame) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterator::next_frame(iterator, frame) }
}

/// See [`iterator::state`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_State(iterator: *mut Iterator) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { iterator::state(iterator) }
}

/// See [`iterator::thread_state`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_ThreadState() -> c_int {
    iterator::thread_state()
}

/// See [`methods::method_to_jmethod_id`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_MethodToJMethodID(method: Method) -> jmethodID {
    methods::method_to_jmethod_id(method)
}

/// See [`methods::jmethod_id_to_method`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_JMethodIDToMethod(id: jmethodID) -> Method {
    methods::jmethod_id_to_method(id)
}

/// See [`methods::get_method_info`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetMethodInfo(method: Method, info: *mut MethodInfo) {
    // SAFETY: the caller's promise.
    unsafe { methods::get_method_info(method, info) };
}

/// See [`methods::get_method_id_num`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetMethodIdNum(method: Method) -> i32 {
    methods::get_method_id_num(method)
}

/// See [`methods::get_method_line_number_table`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetMethodLineNumberTable(
    method: Method,
    entries: *mut LineNumberEntry,
    length: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { methods::get_method_line_number_table(method, entries, length) }
}

/// See [`methods::get_method_line_number`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetMethodLineNumber(method: Method, bci: i32) -> i32 {
    methods::get_method_line_number(method, bci)
}

/// See [`methods::get_class_info`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn ASGST_GetClassInfo(class: Class, info: *mut ClassInfo) {
    // SAFETY: the caller's promise.
    unsafe { methods::get_class_info(class, info) };
}

/// See [`methods::get_class_id_num`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetClassIdNum(class: Class) -> i64 {
    methods::get_class_id_num(class)
}

/// See [`methods::get_class`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_GetClass(method: Method) -> Class {
    methods::get_class(method)
}

/// See [`methods::jclass_to_class`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_JClassToClass(class: jclass) -> Class {
    methods::jclass_to_class(class)
}

/// See [`methods::class_to_jclass`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_ClassToJClass(class: Class) -> jclass {
    methods::class_to_jclass(class)
}

/// See [`unload::register_class_unload_handler`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_RegisterClassUnloadHandler(
    handler: Option<ClassUnloadHandler>,
    argument: *mut c_void,
) {
    unload::register_class_unload_handler(handler, argument);
}

/// See [`unload::deregister_class_unload_handler`].
#[unsafe(no_mangle)]
extern "C" fn ASGST_DeregisterClassUnloadHandler(
    handler: Option<ClassUnloadHandler>,
    argument: *mut c_void,
) -> bool {
    unload::deregister_class_unload_handler(handler, argument)
}
