//! What a walk gives: frames, and why it ended.

use walkfuzz_context::{Address, Fp, Pc, Sp};

/// The bci that native methods have, as AsyncGetCallTrace gives it.
pub const NATIVE_BCI: i32 = -3;

/// What kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A Java method in the interpreter.
    Interpreted,
    /// The outermost method of a compiled frame.
    Compiled,
    /// A method that was inlined into a compiled frame.
    Inlined,
    /// The compiled wrapper of a native method.
    NativeWrapper,
    /// The call stub: C++ called Java here.
    Entry,
    /// A stub of the JVM's.
    Stub,
}

impl FrameKind {
    /// Whether the frame belongs to a Java method, and an AsyncGetCallTrace would have it.
    #[must_use]
    pub const fn has_method(self) -> bool {
        match self {
            FrameKind::Interpreted
            | FrameKind::Compiled
            | FrameKind::Inlined
            | FrameKind::NativeWrapper => true,
            FrameKind::Entry | FrameKind::Stub => false,
        }
    }

    /// Stable short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrameKind::Interpreted => "interpreted",
            FrameKind::Compiled => "compiled",
            FrameKind::Inlined => "inlined",
            FrameKind::NativeWrapper => "native-wrapper",
            FrameKind::Entry => "entry",
            FrameKind::Stub => "stub",
        }
    }
}

/// How a frame was found; the less certain, the greater. A frame is no more certain than the frame that it was found from, up to the next
/// anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// The JVM wrote it down for stack walkers: a frame anchor.
    Anchor,
    /// By what the JVM's tables say about code: frame sizes, slots of the interpreter, debug information.
    Table,
    /// By what code of this kind usually does.
    Guess,
}

impl Trust {
    /// Stable short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Trust::Anchor => "anchor",
            Trust::Table => "table",
            Trust::Guess => "guess",
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceFrame {
    /// The `Method*`; null for frames without one.
    pub method: Address,
    /// Bytecode index: [`NATIVE_BCI`] for native methods, -1 at a synchronised method's entry, 0 where nothing is known.
    pub bci: i32,
    /// Tier: 0 for the interpreter and for wrappers, 1 to 3 for C1, 4 for C2.
    pub level: i8,
    /// What kind of frame.
    pub kind: FrameKind,
    /// How it was found.
    pub trust: Trust,
    /// Where it is; of a deoptimised frame where it was. Inlined frames share it.
    pub pc: Pc,
    /// Whether it has been deoptimised: it will go on in the interpreter when it is returned to.
    pub is_deoptimised: bool,
    /// Its stack pointer, as the frame itself sees it.
    pub sp: Sp,
    /// What its frame pointer register holds.
    pub fp: Fp,
}

impl ReferenceFrame {
    /// No frame.
    pub const NONE: ReferenceFrame = ReferenceFrame {
        method: Address(0),
        bci: 0,
        level: 0,
        kind: FrameKind::Stub,
        trust: Trust::Guess,
        pc: Pc(0),
        is_deoptimised: false,
        sp: Sp(0),
        fp: Fp(0),
    };
}

/// What takes the frames of a walk, the innermost first.
pub trait Frames {
    /// Takes one; `false` if there is no room, which ends the walk as [`End::Full`]. Called in signal handlers: it must not allocate, lock or panic.
    fn push(&mut self, frame: &ReferenceFrame) -> bool;
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All frames are there.
    Bottom,
    /// The thread has no Java frames.
    NoJavaFrames,
    /// There is room for no more frames.
    Full,
    /// Something on the way cannot be read.
    Unreadable(Address),
    /// A frame would lie outside the thread's stack.
    OutsideStack(Sp),
    /// A frame would not lie above the one it called: a cycle.
    NotAscending(Sp),
    /// No code that a frame can belong to.
    NoCode(Pc),
    /// Code that says nothing about its frames.
    NoFrame(Pc),
    /// An interpreter frame without a method that makes sense.
    BadMethod(Address),
    /// A foreign caller's stub, which is not understood.
    Upcall(Pc),
    /// More frames than a stack can have.
    TooMany,
}

impl End {
    /// Stable short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            End::Bottom => "bottom",
            End::NoJavaFrames => "no-java-frames",
            End::Full => "full",
            End::Unreadable(_) => "unreadable",
            End::OutsideStack(_) => "outside-stack",
            End::NotAscending(_) => "not-ascending",
            End::NoCode(_) => "no-code",
            End::NoFrame(_) => "no-frame",
            End::BadMethod(_) => "bad-method",
            End::Upcall(_) => "upcall",
            End::TooMany => "too-many",
        }
    }
}

/// What a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// How many frames were written.
    pub frames: usize,
    /// Why there are no more.
    pub end: End,
}
