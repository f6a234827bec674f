//! The minimal generation: walks from frames. Its safepoint callbacks are not here.
//!
//! Contract: signal-safe.

use std::ffi::{c_int, c_void};

use walkfuzz_context::{Address, Fp, Pc, Sp};
use walkfuzz_guard::read_registers;
use walkfuzz_reference::{CheckedMemory, End, FrameKind, NATIVE_BCI, NativeFrame, ReferenceFrame};

use crate::abi::iterator::error as iterator_error;
use crate::abi::minimal::{
    Frame, FrameInfo, JavaFrameCallback, NO_BCI, NonJavaFrameCallback, error, frame_type,
};
use crate::stack::{Found, From, StackWalk};
use crate::thread;
use crate::vm::Vm;

/// What a callback says to go on.
const GO_ON: c_int = 1;
/// What a walk says that came to its end.
const DONE: c_int = 1;

impl Frame {
    fn of(pc: Pc, sp: Sp, fp: Fp) -> Self {
        Self {
            pc: pc.0 as *mut c_void,
            sp: sp.0 as *mut c_void,
            fp: fp.0 as *mut c_void,
        }
    }

    fn native(self) -> NativeFrame {
        NativeFrame {
            pc: Pc(self.pc as u64),
            sp: Sp(self.sp as u64),
            fp: Fp(self.fp as u64),
        }
    }
}

/// `ASGST_WalkStackFromFrame`.
///
/// # Safety
/// The callbacks may be called with frames and `argument`. The frame may be anything.
pub unsafe extern "C" fn walk_stack_from_frame(
    frame: Frame,
    java: Option<JavaFrameCallback>,
    non_java: Option<NonJavaFrameCallback>,
    argument: *mut c_void,
    options: c_int,
) -> c_int {
    if options != 0 {
        return error::UNSUPPORTED_OPTION;
    }
    let (vm, thread) = match thread::own() {
        Ok(own) => own,
        Err(iterator_error::UNSAFE_STATE) => return error::UNKNOWN_STATE,
        Err(_) if Vm::get().is_none() => return error::NO_CLASS_LOAD,
        Err(_) => return error::THREAD_EXIT,
    };
    let in_code = vm.reference.is_code(Address(frame.pc as u64));
    let from = From::Frame(frame.native());
    let mut walk = StackWalk::new(vm, thread, from, non_java.is_some());
    let mut methods = 0_u32;
    loop {
        let (mut info, mut other) = (None, Frame::NONE);
        match walk.next() {
            Ok(Found::Java(found)) => {
                methods += 1;
                info = Some(of_java(vm, found));
            }
            Ok(Found::Stub(stub)) => other = Frame::of(stub.pc, stub.sp, stub.fp),
            Ok(Found::Native(native)) => other = Frame::of(native.pc, native.sp, native.fp),
            Err(end) => return of_end(&end, methods, in_code),
        }
        let answer = match (&mut info, java, non_java) {
            // SAFETY: the caller's promise.
            (Some(info), Some(java), _) => unsafe { java(info, argument) },
            // SAFETY: as above.
            (None, _, Some(non_java)) => unsafe { non_java(&mut other, argument) },
            _ => GO_ON,
        };
        if answer != GO_ON {
            return DONE;
        }
    }
}

fn of_end(end: &End, methods: u32, in_code: bool) -> c_int {
    match end {
        End::Bottom | End::NoJavaFrames if methods == 0 => error::NO_JAVA_FRAME,
        End::Bottom | End::NoJavaFrames => DONE,
        _ if !in_code && methods == 0 => error::NOT_WALKABLE_NOT_JAVA,
        End::NoCode(_) | End::NoFrame(_) => error::UNKNOWN_JAVA,
        _ => error::NOT_WALKABLE_JAVA,
    }
}

fn of_java(vm: &Vm, found: &ReferenceFrame) -> FrameInfo {
    let is_native = found.bci == NATIVE_BCI;
    let kind = match found.kind {
        _ if is_native => frame_type::JAVA_NATIVE,
        FrameKind::Inlined => frame_type::JAVA_INLINED,
        _ => frame_type::JAVA,
    };
    let comp_level = match found.kind {
        FrameKind::NativeWrapper => -1,
        _ => c_int::from(found.level),
    };
    let id = vm.reference.id_of_method(&CheckedMemory, found.method);
    FrameInfo {
        kind,
        comp_level,
        bci: if is_native { NO_BCI } else { found.bci },
        method: id.unwrap_or(0) as *mut c_void,
        frame: Frame::of(found.pc, found.sp, found.fp),
    }
}

/// `ASGST_IsJavaFrame`.
pub extern "C" fn is_java_frame(frame: Frame) -> c_int {
    let pc = Address(frame.pc as u64);
    let blob = Vm::get().and_then(|vm| vm.reference.blob_at(&CheckedMemory, pc));
    c_int::from(blob.is_some_and(|blob| blob.code.contains(pc)))
}

/// `ASGST_GetFrame`.
///
/// # Safety
/// `context` is null or the calling thread's `ucontext_t`.
pub unsafe extern "C" fn get_frame(context: *mut c_void, focus_on_java: bool) -> Frame {
    let Ok((vm, thread)) = thread::own() else {
        return Frame::NONE;
    };
    let registers;
    let from = if context.is_null() {
        From::Anchor
    } else {
        // SAFETY: the caller's promise.
        registers = unsafe { read_registers(context.cast()) };
        if !focus_on_java {
            return Frame::of(registers.pc(), registers.sp(), registers.fp());
        }
        From::Context(&registers)
    };
    let mut walk = StackWalk::new(vm, thread, from, false);
    match walk.next() {
        Ok(Found::Java(found)) => Frame::of(found.pc, found.sp, found.fp),
        _ => Frame::NONE,
    }
}

/// `ASGST_ComputeTopFrameAtSafepoint`.
pub extern "C" fn compute_top_frame_at_safepoint(captured: Frame) -> Frame {
    let Ok((vm, thread)) = thread::own() else {
        return Frame::NONE;
    };
    let blob = |pc: u64| {
        let blob = vm.reference.blob_at(&CheckedMemory, Address(pc));
        blob.map(|blob| blob.code)
    };
    let mut walk = StackWalk::new(vm, thread, From::Anchor, false);
    while let Ok(Found::Java(found)) = walk.next() {
        if found.sp.0 == captured.sp as u64 && blob(found.pc.0) == blob(captured.pc as u64) {
            return captured;
        }
        if found.sp.0 >= captured.sp as u64 {
            return Frame::of(found.pc, found.sp, found.fp);
        }
    }
    Frame::NONE
}
