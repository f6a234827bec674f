//! The program from outside: what bad input and a poor environment lead to. Tests that need a JVM say so when they skip.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "a test's helpers may fail loudly as well"
)]

mod compare;
#[path = "../../../../plugins/compile.rs"]
mod compile;
mod corpus;
mod explain;
mod export;
mod interpose;
mod jdks;
mod libraries;
mod replay;
mod replay_refused;
mod repros;
mod shared_code;
mod steps;
mod stress_drivers;
mod stress_refused;
mod stress_runs;
mod stress_suites;
mod stress_support;
mod support;
mod targets;
mod usage;
