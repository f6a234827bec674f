//! A thread's stack, one frame at a time: the reference walker's frames, and those of C and C++ between them.
//!
//! Contract: signal-safe; a walk lies on its caller's stack and refers to nothing but the JVM.

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_reference::{
    Anchor, CheckedMemory, End, FrameKind, Frames, NativeFrame, ReferenceFrame, Steps, Thread,
};

use crate::vm::Vm;

/// Frames that are found at once; more than one only where methods were inlined.
const WINDOW: usize = 8;

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Of a method.
    Java(ReferenceFrame),
    /// The JVM's: a stub, or the way into Java.
    Stub(ReferenceFrame),
    /// C or C++.
    Native(NativeFrame),
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lies on the stack for a moment, and nothing can be allocated"
)]
pub(crate) enum From {
    /// A context: the thread's anchor where it is not in Java.
    Context(Registers),
    /// A frame, whatever the thread does.
    Frame(NativeFrame),
    /// The thread's anchor.
    Anchor,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct StackWalk {
    vm: &'static Vm,
    thread: Thread,
    registers: Registers,
    /// Whether stubs and C are wanted as well.
    all: bool,
    steps: Steps,
    window: Window,
    /// Frames of the present position that were taken out of earlier windows.
    given: usize,
    end: Option<End>,
    /// The C frame that comes next, unless a frame of the reference's lies below it.
    native: Option<NativeFrame>,
    /// The bytecode index of the first frame of a method, where somebody knows better than the frame.
    first_bci: Option<i32>,
    /// Whether that one has been given.
    begun: bool,
}

#[derive(Clone, Debug)]
struct Window {
    frames: [ReferenceFrame; WINDOW],
    next: usize,
    count: usize,
}

/// Fills a window with the frames behind those that are known.
struct Filling<'a> {
    window: &'a mut Window,
    skip: usize,
}

impl Frames for Filling<'_> {
    #[inline]
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        let Some(slot) = self.window.frames.get_mut(self.window.count) else {
            return false;
        };
        *slot = *frame;
        self.window.count += 1;
        true
    }
}

impl StackWalk {
    /// Over the stack of `thread`, which is the calling one or stands still.
    pub(crate) fn new(vm: &'static Vm, mut thread: Thread, from: From, all: bool) -> Self {
        let mut registers = Registers::zeroed(Arch::NATIVE);
        match from {
            From::Context(context) => registers.assign(&context),
            From::Frame(frame) => {
                registers.set(Arch::NATIVE.pc(), frame.pc.0);
                registers.set(Arch::NATIVE.sp(), frame.sp.0);
                registers.set(Arch::NATIVE.fp(), frame.fp.0);
                // The frame says where to begin, and nothing else does.
                (thread.anchor, thread.in_java) = (Anchor::default(), true);
            }
            From::Anchor => thread.in_java = false,
        }
        let steps = vm.reference.begin(&CheckedMemory, &thread, &registers);
        let window = Window {
            frames: [ReferenceFrame::NONE; WINDOW],
            next: 0,
            count: 0,
        };
        let mut walk = Self {
            vm,
            thread,
            registers,
            all,
            steps,
            window,
            given: 0,
            end: None,
            native: None,
            first_bci: None,
            begun: false,
        };
        walk.native = walk.innermost();
        walk
    }

    /// The same walk, whose first frame of a method is at `bci`, whatever the frame says by now.
    pub(crate) fn with_first_bci(mut self, bci: i32) -> Self {
        self.first_bci = Some(bci);
        self
    }

    /// Back to the first frame.
    pub(crate) fn rewind(&mut self) {
        let reference = &self.vm.reference;
        self.steps = reference.begin(&CheckedMemory, &self.thread, &self.registers);
        (self.window.next, self.window.count) = (0, 0);
        (self.given, self.end, self.begun) = (0, None, false);
        self.native = self.innermost();
    }

    /// The C frame that the registers are in.
    fn innermost(&self) -> Option<NativeFrame> {
        let frame = NativeFrame {
            pc: self.registers.pc(),
            sp: self.registers.sp(),
            fp: self.registers.fp(),
        };
        self.all.then_some(frame)
    }

    /// What the reference finds next, without taking it.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> Result<&ReferenceFrame, End> {
        while self.window.next >= self.window.count {
            if let Some(end) = self.end {
                return Err(end);
            }
            (self.window.next, self.window.count) = (0, 0);
            let mut filling = Filling {
                skip: self.given,
                window: &mut self.window,
            };
            let reference = &self.vm.reference;
            let step = reference.step(&CheckedMemory, &self.thread, &mut self.steps, &mut filling);
            match step {
                Ok(()) => self.given = 0,
                Err(End::Full) => self.given += self.window.count,
                Err(end) => self.end = Some(end),
            }
        }
        let upcoming = self.window.frames.get(self.window.next);
        upcoming.ok_or(End::TooMany)
    }

    /// The next frame.
    ///
    /// # Errors
    /// Why there is none.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Found, End> {
        loop {
            let upcoming = self.upcoming().copied();
            if let Some(native) = self.next_native(&upcoming) {
                return Ok(Found::Native(native));
            }
            let frame = upcoming?;
            self.window.next += 1;
            if frame.kind.has_method() {
                let first = self.first_bci.filter(|_| !self.begun);
                self.begun = true;
                let bci = first.unwrap_or(frame.bci);
                return Ok(Found::Java(ReferenceFrame { bci, ..frame }));
            }
            if self.all {
                if frame.kind == FrameKind::Entry {
                    self.native = self.caller(&NativeFrame {
                        pc: frame.pc,
                        sp: frame.sp,
                        fp: frame.fp,
                    });
                }
                return Ok(Found::Stub(frame));
            }
        }
    }

    /// The C frame that lies below what comes.
    #[inline]
    fn next_native(&mut self, upcoming: &Result<ReferenceFrame, End>) -> Option<NativeFrame> {
        let native = self.native.take()?;
        let limit = match upcoming {
            Ok(frame) => frame.sp.0,
            Err(_) => self.thread.stack.end.0,
        };
        let is_one = native.pc.0 != 0
            && (self.thread.stack.start.0..limit).contains(&native.sp.0)
            && !self.vm.reference.is_code(Address(native.pc.0));
        if !is_one {
            return None;
        }
        self.native = self.caller(&native);
        Some(native)
    }

    fn caller(&self, native: &NativeFrame) -> Option<NativeFrame> {
        let stack = &self.thread.stack;
        native
            .caller(&self.vm.reference, &CheckedMemory, stack)
            .ok()
    }
}
