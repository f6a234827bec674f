//! Tests of triage on real crash logs and lists.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crash_corpus;
mod crash_stacks;
mod findings;
mod hs_err;
mod intervals;
mod issues;
mod processes;
mod signatures;
mod versions;
