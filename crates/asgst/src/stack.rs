//! A thread's stack, one frame at a time: the reference walker's frames, and those of C and C++ between them.
//!
//! Contract: signal-safe; a walk lies on its caller's stack and refers to nothing but the JVM.

use std::mem::{self, MaybeUninit};

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_reference::{
    Anchor, CheckedMemory, End, FrameKind, Frames, NativeFrame, ReferenceFrame, Steps, Thread,
};

use crate::vm::Vm;

/// Frames that are found at once; more than one only where methods were inlined.
const WINDOW: usize = 8;

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// Of a method.
    Java(&'a ReferenceFrame),
    /// The JVM's: a stub, or the way into Java.
    Stub(&'a ReferenceFrame),
    /// C or C++.
    Native(NativeFrame),
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// A context: the thread's anchor where it is not in Java.
    Context(&'a Registers),
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
    /// Whether stubs and C are wanted as well.
    all: bool,
    /// Where it began: the thread stands still, so that this stays true.
    beginning: Steps,
    steps: Steps,
    window: Window,
    /// Frames of the present position that were taken out of earlier windows.
    given: usize,
    end: Option<End>,
    /// The C frame that the registers are in, if it is wanted.
    innermost: Option<NativeFrame>,
    /// The C frame that comes next, unless a frame of the reference's lies below it.
    native: Option<NativeFrame>,
    /// The bytecode index of the first frame of a method, where somebody knows better than the frame.
    first_bci: Option<i32>,
    /// Whether that one has been given.
    begun: bool,
}

/// Frames up to `count`; the others are not even written, as most positions have one frame.
#[derive(Clone, Debug)]
struct Window {
    frames: [MaybeUninit<ReferenceFrame>; WINDOW],
    next: usize,
    count: usize,
}

impl Window {
    const EMPTY: Self = Self {
        frames: [MaybeUninit::uninit(); WINDOW],
        next: 0,
        count: 0,
    };

    /// The frame that comes next.
    #[inline]
    fn upcoming(&mut self) -> Option<&mut ReferenceFrame> {
        self.at(self.next)
    }

    #[inline]
    fn take(&mut self) -> Option<&mut ReferenceFrame> {
        self.next += 1;
        self.at(self.next - 1)
    }

    #[inline]
    fn at(&mut self, index: usize) -> Option<&mut ReferenceFrame> {
        let frame = self.frames.get_mut(..self.count)?.get_mut(index)?;
        // SAFETY: `push` wrote all that lie below `count`.
        Some(unsafe { frame.assume_init_mut() })
    }

    #[inline]
    fn push(&mut self, frame: &ReferenceFrame) -> bool {
        let Some(slot) = self.frames.get_mut(self.count) else {
            return false;
        };
        slot.write(*frame);
        self.count += 1;
        true
    }
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
        self.window.push(frame)
    }
}

impl StackWalk {
    /// Over the stack of `thread`, which is the calling one or stands still.
    #[inline]
    pub(crate) fn new(vm: &'static Vm, mut thread: Thread, from: From<'_>, all: bool) -> Self {
        let mut made;
        let registers = match from {
            From::Context(context) => context,
            From::Frame(frame) => {
                made = Registers::zeroed(Arch::NATIVE);
                made.set(Arch::NATIVE.pc(), frame.pc.0);
                made.set(Arch::NATIVE.sp(), frame.sp.0);
                made.set(Arch::NATIVE.fp(), frame.fp.0);
                // The frame says where to begin, and nothing else does.
                (thread.anchor, thread.in_java) = (Anchor::default(), true);
                &made
            }
            From::Anchor => {
                made = Registers::zeroed(Arch::NATIVE);
                thread.in_java = false;
                &made
            }
        };
        let innermost = all.then(|| NativeFrame {
            pc: registers.pc(),
            sp: registers.sp(),
            fp: registers.fp(),
        });
        let beginning = vm.reference.begin(&CheckedMemory, &thread, registers);
        Self {
            vm,
            thread,
            all,
            beginning,
            steps: beginning,
            window: Window::EMPTY,
            given: 0,
            end: None,
            innermost,
            native: innermost,
            first_bci: None,
            begun: false,
        }
    }

    /// The same walk, whose first frame of a method is at `bci`, whatever the frame says by now.
    pub(crate) fn with_first_bci(mut self, bci: Option<i32>) -> Self {
        self.first_bci = bci;
        self
    }

    /// Back to the first frame.
    pub(crate) fn rewind(&mut self) {
        self.steps = self.beginning;
        (self.window.next, self.window.count) = (0, 0);
        (self.given, self.end, self.begun) = (0, None, false);
        self.native = self.innermost;
    }

    /// That the window has what the reference finds next.
    ///
    /// # Errors
    /// Why there is nothing.
    #[inline(always)]
    pub(crate) fn look_ahead(&mut self) -> Result<(), End> {
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
        Ok(())
    }

    /// The next frame.
    ///
    /// # Errors
    /// Why there is none.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Found<'_>, End> {
        let has_method = loop {
            let ahead = self.look_ahead();
            if self.native.is_some()
                && let Some(native) = self.next_native()
            {
                return Ok(Found::Native(native));
            }
            ahead?;
            let Some(frame) = self.window.upcoming() else {
                return Err(End::TooMany);
            };
            let has_method = frame.kind.has_method();
            if has_method || self.all {
                break has_method;
            }
            self.window.next += 1;
        };
        if !has_method {
            self.native = self.below_entry();
        }
        let first_bci = self
            .first_bci
            .filter(|_| has_method && !mem::replace(&mut self.begun, true));
        let frame = self.window.take().ok_or(End::TooMany)?;
        if let Some(bci) = first_bci {
            frame.bci = bci;
        }
        Ok(if has_method {
            Found::Java(frame)
        } else {
            Found::Stub(frame)
        })
    }

    /// The C frame that called Java, if that is what comes; else what came before stays.
    fn below_entry(&mut self) -> Option<NativeFrame> {
        match self.window.upcoming() {
            Some(entry) if entry.kind == FrameKind::Entry => {
                let native = NativeFrame {
                    pc: entry.pc,
                    sp: entry.sp,
                    fp: entry.fp,
                };
                self.caller(&native)
            }
            _ => self.native,
        }
    }

    /// The C frame that lies below what comes.
    fn next_native(&mut self) -> Option<NativeFrame> {
        let native = self.native.take()?;
        let limit = match self.window.upcoming() {
            Some(frame) => frame.sp.0,
            None => self.thread.stack.end.0,
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
