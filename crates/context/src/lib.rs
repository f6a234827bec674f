//! Register contexts, perturbations, tiers and witness classes of asynchronous stack walks.
//!
//! Contract: no unsafe code, no I/O; everything on the walking path (decode, apply, classify) is free of allocation and
//! locks, so that it may run in a signal handler.
#![forbid(unsafe_code)]

pub mod address;
pub mod arch;
pub mod blob;
pub mod registers;

pub use address::{Address, Fp, Pc, Sp};
pub use blob::BlobKind;
pub use registers::{Arch, MAX_REGISTERS, Register, Registers};
