//! Capsules: everything that one walk reads, in a file that replays without a JVM.
//!
//! A [`Capsule`] is the memory that a walk of a stack reads, page by page, its entry registers and the outcome that it must have.
//! [`capture`](capture::capture) takes it from a frozen copy of a process, [`Capsule::read`] and [`Capsule::write`] bring it from and to a file
//! (an ELF core inside zstd, which gdb opens), and [`Puppet`] replays it: a small child process with nothing mapped but the capsule,
//! watched with ptrace, which may execute code and do nothing else.
//!
//! Contract: a capsule is somebody's code. Reading one never panics and takes bounded memory; replaying one makes no system call, ends in
//! bounded time, and touches nothing outside its process. docs/capsules.md describes the format.

mod arch;
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "what replays and captures is not there")
)]
mod capsule;
#[cfg(target_arch = "x86_64")]
pub mod capture;
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "what replays and captures is not there")
)]
mod error;
mod example;
mod format;
#[cfg(target_arch = "x86_64")]
pub mod in_process;
mod opinion;
mod outcome;
#[cfg(target_arch = "x86_64")]
pub mod puppet;
mod request;
#[cfg(target_arch = "x86_64")]
pub mod resident;
mod resolve;
#[cfg(not(target_arch = "x86_64"))]
mod unsupported;
#[cfg(target_arch = "x86_64")]
mod walking;

pub use capsule::{
    Capsule, Content, Entry, Facts, FaultOutcome, FileFacts, FileMapping, FramesOutcome, Layout,
    Outcome, Page, PageBytes, Perturbed, Protection, SafeFetch, VERSION,
};
pub use error::{CaptureError, FormatError, InProcessError, PuppetError, ResidentError};
pub use example::example;
pub use format::limits;
pub use opinion::{KnownSymbol, Opinion, OpinionFacts, OpinionMemory};
pub use outcome::{Ended, ReturnedFrame};
pub use puppet::Puppet;
#[cfg(not(target_arch = "x86_64"))]
pub use unsupported::{capture, in_process, puppet, resident};
