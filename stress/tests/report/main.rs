//! Reports of stress runs: every format, shards put together, runs beside each other.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test itself"
)]

mod browser;
mod compared;
mod fixture;
mod formats;
mod merged;
mod schema;
