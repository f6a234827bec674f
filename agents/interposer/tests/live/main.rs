//! The agent in real JVMs, before profilers that were made for the test.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../sampler/tests/live/jdks.rs"]
mod jdks;
#[path = "../../../sampler/tests/live/jvms.rs"]
mod jvms;
mod planted;
mod refusals;
mod support;
