//! What methods and classes are: names, numbers, lines.
//!
//! Contract: signal-safe, but for what says otherwise. Whatever handle is passed, nothing faults: all memory of the JVM's is read by the guard's checked load. A handle whose
//! method was unloaded and whose memory was given to something else may get answers about that.

mod lines;
mod tables;
mod text;

use std::ffi::c_int;

use jvmti_bindings::sys::jni::{jclass, jmethodID};
use walkfuzz_context::Address;
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Memory as _;

use crate::abi::iterator::{Class, ClassInfo, LineNumberEntry, Method, MethodInfo};
use crate::unload;
use crate::vm::Vm;

use tables::MethodAt;
pub(crate) use tables::{MethodTables, Symbol};

/// The tag in a JNI reference's lowest bits says what kind it is (jniHandles.hpp).
const REFERENCE_TAG: u64 = 7;

/// What a method is called.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Description {
    pub(crate) class: Class,
    pub(crate) name: Option<Symbol>,
    pub(crate) signature: Option<Symbol>,
    pub(crate) generic: Option<Symbol>,
    pub(crate) modifiers: i32,
    pub(crate) number: i32,
}

/// What a method is called, dead or alive.
pub(crate) fn describe(method: Method) -> Option<Description> {
    unload::mourned_method(method).or_else(|| {
        let (vm, found) = of(method)?;
        Some(Description {
            class: Class(found.class.0 as usize),
            name: vm.methods.name(&found),
            signature: vm.methods.signature(&found),
            generic: vm.methods.generic_signature(&found),
            modifiers: i32::from(found.flags),
            number: vm.methods.id_number(&found).map_or(-1, i32::from),
        })
    })
}

/// What a class is called: its name, its generic signature, its flags.
pub(crate) fn describe_class(class: Class) -> Option<(Symbol, Option<Symbol>, i32)> {
    unload::mourned_class(class).or_else(|| {
        let (vm, at) = class_at(class)?;
        let flags = vm.methods.class_flags(at).map_or(-1, i32::from);
        let generic = vm.methods.class_generic_signature(at);
        Some((vm.methods.class_name(at)?, generic, flags))
    })
}

fn of(method: Method) -> Option<(&'static Vm, MethodAt)> {
    let vm = Vm::get()?;
    Some((vm, vm.methods.method(Address(method.0 as u64))?))
}

fn class_at(class: Class) -> Option<(&'static Vm, Address)> {
    let (vm, at) = (Vm::get()?, Address(class.0 as u64));
    vm.methods.class_name(at).map(|_| (vm, at))
}

/// `ASGST_MethodToJMethodID`.
pub extern "C" fn method_to_jmethod_id(method: Method) -> jmethodID {
    let at = Address(method.0 as u64);
    let id = Vm::get().and_then(|vm| vm.reference.id_of_method(&CheckedMemory, at));
    id.unwrap_or(0) as jmethodID
}

/// `ASGST_JMethodIDToMethod`.
pub extern "C" fn jmethod_id_to_method(id: jmethodID) -> Method {
    let method = Vm::get().and_then(|vm| {
        let method = vm.reference.method_of_id(&CheckedMemory, id as u64)?;
        vm.methods.method(method).map(|_| method)
    });
    Method(method.map_or(0, |method| method.0 as usize))
}

/// `ASGST_GetMethodInfo`.
///
/// # Safety
/// `info` is null or can be written, and so can the room that it names.
pub unsafe extern "C" fn get_method_info(method: Method, info: *mut MethodInfo) {
    // SAFETY: the caller's promise.
    let Some(info) = (unsafe { info.as_mut() }) else {
        return;
    };
    let found = describe(method).unwrap_or(Description {
        modifiers: -1,
        number: -1,
        ..Description::default()
    });
    // SAFETY: the caller's promise.
    unsafe {
        text::write(found.name, info.method_name, &mut info.method_name_length);
        text::write(found.signature, info.signature, &mut info.signature_length);
        text::write(
            found.generic,
            info.generic_signature,
            &mut info.generic_signature_length,
        );
    }
    info.klass = found.class;
    info.modifiers = found.modifiers;
    info.idnum = found.number;
    info.class_idnum = get_class_id_num(info.klass);
}

