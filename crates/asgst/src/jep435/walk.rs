//! The walk itself, and the room for its frames.

use std::ffi::{c_int, c_void};

use walkfuzz_context::Address;
use walkfuzz_context::Registers;
use walkfuzz_reference::{
    CheckedMemory, End, FrameKind, NATIVE_BCI, NativeFrame, ReferenceFrame, Thread,
};
use walkfuzz_vmstructs::Span;

use crate::abi::jep435::{
    CallFrame, JavaFrame, NO_BCI, NonJavaFrame, early_frame_type, error, frame_type,
};
use crate::stack::{Found, From, StackWalk};
use crate::vm::Vm;

/// What of a thread's stack that the JVM does not know is looked at: glibc makes stacks of 8 MiB.
const FOREIGN_STACK: u64 = 8 << 20;

/// Which ABI the frames are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Early,
    Late,
}

/// Room for frames.
pub(super) struct Room<'a> {
    frames: &'a mut [CallFrame],
    count: usize,
    form: Form,
}

impl Room<'_> {
    /// `None` where there is none.
    ///
    /// # Safety
    /// `frames` is null, or has room for `depth`.
    pub(super) unsafe fn new<'a>(
        frames: *mut CallFrame,
        depth: i32,
        form: Form,
    ) -> Option<Room<'a>> {
        let depth = usize::try_from(depth).ok().filter(|depth| *depth > 0)?;
        let is_room = !frames.is_null() && frames.is_aligned();
        is_room.then(|| Room {
            // SAFETY: the caller's promise.
            frames: unsafe { std::slice::from_raw_parts_mut(frames, depth) },
            count: 0,
            form,
        })
    }

    /// Whether there was room.
    fn push(&mut self, frame: CallFrame) -> bool {
        let Some(slot) = self.frames.get_mut(self.count) else {
            return false;
        };
        *slot = frame;
        self.count += 1;
        true
    }

    fn non_java(&mut self, kind: u8, pc: u64) -> bool {
        self.push(CallFrame {
            non_java: NonJavaFrame {
                kind,
                pc: pc as *mut c_void,
            },
        })
    }

    fn java(&mut self, vm: &Vm, frame: &ReferenceFrame) -> bool {
        let is_native = frame.bci == NATIVE_BCI;
        let kind = match frame.kind {
            _ if is_native => frame_type::NATIVE,
            FrameKind::Inlined => frame_type::JAVA_INLINED,
            _ => frame_type::JAVA,
        };
        let comp_level = match frame.kind {
            FrameKind::NativeWrapper => -1,
            _ => frame.level,
        };
        let id = vm.reference.id_of_method(&CheckedMemory, frame.method);
        self.push(CallFrame {
            java: JavaFrame {
                kind,
                comp_level,
                // Native methods' and others below 0 have no room either.
                bci: u16::try_from(frame.bci).unwrap_or(NO_BCI),
                method_id: id.unwrap_or(0) as *mut c_void,
            },
        })
    }

    fn found(&mut self, vm: &Vm, found: &Found<'_>) -> bool {
        let cpp = match self.form {
            Form::Early => early_frame_type::CPP,
            Form::Late => frame_type::CPP,
        };
        match found {
            Found::Java(frame) => self.java(vm, frame),
            Found::Stub(frame) if self.form == Form::Early => {
                self.non_java(early_frame_type::STUB, frame.pc.0)
            }
            Found::Stub(frame) => self.non_java(cpp, frame.pc.0),
            Found::Native(frame) => self.non_java(cpp, frame.pc.0),
        }
    }
}

/// Walks a Java thread: frames, or why there are none.
pub(super) fn walk_java(
    vm: &'static Vm,
    thread: &Thread,
    registers: &Registers,
    room: &mut Room<'_>,
    all: bool,
) -> c_int {
    let mut walk = StackWalk::new(vm, *thread, From::Context(registers), all);
    let end = loop {
        match walk.next() {
            Ok(found) => {
                if !room.found(vm, &found) {
                    break End::Full;
                }
            }
            Err(end) => break end,
        }
    };
    match (room.count, end) {
        (0, End::Bottom | End::NoJavaFrames) => error::NO_JAVA_FRAME,
        (0, _) if !thread.in_java => error::NOT_WALKABLE_NOT_JAVA,
        (0, End::NoCode(_) | End::NoFrame(_)) => error::UNKNOWN_JAVA,
        (0, _) => error::NOT_WALKABLE_JAVA,
        (count, _) => count as c_int,
    }
}

/// Walks C frames alone; without a wish for them there are none.
pub(super) fn walk_c(vm: &Vm, registers: &Registers, room: &mut Room<'_>, all: bool) -> c_int {
    if !all {
        return error::NO_JAVA_FRAME;
    }
    let sp = registers.sp().0;
    let stack = Span::sized(Address(sp), FOREIGN_STACK);
    let mut next = Some(NativeFrame {
        pc: registers.pc(),
        sp: registers.sp(),
        fp: registers.fp(),
    });
    let kind = match room.form {
        Form::Early => early_frame_type::CPP,
        Form::Late => frame_type::CPP,
    };
    while let Some(frame) = next.filter(|frame| frame.pc.0 != 0) {
        if !room.non_java(kind, frame.pc.0) {
            break;
        }
        next = frame.caller(&vm.reference, &CheckedMemory, &stack).ok();
    }
    match room.count {
        0 => error::UNKNOWN_NOT_JAVA,
        count => count as c_int,
    }
}
