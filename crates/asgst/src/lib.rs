//! ASGST on stock JVMs: the APIs that existed only in forks of the JDK, over the reference walker.
//!
//! - [`abi`]: names, values and layouts of each generation; the same in C stands in `include/`.
//! - [`Api`]: tables of functions, ours ([`Api::own`]) or a library's ([`Api::of_library`]).
//! - [`Vm`]: the JVM that our functions answer for; it is made known once.
//!
//! Nothing is exported from here: `agents/asgst` gives the functions their C names.
//!
//! Contract of our functions: those that are signal-safe allocate nothing, lock nothing, and read the JVM's and the stack's memory by the guard's
//! checked load; whatever they are given, they answer with an error and do not fault. docs/asgst.md has each of them.

pub mod abi;
pub mod api;
mod frame_walker;
pub mod iterator;
pub mod jep435;
mod jep435_walker;
pub mod methods;
pub mod minimal;
pub mod queue;
mod safepoint;
mod stack;
mod thread;
pub mod unload;
mod vm;
mod walker;

pub use api::Api;
pub use frame_walker::{FrameWalk, FrameWalker};
pub use jep435_walker::Jep435Walker;
pub use safepoint::{HookError, PollError, SafepointError};
pub use vm::{Vm, VmError};
pub use walker::{IteratorWalker, take_frames};
