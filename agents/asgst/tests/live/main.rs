//! The ASGST library in real JVMs, before clients in C that were made for the test, and the small profiler of `examples/`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod clients;
#[path = "../../../sampler/tests/live/jdks.rs"]
mod jdks;
mod profiler;
mod queue;
mod support;
