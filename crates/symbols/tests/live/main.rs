//! Tests against real files: this program, the C library, the vdso and the JDKs of this machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod disassembly;
mod jdks;
mod libjvm;
mod modules;
mod names;
mod safefetch;
mod unwinding;
