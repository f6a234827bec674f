//! The code under test, behind one trait.
//!
//! A [`Walker`] says how to call an asynchronous stack walker: what it walks from, how its output is laid out and what its
//! codes mean. The call itself is made by an engine, under a guard; see [`Walker`] for the contract of both sides.

mod agct;
#[cfg(test)]
mod example;
mod trace;
mod walker;

pub use agct::Agct;
pub use trace::{CANARY, CallTrace, Frame, MAX_DEPTH, TraceBuffer};
pub use walker::{Call, Start, ThreadHandle, WalkFunction, Walker};
