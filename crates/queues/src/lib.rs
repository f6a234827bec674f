//! What the fuzz targets of queues and iterators do: inputs, oracles, findings. The targets themselves are glue.
//!
//! - [`jfr`]: JFR's queue of samples by CPU time, in a stock JVM of its own, which may die.
//! - [`own`]: ASGST's queue and iterators, in this process.
//! - [`targets`]: libFuzzer's entry points.
//!
//! Contract: not for handlers, but where a module says so.

mod end;
mod error;
mod finding;
pub mod jfr;
pub mod own;
pub mod targets;

pub use error::QueueError;
pub use finding::QueueFinding;
pub use walkfuzz_harness::libfuzzer::ASAN_OPTIONS;
