//! A stack walker of our own: the second opinion on every context.
//!
//! [`Reference`] walks the Java frames of a thread from any register context, in a live JVM, a frozen copy or a file. It knows HotSpot 11, 17, 21 and 25 from
//! their VMStructs and, where those say nothing (slots of frames, what the compilers' prologues look like), from their sources. docs/reference-walker.md
//! has how it compares with AsyncGetCallTrace.
//!
//! Contract of a walk, whatever the registers and whatever the memory holds:
//! - it reads through the [`Memory`](walkfuzz_vmstructs::Memory) that it is given and nothing else; what cannot be read ends the walk;
//! - it ends: each frame lies above the one before, and none above the thread's stack;
//! - it allocates nothing, locks nothing and never panics: it is made for signal handlers.

#![forbid(unsafe_code)]

mod arch;
mod checked;
mod continuation;
mod debug_info;
mod frame;
mod method;
mod native;
mod reference;
mod start;
mod steps;
mod thread;
mod unsigned5;
mod walk;

pub use checked::CheckedMemory;
pub use frame::{End, FrameKind, Frames, NATIVE_BCI, ReferenceFrame, Trust, Walk};
pub use native::NativeFrame;
pub use reference::{Reference, ReferenceError};
pub use steps::Steps;
pub use thread::{Anchor, Thread};
pub use unsigned5::Encoding;