/// `ASGST_GetMethodIdNum`.
pub extern "C" fn get_method_id_num(method: Method) -> i32 {
    let number = of(method).and_then(|(vm, method)| vm.methods.id_number(&method));
    number.map_or(-1, i32::from)
}

/// `ASGST_GetMethodLineNumberTable`.
///
/// # Safety
/// `entries` is null, or `length` of them can be written.
pub unsafe extern "C" fn get_method_line_number_table(
    method: Method,
    entries: *mut LineNumberEntry,
    length: c_int,
) -> c_int {
    let Some(lines) = of(method).and_then(|(vm, method)| lines::Lines::of(&vm.methods, &method))
    else {
        return 0;
    };
    let room = if entries.is_null() {
        0
    } else {
        length.max(0) as usize
    };
    let mut count = 0;
    for entry in lines {
        if count < room {
            // SAFETY: the caller's promise; it need not be aligned.
            unsafe { entries.add(count).write_unaligned(entry) };
        }
        count += 1;
    }
    count as c_int
}

/// `ASGST_GetMethodLineNumber`.
pub extern "C" fn get_method_line_number(method: Method, bci: i32) -> i32 {
    let line = of(method).and_then(|(vm, method)| {
        let lines = lines::Lines::of(&vm.methods, &method)?;
        lines::line_of(lines, bci)
    });
    line.unwrap_or(-1)
}

/// `ASGST_GetClass`.
pub extern "C" fn get_class(method: Method) -> Class {
    Class(of(method).map_or(0, |(_, method)| method.class.0 as usize))
}

/// `ASGST_GetClassInfo`.
///
/// # Safety
/// `info` is null or can be written, and so can the room that it names.
pub unsafe extern "C" fn get_class_info(class: Class, info: *mut ClassInfo) {
    // SAFETY: the caller's promise.
    let Some(info) = (unsafe { info.as_mut() }) else {
        return;
    };
    let found = describe_class(class);
    let name = found.map(|(name, _, _)| name);
    let generic = found.and_then(|(_, generic, _)| generic);
    // SAFETY: the caller's promise.
    unsafe {
        text::write(name, info.class_name, &mut info.class_name_length);
        text::write(
            generic,
            info.generic_class_name,
            &mut info.generic_class_name_length,
        );
    }
    info.modifiers = found.map_or(-1, |(_, _, flags)| flags);
    info.idnum = get_class_id_num(class);
}

/// `ASGST_GetClassIdNum`: HotSpot numbers no classes, but two of them are never at one place.
pub extern "C" fn get_class_id_num(class: Class) -> i64 {
    describe_class(class).map_or(-1, |_| class.0 as i64)
}

/// `ASGST_JClassToClass`. The mirror is read as it lies in the heap.
pub extern "C" fn jclass_to_class(class: jclass) -> Class {
    let found = Vm::get().and_then(|vm| {
        let slot = Address(class as u64 & !REFERENCE_TAG);
        let mirror = CheckedMemory.read_pointer(slot).ok()?;
        vm.methods.class_of_mirror(mirror)
    });
    Class(found.map_or(0, |class| class.0 as usize))
}

/// `ASGST_ClassToJClass`, by asking each loaded class; not signal-safe.
pub extern "C" fn class_to_jclass(class: Class) -> jclass {
    let found = class_at(class).and_then(|(vm, _)| {
        let env = vm.own_env()?;
        // SAFETY: the calling thread's.
        let found = unsafe {
            vm.jvmti
                .find_class(env, &mut |found| jclass_to_class(found) == class)
        };
        found.ok()?
    });
    found.unwrap_or(std::ptr::null_mut())
}
