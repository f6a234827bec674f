//! The agent in real JVMs.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod asgst;
mod attaching;
mod clocks;
#[path = "../../../../plugins/compile.rs"]
mod compile;
mod faults;
mod jdks;
mod jvms;
mod plugins;
mod refusals;
mod remote;
mod sampling;
mod support;
