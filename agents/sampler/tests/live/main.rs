//! The agent in real JVMs.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod attaching;
mod clocks;
mod faults;
mod jvms;
mod refusals;
mod remote;
mod sampling;
mod support;
